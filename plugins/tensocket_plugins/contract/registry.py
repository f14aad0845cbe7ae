"""All installed or added backends, each with its state; the only place that loads and opens them.

The first query reads metadata and imports nothing; the first use of a device name imports the backend of that name
and no other. There are two locks: ``_lock`` guards the table and is never held while a backend's code runs, so a
backend may query other backends from any thread; ``_loading``, which is re-entrant, lets one thread at a time load or
open.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from .admission import admit, name_fault
from .backend import Backend, OpenDevice, Unavailable
from .descriptor import DeviceInfo
from .devices import MEANT, NAME, Device
from .entrypoints import ENTRY_POINT_GROUP, Offer, closest, offers
from .errors import (
    ArgumentError,
    BackendBroken,
    BackendUnavailable,
    InvalidDeviceIndex,
    TensocketError,
    UnknownDevice,
)
from .forks import Rank, held_over_forks
from .states import BackendRecord, State
from .switches import Switches

_Result = TypeVar("_Result")
#: Attributes that an opened device sets, besides its methods.
_MEMBERS: Final = ("name", "index", "profile", "kernels", "allocator", "default_stream")


@dataclass
class _Entry:
    """One row of the table: the state of a backend, whether lists of backends name it, and the loaded backend."""

    offer: Offer
    record: BackendRecord
    backend: Backend | None = None
    devices: dict[int, OpenDevice] = field(default_factory=dict)
    loading: bool = False
    listed: bool = True

    @property
    def fresh(self) -> bool:
        """Whether the backend is not loaded yet."""
        return self.record.state is State.DISCOVERED


class Registry:
    """The backends of one process. Creating it reads nothing; the first query reads the environment."""

    def __init__(self) -> None:
        self._lock = held_over_forks(threading.RLock(), Rank.TABLES)
        self._loading = held_over_forks(threading.RLock(), Rank.BACKENDS)
        self._entries: dict[str, _Entry] | None = None
        self._switches = Switches()

    def names(self) -> list[str]:
        """Return the names of all listed backends in any state, sorted. Imports nothing."""
        return sorted([name for name, entry in self._table().items() if entry.listed])

    def packages(self) -> frozenset[str]:
        """Return the names of the packages that backends come from, as far as they are known without loading any."""
        entries = list(self._table().values())
        kinds = [kind for entry in entries if entry.backend is not None for kind in type(entry.backend).__mro__]
        modules = [*[entry.offer.target for entry in entries], *[kind.__module__ for kind in kinds]]
        return frozenset([name.partition(":")[0].partition(".")[0] for name in modules])

    def switches(self) -> Switches:
        """Return the environment switches in force, as of the first query."""
        self._table()
        return self._switches

    def record(self, name: str, *, probe: bool = False) -> BackendRecord:
        """Return the state of the backend ``name``; with ``probe``, load it first if that has not happened yet.

        Raises:
            UnknownDevice: No backend has this name. Nothing else is raised, whatever state the backend is in.
        """
        entry = self._entry(name)
        if probe:
            self._load(entry)
        return entry.record

    def records(self, *, probe: bool = True) -> list[BackendRecord]:
        """Return the state of every listed backend, by name; with ``probe``, load all of them first.

        Raises:
            BackendError: A backend is broken or incompatible and ``TENSOCKET_BACKENDS_STRICT`` is on; never otherwise.
        """
        records = [self.record(name, probe=probe) for name in self.names()]
        self._be_strict()
        return records

    def backend(self, name: str) -> Backend:
        """Return the backend ``name``, loaded and probed.

        Raises:
            UnknownDevice: No backend has this name.
            BackendError: It is unusable; the subclass tells the state, and the cause is the exception that it raised.
                In strict mode also if another backend is known to be broken or incompatible.
        """
        backend = self._usable(name)
        self._be_strict()
        return backend

    def open(self, device: Device) -> OpenDevice:
        """Return the opened device, opened on first use and then always the same object; without an index, number 0.

        Raises:
            UnknownDevice: No backend has this name.
            BackendError: The backend cannot be used, or failed to open the device.
            InvalidDeviceIndex: The backend has fewer devices.
        """
        with self._loading:
            backend = self.backend(device.type)
            entry = self._entry(device.type)
            index = self._index(entry.record, device)
            if index not in entry.devices:
                opened: object = self._call(entry, f"opening {device.type}:{index}", lambda: backend.open(index))
                if fault := _device_fault(opened):
                    raise BackendBroken("device", f"device '{device}'", f"open({index}) returned {fault}",
                                        f"report this to the authors of {entry.offer.distribution}")
                assert isinstance(opened, OpenDevice), "it has no fault"
                if not any(other.devices for other in self._table().values()):
                    # Registered after the backend's import, so that it runs before the driver's own exit handlers.
                    atexit.register(self.close)
                entry.devices[index] = opened
                entry.record = replace(entry.record, state=State.INITIALISED, reason="", advice="", exception=None,
                                       traceback="")
            return entry.devices[index]

    def device_info(self, device: Device) -> DeviceInfo:
        """Return model, memory and driver of a device, which need not be open; strict mode does not affect this.

        Raises:
            UnknownDevice: No backend has this name.
            BackendError: The backend cannot be used, or failed to answer.
            InvalidDeviceIndex: The backend has fewer devices.
        """
        with self._loading:
            backend = self._usable(device.type)
            entry = self._entry(device.type)
            index = self._index(entry.record, device)
            return self._call(entry, f"device_info({index})", lambda: backend.device_info(index))

    def opened(self) -> list[OpenDevice]:
        """Return all open devices, sorted by name and index, without those of lost backends."""
        table = self._table()
        return [device for name in sorted(table) for _, device in sorted(table[name].devices.items())]

    def mark_lost(self, name: str, reason: str) -> None:
        """Record that the devices of ``name`` stopped working. They are dropped without closing, which might hang.

        Raises:
            UnknownDevice: No backend has this name.
        """
        with self._lock:
            entry = self._entry(name)
            entry.devices = {}
            entry.record = replace(entry.record, state=State.LOST, reason=reason,
                                   advice="restart the process; if it happens again, check the device and its driver")

    def add(self, module: object, *, name: str, distribution: str = "this process", listed: bool = True
            ) -> BackendRecord:
        """Add a backend without an entry point; it is loaded at its first use, under the same guards.

        Args:
            module: The object that an entry point would name: a module or another object with the hooks.
            name: The device name.
            distribution: Name of its origin.
            listed: Whether ``names`` and ``records`` have it; a tool of the runtime need not show its device.

        Raises:
            ArgumentError: The name is taken or not allowed.
        """
        with self._lock:
            table = self._table()
            fault = f"the name '{name}' is taken" if name in table else name_fault(name, table)
            if fault:
                raise ArgumentError("device", f"backend '{name}' of {distribution}", fault,
                                    "choose another name, or remove the other backend")
            target = getattr(module, "__name__", type(module).__name__)
            offer = Offer(name, str(target), lambda: module, distribution, "")
            entry = _Entry(*admit([offer], self._switches)[name], listed=listed)
            # A new table rather than a change in place: other threads may be iterating over the old one.
            self._entries = {**table, name: entry}
            return entry.record

    def remove(self, name: str) -> None:
        """Close the devices of ``name`` and remove it.

        Raises:
            UnknownDevice: No backend has this name.
        """
        with self._loading:
            self._close(self._entry(name))
            with self._lock:
                self._entries = {other: entry for other, entry in self._table().items() if other != name}

    def close(self) -> None:
        """Close all open devices; also called at interpreter exit. Exceptions of a device are logged, not raised."""
        atexit.unregister(self.close)
        for entry in (self._entries or {}).values():
            self._close(entry)

    def _table(self) -> dict[str, _Entry]:
        with self._lock:
            if self._entries is None:
                self._switches = Switches.read(os.environ)
                admitted = admit(offers(ENTRY_POINT_GROUP), self._switches)
                self._entries = {name: _Entry(offer, record) for name, (offer, record) in admitted.items()}
            return self._entries

    def _entry(self, name: str) -> _Entry:
        table = self._table()
        name = MEANT.get(name, name)
        if name in table:
            return table[name]
        match = closest(name, table)
        advice = f"did you mean '{match}'? Otherwise " if match else ""
        advice += (f"install the package of that backend, for example: pip install tensocket-{name}"
                   if NAME.fullmatch(name) else "see the names with: tensocket devices")
        raise UnknownDevice("device", f"device '{name}'",
                            f"no installed backend has this name (installed: {', '.join(sorted(table)) or 'none'})",
                            advice)

    def _load(self, entry: _Entry) -> None:
        """Load the backend, unless it is loaded or this thread is loading it."""
        if not entry.fresh:
            return
        with self._loading:
            if entry.loading or not entry.fresh:
                return
            from .loader import load  # brings pluggy, which reads metadata

            entry.loading = True
            try:
                record, backend = load(entry.offer, entry.record)
                # The backend is set first: threads read the state without the lock.
                entry.backend = backend
                entry.record = record
            finally:
                entry.loading = False

    def _usable(self, name: str) -> Backend:
        entry = self._entry(name)
        self._load(entry)
        backend = entry.backend
        if backend is not None and entry.record.state.usable:
            return backend
        if entry.fresh:
            raise BackendBroken("device", f"backend '{name}'", "it is still being loaded and its own import asks for "
                                "it", "use the device after the import, not during it")
        raise entry.record.error()

    def _be_strict(self) -> None:
        if not self._switches.strict:
            return
        for entry in self._table().values():
            if entry.record.state in (State.BROKEN, State.INCOMPATIBLE):
                raise entry.record.error()

    def _index(self, record: BackendRecord, device: Device) -> int:
        index = device.index or 0
        count = record.device_count
        if index >= count:
            raise InvalidDeviceIndex("device", f"device '{device}'",
                                     f"backend '{record.name}' has {count} device{'' if count == 1 else 's'}",
                                     f"use an index from 0 to {count - 1}" if count > 1 else f"use '{record.name}:0'")
        return index

    def _call(self, entry: _Entry, step: str, function: Callable[[], _Result]) -> _Result:
        """Run a usable backend's code; a failure is recorded, but the backend stays usable for other devices."""
        try:
            return function()
        except (KeyboardInterrupt, TensocketError):
            raise
        except BaseException as error:
            from .loader import one_line, traceback_text

            advice = f"see the traceback with: tensocket doctor {entry.record.name}"
            kind: type[BackendUnavailable | BackendBroken] = BackendBroken
            reason = f"{step} raised {one_line(error)}"
            if isinstance(error, Unavailable):
                kind, reason, advice = BackendUnavailable, f"{step}: {error.reason}", error.advice
            entry.record = replace(entry.record, reason=reason, advice=advice, exception=error,
                                   traceback=traceback_text(error))
            raise kind("device", f"backend '{entry.record.name}' of {entry.record.origin}", reason, advice) from error

    def _close(self, entry: _Entry) -> None:
        devices, entry.devices = entry.devices, {}
        for device in reversed(devices.values()):
            try:
                device.close()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                import logging

                from .loader import one_line

                logging.getLogger("tensocket.backends").warning("closing %s failed: %s", device.name, one_line(error))
        if entry.record.state is State.INITIALISED:
            entry.record = replace(entry.record, state=State.AVAILABLE)


def _device_fault(opened: object) -> str:
    """Return why the object that a backend opened is not a device; empty if it has all required members."""
    if not isinstance(opened, OpenDevice):
        return f"a {type(opened).__name__}, not an OpenDevice"
    missing = [member for member in _MEMBERS if getattr(opened, member, None) is None]
    return f"a {type(opened).__name__} without {', '.join(missing)}" if missing else ""


_PROCESS: Final = Registry()


def registry() -> Registry:
    """Return the registry of this process."""
    return _PROCESS
