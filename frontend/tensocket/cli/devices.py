"""``tensocket devices``: one line for each device, with the reason and the next step if it is unavailable."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensocket_plugins.contract.registry import registry

from .survey import FAULTS, DeviceRow, memory, survey

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

#: Terminal width in columns from which a table is more readable than lines.
TABLE_WIDTH: Final = 120
_COLOURS: Final = {"available": "green", "initialised": "green", "unavailable": "yellow", "disabled": "dim",
                   "lost": "red", "broken": "red", "incompatible": "red"}


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("devices", help="list all devices, and why others are not available",
                                 description="List all devices, and why others are not available.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    rows = survey(registry())
    if options.json:
        print(json.dumps({"devices": [row.as_dict() for row in rows]}, indent=2))
    elif not rows:
        print("no backend is installed; start with: pip install tensocket-cpu")
    elif sys.stdout.isatty() and (console := Console()).width >= TABLE_WIDTH:
        console.print(as_table(rows))
    else:
        print(as_text(rows))
    strict = registry().switches().strict
    return int(strict and any(row.record.state in FAULTS for row in rows))


def as_table(rows: Sequence[DeviceRow]) -> Table:
    """Format a table for a wide terminal: long texts are wrapped, never truncated."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("device", "state", "reason and next step", "distribution", "model", "memory", "driver"):
        table.add_column(title, overflow="fold", no_wrap=title in ("device", "state", "memory"))
    for row in rows:
        reason = Text(row.reason)
        if row.advice:
            reason.append(f"\n→ {row.advice}", style="italic")
        info = row.info
        about = (info.model, memory(info.memory), info.driver) if info else ()
        table.add_row(Text(row.name), Text(row.state, style=_COLOURS.get(row.state, "")), reason,
                      Text(row.record.origin), *map(Text, about))
    return table


def as_text(rows: Sequence[DeviceRow]) -> str:
    """Format lines for files, pipes and narrow terminals: a device's reason and next step get lines of any length."""
    width = max(len(row.name) for row in rows) + 2
    lines = []
    for row in rows:
        first = f"{row.state}: {row.reason}" if row.reason else row.state
        if row.info:
            first += f"  {row.info.model}, {memory(row.info.memory)}, {row.info.driver}"
        lines.append(f"{row.name:<{width}}{first}  ({row.record.origin})")
        if row.advice:
            lines.append(f"{'':<{width}}next step: {row.advice}")
    return "\n".join(lines)
