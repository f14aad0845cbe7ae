"""The device that ``cuda`` means in this process, and its properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tensocket_core.device import DeviceState, device_states, open_device, set_current
from tensocket_operators import device_api as api
from tensocket_plugins.contract.devices import HOST_DEVICE, Device, parse_device
from tensocket_plugins.contract.errors import ArgumentTypeError

#: The name that programs use. Another backend can answer for it: see ``tensocket.as_torch``.
NAME: Final = "cuda"


def backend_name() -> str:
    """Return the backend that the name stands for: ``cuda`` itself, or ``cpu`` if the host answers for it."""
    return parse_device(NAME).type


def is_available() -> bool:
    """Whether a device is usable under the name ``cuda``."""
    return api.is_available(backend_name())


def device_count() -> int:
    """Return the number of devices that are usable under the name ``cuda``."""
    return api.device_count(backend_name()) if is_available() else 0


def device_of_argument(device: Any) -> Device:
    """Return the device that a ``device`` argument means: None is the current device, a number an index.

    Raises:
        ArgumentTypeError: The device has another type.
    """
    if device is None:
        return Device(backend_name())
    if isinstance(device, int):
        return Device(backend_name(), device)
    parsed = parse_device(device)
    if parsed.type != backend_name():
        raise ArgumentTypeError("cuda", f"device '{parsed}'", "functions of tensocket.cuda are about devices called "
                                "'cuda'", "use tensocket.get_device_module(name) for other devices")
    return parsed


def entry_of(device: Any = None) -> DeviceState:
    """Return the opened device of a ``device`` argument."""
    return open_device(device_of_argument(device))


def opened() -> bool:
    """Whether a device was opened under the name ``cuda``."""
    return any(state.device.type == backend_name() for state in device_states())


def is_initialized() -> bool:
    """Whether a device was used under the name ``cuda`` in this process."""
    return backend_name() != HOST_DEVICE and opened()


def init() -> None:
    """Open the current device now instead of at its first use."""
    entry_of()


def current_device() -> int:
    """Return the index of the device that ``cuda`` without an index means."""
    return entry_of().runtime.index


def set_device(device: Any) -> None:
    """Make ``cuda`` without an index mean ``device``, in all threads; a negative number changes nothing."""
    if not isinstance(device, int) or device >= 0:
        set_current(device_of_argument(device))


class device:
    """``with device(1):`` — ``cuda`` without an index means this device in the block.

    Args:
        device: An index or a device; None and negative numbers change nothing.
    """

    def __init__(self, device: Any) -> None:
        self.idx = device if device is None or isinstance(device, int) else device_of_argument(device).index or 0
        self.prev_idx = -1

    def __enter__(self) -> device:
        if self.idx is not None and self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)
        return self

    def __exit__(self, *error: object) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """``with device_of(tensor):`` — select the tensor's device in the block; tensors elsewhere change nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


@dataclass(frozen=True)
class DeviceProperties:
    """A device's description of itself; ``major`` and ``minor`` are 0 if it has no compute capability."""

    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Return model, memory and compute capability of a device."""
    chosen = device_of_argument(device)
    info = api.get_device_info(chosen if chosen.index is not None or not opened() else Device(chosen.type,
                                                                                            current_device()))
    major, _, minor = info.details.get("compute capability", "0.0").partition(".")
    units = info.details.get("multiprocessors") or info.details.get("cores") or info.details.get("compute units") or "0"
    return DeviceProperties(info.model, info.memory, int(major), int(minor), int(units))


def get_device_name(device: Any = None) -> str:
    """Return the device's model."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability; ``(0, 0)`` for devices that have none."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def synchronize(device: Any = None) -> None:
    """Wait until all work on a device is done; errors of asynchronous work surface here."""
    entry_of(device).runtime.synchronize()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes with bfloat16; False without a device.

    Args:
        including_emulation: Accepted as in PyTorch.
    """
    return is_available() and "bfloat16" in entry_of().runtime.profile.dtypes


def is_tf32_supported() -> bool:
    """Return False: products of float32 matrices are float32."""
    return False


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether copies between two devices can bypass the host; False, as no backend guarantees that."""
    device_of_argument(device)
    device_of_argument(peer_device)
    return False


def get_arch_list() -> list[str]:
    """Return an empty list: kernels are compiled for the actual device."""
    return []


def get_gencode_flags() -> str:
    """Return an empty text: kernels are compiled for the actual device."""
    return ""


def ipc_collect() -> None:
    """Do nothing: memory is not shared between processes."""


def is_current_stream_capturing() -> bool:
    """Return False: streams are not captured."""
    return False
