"""Events as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .events import EventList, memory_text, time_text

Column = tuple[str, Callable[[Any], str]]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0.0:.2f}%"


def _columns(events: EventList, rows: list[Any], unit: str | None) -> list[Column]:
    host, device = events.self_cpu_time_total, events.self_device_time_total
    columns: list[Column] = [
        ("Name", lambda e: e.key),
        ("Self CPU %", lambda e: _percent(e.self_cpu_time_total, host)),
        ("Self CPU", lambda e: time_text(e.self_cpu_time_total, unit)),
        ("CPU total %", lambda e: _percent(e.cpu_time_total, host)),
        ("CPU total", lambda e: time_text(e.cpu_time_total, unit)),
        ("CPU time avg", lambda e: time_text(e.cpu_time, unit)),
    ]
    name = next((e.use_device.upper() for e in rows if e.use_device), "")
    if name:
        columns += [
            (f"Self {name}", lambda e: time_text(e.self_device_time_total, unit)),
            (f"Self {name} %", lambda e: _percent(e.self_device_time_total, device)),
            (f"{name} total", lambda e: time_text(e.device_time_total, unit)),
            (f"{name} time avg", lambda e: time_text(e.device_time, unit)),
        ]
    if events.memory:
        columns += [("CPU Mem", lambda e: memory_text(e.cpu_memory_usage)),
                    ("Self CPU Mem", lambda e: memory_text(e.self_cpu_memory_usage))]
        if name:
            columns += [(f"{name} Mem", lambda e: memory_text(e.device_memory_usage)),
                        (f"Self {name} Mem", lambda e: memory_text(e.self_device_memory_usage))]
    columns.append(("# of Calls", lambda e: str(e.count)))
    if events.shapes:
        columns.append(("Input Shapes", lambda e: str(e.input_shapes)))
    if events.stacks:
        columns.append(("Source Location", lambda e: e.stack[0] if e.stack else ""))
    if events.flops:
        columns.append(("Total MFLOPs", lambda e: f"{e.flops / 1e6:.3f}" if e.flops else "--"))
    return columns


def table_of(events: EventList, sort_by: str | None, row_limit: int, widths: dict[str, int], header: str | None,
             top_level_only: bool, unit: str | None) -> str:
    """Return the text of ``EventList.table``, which documents the arguments."""
    rows = list(events)
    if top_level_only:
        rows = [e for e in rows if getattr(e, "cpu_parent", None) is None]
    if sort_by is not None:
        rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
    if row_limit >= 0:
        rows = rows[:row_limit]
    if not rows:
        return ""
    columns = _columns(events, rows, unit)
    cells = [[_cut(text(e), widths.get(title, 0)) for title, text in columns] for e in rows]
    sizes = [max(len(title), *(len(row[k]) for row in cells)) for k, (title, _) in enumerate(columns)]
    rule = "  ".join("-" * size for size in sizes)
    lines = [rule, _line([title for title, _ in columns], sizes), rule, *(_line(row, sizes) for row in cells), rule]
    lines.append(f"Self CPU time total: {time_text(events.self_cpu_time_total, unit)}")
    if any(title.endswith(" time avg") and not title.startswith("CPU") for title, _ in columns):
        lines.append(f"Self device time total: {time_text(events.self_device_time_total, unit)}")
    return "\n".join([*([header] if header else []), *lines, ""])


def _cut(text: str, width: int) -> str:
    return text if not width or len(text) <= width else text[: width - 3] + "..."


def _line(cells: list[str], sizes: list[int]) -> str:
    return "  ".join(cell.rjust(size) for cell, size in zip(cells, sizes, strict=True)).rstrip()
