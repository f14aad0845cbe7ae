"""Counterpart of ``torch.cuda`` for any device: ``get_device_module("opencl").synchronize()``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensocket_core.device import current_stream, get_default_device, open_device, set_current, set_stream
from tensocket_plugins.contract.descriptor import DeviceInfo
from tensocket_plugins.contract.devices import HOST_DEVICE, NUMBERED, Device, parse_device
from tensocket_plugins.contract.naming import package_name
from tensocket_plugins.contract.registry import registry

from . import device_api as api
from .random import generator_of


class DeviceModule:
    """The device-generic functions for the devices of one backend; ``device`` arguments are indices or names.

    Args:
        name: The backend's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<device module '{self._name}'>"

    def _device(self, device: Any) -> Device:
        if device is None:
            return Device(self._name)
        return Device(self._name, device) if isinstance(device, int) else parse_device(device)

    def is_available(self) -> bool:
        """Whether the backend has a usable device."""
        return api.is_available(self._name)

    def device_count(self) -> int:
        """Return the number of devices."""
        return api.device_count(self._name)

    def get_device_name(self, device: Any = None) -> str:
        """Return the device's model."""
        return self.get_device_properties(device).model

    def get_device_properties(self, device: Any = None) -> DeviceInfo:
        """Return model, memory and driver."""
        return api.get_device_info(self._device(device))

    def synchronize(self, device: Any = None) -> None:
        """Wait until all work on a device is done."""
        api.synchronize(self._device(device))

    def current_stream(self, device: Any = None) -> Any:
        """Return the backend's stream on which this thread queues work."""
        return current_stream(self._device(device))

    def set_stream(self, stream: api.Stream) -> None:
        """Queue this thread's work on ``stream`` from now on."""
        set_stream(stream.device, stream._stream)

    def Stream(self, device: Any = None, priority: int = 0) -> api.Stream:  # noqa: N802  PyTorch's name
        """Return a new stream on a device."""
        return api.Stream(self._device(device), priority)

    def Event(self, enable_timing: bool = False, device: Any = None) -> api.Event:  # noqa: N802  PyTorch's name
        """Return a new event on a device."""
        return api.Event(self._device(device), enable_timing)

    def memory_stats(self, device: Any = None) -> Mapping[str, int]:
        """Return bytes and counts of a device's allocator."""
        return api.memory_stats(self._device(device))

    def memory_allocated(self, device: Any = None) -> int:
        """Return the number of bytes in use."""
        return self.memory_stats(device)["allocated"]

    def memory_reserved(self, device: Any = None) -> int:
        """Return the number of bytes that the allocator holds, in use or not."""
        return self.memory_stats(device)["reserved"]

    def max_memory_allocated(self, device: Any = None) -> int:
        """Return the peak number of bytes in use."""
        return self.memory_stats(device)["peak_allocated"]

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Reset the peaks of memory statistics."""
        api.reset_peak_memory_stats(self._device(device))

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        """Limit the memory that this process reserves to a fraction of the device's memory."""
        api.set_memory_fraction(self._device(device), fraction)

    def empty_cache(self, device: Any = None) -> None:
        """Give unused memory back to the driver."""
        api.empty_cache(self._device(device))

    def manual_seed(self, seed: int, device: Any = None) -> None:
        """Start the random stream of ``seed`` on one device."""
        generator_of(open_device(self._device(device))).manual_seed(seed)


def get_device_module(device: Any = None) -> DeviceModule:
    """Return the functions for a device's backend; None is the default device.

    Raises:
        UnknownDevice: No installed backend has this name.
    """
    name = get_default_device().type if device is None else parse_device(device).type
    registry().record(name)
    return DeviceModule(name)


class Accelerator:
    """``tensocket.accelerator``: the first available device that is not host-resident."""

    def current_accelerator(self, check_available: bool = False) -> Device | None:
        """Return the accelerator without an index; None if there is none.

        A program that imports this package as ``torch`` knows only ``cuda`` as an accelerator.
        """
        if package_name() == "torch":
            name = parse_device(NUMBERED).type
            return Device(name) if api.is_available(name) and name != HOST_DEVICE else None
        for record in registry().records():
            profile = record.descriptor.profile if record.descriptor is not None else None
            if (
                record.state.usable
                and profile is not None
                and not profile.host_resident
                and "reference" not in profile.features
            ):
                return Device(record.name)
        return None

    def is_available(self) -> bool:
        """Whether there is an accelerator."""
        return self.current_accelerator() is not None

    def device_count(self) -> int:
        """Return the number of the accelerator's devices."""
        device = self.current_accelerator()
        return 0 if device is None else api.device_count(device.type)

    def synchronize(self, device: Any = None) -> None:
        """Wait until all work on the accelerator is done."""
        chosen = self.current_accelerator() if device is None else self._device(device)
        if chosen is not None:
            api.synchronize(chosen)

    def current_device_index(self) -> int:
        """Return the index of the device that the accelerator's name without an index means; -1 if there is none."""
        device = self.current_accelerator()
        return -1 if device is None else open_device(device).runtime.index

    current_device_idx = current_device_index

    def set_device_index(self, device: Any) -> None:
        """Make the accelerator's name without an index mean ``device``."""
        set_current(self._device(device))

    set_device_idx = set_device_index

    def current_stream(self, device: Any = None) -> Any:
        """Return the backend's stream on which this thread queues work."""
        return current_stream(self.current_accelerator() if device is None else self._device(device))

    def _device(self, device: Any) -> Device:
        accelerator = self.current_accelerator()
        if isinstance(device, int) and accelerator is not None:
            return Device(accelerator.type, device)
        return parse_device(device)


accelerator = Accelerator()
