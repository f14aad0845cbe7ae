"""The report of a run: JSON for programs, a summary for people, an exit code for scripts."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tensocket as ts

from . import __version__
from .case import TIERS, Outcome, Result
from .runner import Run
from .subject import Subject
from .suite import Selection

#: Version of the report's format: a new major version requires changes of its readers.
SCHEMA: Final = "1.0"
_COLOURS: Final = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.UNSUPPORTED: "cyan", Outcome.EXCLUDED: "dim",
                   Outcome.BLOCKED: "yellow", Outcome.NOT_RUN: "yellow"}


def exit_code(results: Sequence[Result]) -> int:
    """Return 0 if all cases ran and none failed, 1 after a failure, 2 if some or all cases did not run."""
    outcomes = {result.outcome for result in results}
    if Outcome.FAIL in outcomes:
        return 1
    return 2 if not results or Outcome.NOT_RUN in outcomes else 0


def reproduction(result: Result, subject: Subject) -> str:
    """Return the command that repeats one case."""
    return f"tensocket conformance repro '{result.case.id}' --device {subject.device} --seed {subject.seed}"


def as_dict(run: Run, results: Sequence[Result], selection: Selection, available: int,
            seconds: float) -> dict[str, Any]:
    """Return the whole report.

    Args:
        run: The finished run.
        results: Its results, in order.
        selection: The options that selected the cases.
        available: Number of all cases.
        seconds: Duration of the run.
    """
    subject = run.subject
    return {
        "schema": SCHEMA,
        "identity": {
            "suite": __version__, "core": str(ts.__version__), **_backend(subject), "device": subject.device,
            "seed": subject.seed, "tier": selection.highest, "pattern": selection.pattern,
            "mode": "quick" if selection.quick else "full", "command": sys.argv,
        },
        "environment": _environment(subject),
        "claims": {"dtypes": subject.dtypes, "features": sorted(subject.features),
                   "host_kernels": sorted(subject.host_kernels), "host_resident": subject.host_resident},
        "totals": {"available": available, "selected": len(results), "seconds": round(seconds, 3),
                   **_count(results), "by_tier": {tier: _count([r for r in results if r.case.tier == tier])
                                                  for tier in TIERS}},
        "cases": [_case(result, subject) for result in results],
        "graphs": {"served": sum(not reason for reason in subject.graphs.values()), "eager": _reasons(subject)},
        "failures": [{"message": message, "cases": ids} for message, ids in grouped(results)],
        "fallback_ledger": [{"operator": operator, "dtype": dtype, "kind": kind, "count": count, "bytes": size}
                            for (operator, dtype, kind), (count, size) in sorted(run.ledger.items())],
        "build_stats": _plain(ts.build_stats(subject.device)) if subject.usable else {},
    }


def _reasons(subject: Subject) -> dict[str, list[str]]:
    """Return the cases that no graph served, by reason, most frequent first."""
    found: dict[str, list[str]] = {}
    for case_id, reason in subject.graphs.items():
        if reason:
            found.setdefault(reason, []).append(case_id)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def write(path: Path, report: dict[str, Any]) -> None:
    """Write the report as JSON."""
    path.write_text(json.dumps(report, indent=1, default=str) + "\n", "utf-8")


def grouped(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """Group failures with the same message, most frequent first."""
    groups: dict[str, list[str]] = {}
    for result in results:
        if result.outcome is Outcome.FAIL:
            groups.setdefault(_root(result.message), []).append(result.case.id)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _root(message: str) -> str:
    """Return a message without its numbers, so that failures of one cause have equal messages."""
    return re.sub(r"-?(\d+\.?\d*(e[-+]?\d+)?|inf\b|nan\b)(, -?\d+)*", "#", message)[:100]


def _count(results: Sequence[Result]) -> dict[str, int]:
    counts = Counter(result.outcome for result in results)
    return {outcome.value: counts[outcome] for outcome in Outcome}


def _case(result: Result, subject: Subject) -> dict[str, Any]:
    row: dict[str, Any] = {"id": result.case.id, "outcome": result.outcome.value, "seconds": round(result.seconds, 5)}
    if result.metric is not None:
        row["metric"] = asdict(result.metric)
    if result.kernels:
        row["kernels"] = result.kernels
    if result.message:
        row["message"] = result.message
    if result.outcome in (Outcome.FAIL, Outcome.BLOCKED):
        row |= {"requires": list(result.case.requires), "repro": reproduction(result, subject)}
    if result.blocked_by:
        row["blocked_by"] = result.blocked_by
    if result.log:
        row["log"] = result.log
    return row


def _backend(subject: Subject) -> dict[str, Any]:
    record: Any = next(record for record in ts.backends() if record.name == subject.name)
    contract = record.descriptor.contract if record.descriptor else None
    return {"backend": record.distribution, "backend_version": record.version, "backend_contract": contract}


def _environment(subject: Subject) -> dict[str, Any]:
    info = _plain(ts.get_device_info(subject.device)) if subject.usable else {}
    return {"device": info, "python": platform.python_version(), "numpy": np.__version__, "system": platform.platform(),
            "machine": platform.machine(), "processors": os.cpu_count(), "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith("TENSOCKET_")}}


def _plain(value: Any) -> dict[str, Any]:
    """Return a record's attributes, or a mapping, as a dictionary; empty for None."""
    if value is None:
        return {}
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dict(value)


def show(console: Console, run: Run, results: Sequence[Result], selection: Selection, available: int,
         seconds: float) -> None:
    """Print the summary."""
    table = Table(title=f"conformance of {run.subject.device}")
    table.add_column("tier")
    for outcome in Outcome:
        table.add_column(outcome.value, justify="right", style=_COLOURS[outcome])
    for tier in TIERS:
        counts = _count([result for result in results if result.case.tier == tier])
        if any(counts.values()):
            table.add_row(tier, *(str(counts[outcome.value] or "") for outcome in Outcome))
    console.print(table)
    for message, ids in grouped(results)[:12]:
        console.print(Text(f"FAIL {len(ids)} × {message}", style="red"))
        first = run.results[ids[0]]
        console.print(Text(f"     {first.message.splitlines()[0][:300] if first.message else ''}"))
        console.print(Text(f"     {reproduction(first, run.subject)}", style="dim"))
    for message in dict.fromkeys(result.message for result in results if result.outcome is Outcome.NOT_RUN):
        console.print(Text(f"NOT RUN: {message}", style="yellow"))
    kernels, calls = sum(result.kernels for result in results), sum(count for count, _ in run.ledger.values())
    console.print(f"{len(results)} of {available} cases in {seconds:.1f} s, {kernels} kernels built, "
                  f"{calls} calls of host kernels")
    if run.subject.graphs:
        reasons = _reasons(run.subject)
        eager = sum(map(len, reasons.values()))
        console.print(f"graphs served {len(run.subject.graphs) - eager} of {len(run.subject.graphs)} compiled cases")
        for reason, ids in [*reasons.items()][:5]:
            console.print(Text(f"  {len(ids)} × {reason}"[:200], style="dim"))
    if selection.quick:
        console.print(Text("quick run: NOT A CERTIFICATION RUN", style="bold yellow"))
