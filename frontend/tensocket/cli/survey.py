"""The facts about every backend and its devices, collected for the commands to print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensocket_plugins.contract import BackendRecord, Device, DeviceInfo, State, TensocketError
from tensocket_plugins.contract.registry import Registry

#: States that mean a bug in a package, rather than a missing part of this machine.
FAULTS = frozenset({State.BROKEN, State.INCOMPATIBLE})


@dataclass(frozen=True)
class DeviceRow:
    """One device, or one backend without devices.

    Attributes:
        name: ``opencl:0``, or the name of a backend without usable devices.
        record: Its backend's record.
        info: The device's description of itself; None if it has none or did not answer.
        reason: Why it is unusable, or did not answer.
        advice: The next step.
    """

    name: str
    record: BackendRecord
    info: DeviceInfo | None = None
    reason: str = ""
    advice: str = ""

    @property
    def state(self) -> str:
        """The state in words; a usable backend's device that does not answer is broken."""
        return (State.BROKEN if self.reason and self.record.state.usable else self.record.state).value

    def as_dict(self) -> Mapping[str, object]:
        """Return all fields, for JSON."""
        record, info = self.record, self.info
        return {
            "device": self.name, "backend": record.name, "state": self.state, "reason": self.reason,
            "advice": self.advice, "distribution": record.distribution, "version": record.version,
            "model": info.model if info else None, "memory_bytes": info.memory if info else None,
            "driver": info.driver if info else None, "details": dict(info.details) if info else {},
            "load_seconds": round(record.load_seconds, 6), "probe_seconds": round(record.probe_seconds, 6),
        }


def survey(registry: Registry) -> list[DeviceRow]:
    """Return all devices of all backends; load every backend that the environment does not exclude. Never raise."""
    return [row for name in registry.names() for row in backend_rows(registry, name)]


def backend_rows(registry: Registry, name: str) -> list[DeviceRow]:
    """Return the devices of one backend, or one row for an unusable backend.

    Raises:
        UnknownDevice: No backend has this name.
    """
    record = registry.record(name, probe=True)
    if not record.state.usable:
        return [DeviceRow(name, record, None, record.reason, record.advice)]
    return [_device_row(registry, record, index) for index in range(record.device_count)]


def _device_row(registry: Registry, record: BackendRecord, index: int) -> DeviceRow:
    device = Device(record.name, index)
    try:
        return DeviceRow(str(device), record, registry.device_info(device))
    except TensocketError as error:
        return DeviceRow(str(device), record, None, error.rule, error.advice)


def memory(nbytes: int) -> str:
    """Return a size such as ``7.8 GiB``."""
    return f"{nbytes / 2**30:.1f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.0f} MiB"
