"""Import and export of tensors through DLPack, without a copy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState, device_states, open_device, wait_for_values
from tensocket_core.dispatch.modes import of_data
from tensocket_core.geometry import element_strides
from tensocket_core.keys import AUTOGRAD, LAZY, dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.devices import HOST_DEVICE, Device
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ExchangeError
from tensocket_plugins.contract.exchange import foreign_array
from tensocket_plugins.contract.registry import registry

from . import capsules

#: The stream by which a consumer says that it synchronises with the producer itself.
_NO_WAIT: Final = -1
_VERSION: Final = (1, 0)


def dlpack_device(operator: str, state: DeviceState) -> tuple[int, int]:
    """Return DLPack's type and number of a device.

    Raises:
        ArgumentError: The device shares no memory.
    """
    if state.runtime.profile.host_resident:
        return capsules.CPU, 0
    if state.runtime.exchange is None:
        raise ArgumentError(operator, f"a tensor on {state.device}", "the device shares no memory through DLPack",
                            "move it with .cpu() first")
    return state.runtime.exchange.device


def entry_of(operator: str, device: tuple[int, int]) -> DeviceState:
    """Return the device with DLPack's type and number.

    Raises:
        ExchangeError: No usable backend has the device.
    """
    if device[0] in capsules.HOST_TYPES:
        return open_device(HOST_DEVICE)
    for state in device_states():
        if state.runtime.exchange is not None and state.runtime.exchange.device == device:
            return state
    for record in registry().records():
        profile = record.descriptor.profile if record.descriptor is not None else None
        if profile is not None and "dlpack" in profile.features and device[1] < record.device_count:
            state = open_device(Device(record.name, device[1]))
            if state.runtime.exchange is not None and state.runtime.exchange.device == device:
                return state
    raise ExchangeError(operator, f"memory on a device of DLPack type {device[0]}, number {device[1]}",
                        "no installed backend shares memory of this kind", "copy it to the host first")


def export(tensor: Any, stream: Any, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None,
           copy: bool | None) -> Any:
    """Return the capsule of ``Tensor.__dlpack__``."""
    if tensor._key & AUTOGRAD:
        raise ExchangeError("__dlpack__", "a tensor that requires grad", "other libraries record no gradients for it",
                            "call .detach() first")
    if tensor._key & LAZY:
        raise ExchangeError("__dlpack__", "a conjugated or negated view", "Can't export tensors with the conjugate or "
                            "negative bit set", "call .resolve_conj().resolve_neg() first")
    state = tensor._device_state
    if not state.holds_data:
        raise ExchangeError("__dlpack__", "a meta tensor", "there is no memory to share", "use a device with data")
    device = dlpack_device("__dlpack__", state)
    if dl_device is not None and tuple(int(n) for n in dl_device) != device:
        if copy is False:
            raise ExchangeError("__dlpack__", f"copy=False for dl_device={tuple(dl_device)} and a tensor on "
                                f"{state.device}", "another device needs a copy", "pass copy=None")
        target = entry_of("__dlpack__", (int(dl_device[0]), int(dl_device[1])))
        return export(tensor.to(target.device), stream, max_version, None, None)
    if copy:
        tensor = tensor.clone()
    _wait(state, stream)
    return capsules.export(_shared_array(tensor), tensor.dtype, device, versioned=max_version is not None
                           and max_version[0] >= _VERSION[0], copied=bool(copy))


def _wait(state: DeviceState, stream: Any) -> None:
    """Make the consumer's stream wait for this thread's.

    Raises:
        ArgumentError: A stream is given, but the device has no streams.
        ArgumentTypeError: The stream is not a number.
    """
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool)):
        raise ArgumentTypeError("__dlpack__", f"stream {stream!r}", "a stream is an int or None", "pass its number")
    if stream == _NO_WAIT:
        return
    if state.runtime.exchange is not None:
        state.runtime.exchange.export(state.stream, stream)
        return
    wait_for_values()
    if stream is not None:
        raise ArgumentError("__dlpack__", f"stream={stream} for a tensor on {state.device}",
                            "the host has no streams", "pass stream=None")


def _shared_array(tensor: Any) -> Any:
    """Return the tensor's memory as an array for a capsule."""
    array, exchange = tensor._array, tensor._device_state.runtime.exchange
    if exchange is None:
        return array
    return capsules.foreign_array(exchange.address(array), tensor.dtype, array.shape, array.strides, array)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return a tensor on the memory of another library's array.

    Args:
        ext_tensor: An object with ``__dlpack__``, or a capsule, which is consumed.
        device: The device of the result; by default that of the memory.
        copy: True always copies, False never; None copies only to reach ``device``.

    Raises:
        ExchangeError: ``ext_tensor`` is neither, its memory cannot be shared, or ``copy`` is False but required.
    """
    target = None if device is None else open_device(device)
    capsule = ext_tensor
    if hasattr(ext_tensor, "__dlpack__"):
        capsule = _ask(ext_tensor, copy)
    tensor = _wrap(*capsules.take(capsule))
    if target is not None and target is not tensor._device_state:
        if copy is False:
            raise ExchangeError("from_dlpack", f"copy=False for device {target.device} and memory on {tensor.device}",
                                "another device needs a copy", "pass copy=None")
        return tensor.to(target.device)
    return tensor.clone() if copy else tensor


def _ask(producer: Any, copy: bool | None) -> Any:
    """Return a capsule of a producer, after this thread's stream waits for the producer's.

    Raises:
        ExchangeError: No backend shares memory with the producer's device, and a copy is not allowed.
    """
    kind, number = producer.__dlpack_device__()
    where = (int(kind), int(number))
    options: dict[str, Any] = {}
    try:
        exchange = entry_of("from_dlpack", where).runtime.exchange
    except ExchangeError:
        if copy is False:
            raise
        options["dl_device"] = (capsules.CPU, 0)
    else:
        stream = None if exchange is None else exchange.number(entry_of("from_dlpack", where).stream)
        if stream is not None:
            options["stream"] = stream
    try:
        return producer.__dlpack__(max_version=_VERSION, **options)
    except TypeError:  # a producer from before version 1
        options.pop("dl_device", None)
        return producer.__dlpack__(**options)


def _wrap(array: np.ndarray[Any, Any], dtype: Any, device: tuple[int, int]) -> Any:
    """Return a tensor on a capsule's memory."""
    state = entry_of("from_dlpack", device)
    strides = element_strides(array)
    if any(s < 0 for s in strides):
        raise ExchangeError("from_dlpack", f"strides {list(strides)}", "strides are not negative",
                            "copy it before the exchange")
    handle: Any = array
    if state.runtime.exchange is not None:
        address = int(array.__array_interface__["data"][0])
        handle = foreign_array(state.runtime.exchange, address, dtype, array.shape, strides, array, state.stream)
    return of_data(wrap(handle, state.key | dtype_bit(dtype)))


def to_dlpack(tensor: Any) -> Any:
    """Return an unversioned capsule with a tensor's memory, as ``torch.utils.dlpack.to_dlpack`` does."""
    return tensor.__dlpack__()
