"""Events in the formats of other programs."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .memory import Change


def chrome_events(events: Iterable[Any], changes: Iterable[Change] = ()) -> list[dict[str, Any]]:
    """Return events and memory in the Trace Event format: complete events (``X``) and counters (``C``)."""
    process = os.getpid()
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "python"}}]
    for event in events:
        extra: dict[str, Any] = {"External id": event.id}
        if event.input_shapes:
            extra["Input Dims"] = event.input_shapes
        if event.stack:
            extra["Call stack"] = ";".join(event.stack)
        found.append({
            "ph": "X", "cat": "user_annotation" if event.is_user_annotation else "cpu_op", "name": event.name,
            "pid": process, "tid": event.thread, "ts": event.time_range.start, "dur": event.cpu_time_total,
            "args": extra,
        })  # fmt: skip
        if event.kernel_time:
            found.append({"ph": "X", "cat": "kernel", "name": event.name, "pid": process, "tid": event.use_device,
                          "ts": event.time_range.start, "dur": event.kernel_time, "args": {"External id": event.id}})
    found += [{"ph": "C", "name": f"memory {c.device}", "pid": process, "tid": 0, "ts": c.time,
               "args": {"bytes": c.total}} for c in changes]
    return found


def write_chrome_trace(path: str, events: Iterable[Any], changes: Iterable[Change] = (),
                       metadata: dict[str, Any] | None = None) -> None:
    """Write a trace as JSON; compressed if the path ends with ``.gz``."""
    trace = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}),
             "traceEvents": chrome_events(events, changes), "traceName": str(path)}
    text = json.dumps(trace).encode()
    Path(path).write_bytes(gzip.compress(text) if str(path).endswith(".gz") else text)
