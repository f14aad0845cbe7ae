"""Memory tracking: when an operator's result took memory, and when that memory was freed."""

from __future__ import annotations

import gzip
import json
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .collector import Collector


@dataclass(frozen=True, slots=True)
class Change:
    """Memory that was allocated or freed.

    Attributes:
        time: Microseconds since the profile began.
        nbytes: Number of bytes; negative for freed memory.
        device: The device.
        total: Bytes of live results on the device after the change.
        event: Name of the event at that time; empty outside of events.
    """

    time: float
    nbytes: int
    device: str
    total: int
    event: str


class MemoryLog:
    """A log of changes of memory by results of operators.

    Args:
        collector: The source of times and open events.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._known: dict[int, weakref.finalize[Any, Any]] = {}
        self._totals: dict[str, int] = {}
        self.changes: list[Change] = []

    def note(self, results: Iterable[Any], given: Iterable[Any]) -> None:
        """Add the memory of results if it is new and not that of arguments; subtract it when its last user is gone."""
        before = {id(_owner(tensor)[0]) for tensor in given}
        for tensor in results:
            owner, nbytes = _owner(tensor)
            if owner is not None and id(owner) not in self._known and id(owner) not in before:
                self._follow(tensor, owner, nbytes)

    def _follow(self, tensor: Any, owner: Any, nbytes: int) -> None:
        device, host = str(tensor.device), bool(tensor._device_state.runtime.profile.host_resident)
        final = weakref.finalize(owner, self._freed, id(owner), nbytes, device, host)
        final.atexit = False
        self._known[id(owner)] = final
        self._change(nbytes, device, host)

    def _freed(self, identity: int, nbytes: int, device: str, host: bool) -> None:
        del self._known[identity]
        self._change(-nbytes, device, host)

    def _change(self, nbytes: int, device: str, host: bool) -> None:
        event = self._collector.open[-1] if self._collector.open else None
        if event is not None:
            if host:
                event.self_cpu_memory_usage += nbytes
            else:
                event.self_device_memory_usage += nbytes
        total = self._totals[device] = self._totals.get(device, 0) + nbytes
        self.changes.append(Change(self._collector.now(), nbytes, device, total, event.name if event else ""))

    def close(self) -> None:
        """Stop tracking."""
        for final in self._known.values():
            final.detach()
        self._known.clear()


def _owner(tensor: Any) -> tuple[Any, int]:
    """Return the object that lives as long as a tensor's memory, and its bytes; None if it cannot be tracked."""
    array = tensor._array
    if not isinstance(array, np.ndarray):
        storage = getattr(array, "storage", None)
        return storage, 0 if storage is None else int(storage.nbytes)
    nbytes, owner = array.nbytes, array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
        nbytes = owner.nbytes
    if owner.base is None:
        return owner, nbytes
    return (owner.base, nbytes) if type(owner.base).__weakrefoffset__ else (None, 0)


def write_timeline(path: str, changes: list[Change], device: str | None) -> None:
    """Write changes of memory; see ``profile.export_memory_timeline``.

    Raises:
        ArgumentError: The extension of the path is not a known format.
    """
    names = {change.device for change in changes}
    wanted = [c for c in changes if device is None or c.device == device or c.device.split(":")[0] == device]
    if device is not None and changes and not wanted:
        raise ArgumentError("export_memory_timeline", f"device {device!r}", "its memory was measured",
                            f"use one of {', '.join(sorted(names))}")
    target = Path(path)
    if path.endswith((".json", ".json.gz")):
        text = json.dumps([[c.time for c in wanted], [c.total for c in wanted], [c.nbytes for c in wanted],
                           [c.event for c in wanted]]).encode()
        target.write_bytes(gzip.compress(text) if path.endswith(".gz") else text)
    elif path.endswith((".svg", ".png", ".pdf", ".html")):
        from ..utils.viz import memory_timeline

        memory_timeline(wanted, path)
    else:
        raise ArgumentError("export_memory_timeline", f"path {path!r}", "the path ends with the format",
                            "end it with .json, .json.gz, .svg, .png or .html")
