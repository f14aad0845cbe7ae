"""Conversion of any object that holds numbers to a tensor, without a copy where possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_core.device import default_state, open_device, selected_state
from tensocket_core.dispatch.modes import ACTIVE, as_leaf
from tensocket_core.promotion import get_default_dtype
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.errors import ArgumentError

from ..creation import tensor
from ..creation.record import dispatch_factory, is_intercepted
from .capsules import is_capsule
from .dlpack import from_dlpack
from .numpy import from_numpy, frombuffer


def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return a tensor with the values of ``data``, without a copy where dtype and device allow."""
    if ACTIVE and is_intercepted():
        return dispatch_factory(as_tensor, data, dtype=dtype, device=device)
    if hasattr(data, "_key"):
        target = (selected_state() or data._device_state) if device is None else open_device(device)
        return data.to(target.device, data.dtype if dtype is None else dtype)
    state = default_state() if device is None else open_device(device)
    if isinstance(data, np.ndarray) and state.device.type == HOST_DEVICE:
        shared = from_numpy(data)
        return shared if dtype is None else shared.to(dtype)
    return tensor(data, dtype=dtype, device=state.device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool | None = None) -> Any:
    """Return ``obj`` as a tensor: a tensor, NumPy array or scalar, DLPack capsule or producer, buffer, or numbers.

    Args:
        obj: The data. The bytes of a buffer are read as ``dtype``, the default dtype unless given.
        dtype: The dtype of the result; by default that of the data.
        device: The device of the result; by default that of the data, or the default device if one was set.
        copy: True always copies, False never; None copies where it is needed.
        requires_grad: Whether the result is a leaf that requires grad; None keeps the state of ``obj``.

    Raises:
        ArgumentError: ``copy`` is False and a copy is needed.
    """
    if ACTIVE and is_intercepted():
        return dispatch_factory(asarray, obj, dtype=dtype, device=device, copy=copy, requires_grad=requires_grad)
    source = _aliased(obj, dtype)
    if source is None:
        if copy is False:
            raise ArgumentError("asarray", f"copy=False for a {type(obj).__name__}", "only tensors, arrays and buffers "
                                "are shared", "pass copy=None")
        state = default_state() if device is None else open_device(device)
        result = tensor(obj, dtype=dtype, device=state.device)
    else:
        result = _converted(source, dtype, device, copy)
    if requires_grad is None:
        return result
    if not requires_grad:
        return result.detach() if result.requires_grad else result
    return as_leaf(result)


def _aliased(obj: Any, dtype: Any) -> Any:
    """Return a tensor on the memory of ``obj``; None if it has no memory to share."""
    if hasattr(obj, "_key"):
        return obj
    if hasattr(obj, "_bytes"):  # a storage, whose bytes have the requested dtype
        return obj._bytes.view(obj._bytes.dtype if dtype is None else dtype)
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, np.generic):
        return None
    if hasattr(obj, "__dlpack__") or is_capsule(obj):
        return from_dlpack(obj)
    try:
        view = memoryview(obj)
    except TypeError:
        return None
    return frombuffer(view, dtype=get_default_dtype() if dtype is None else dtype)


def _converted(source: Any, dtype: Any, device: Any, copy: bool | None) -> Any:
    chosen = source.dtype if dtype is None else dtype
    state = (selected_state() or source._device_state) if device is None else open_device(device)
    if copy is False and (chosen is not source.dtype or state is not source._device_state):
        raise ArgumentError("asarray", f"copy=False for {source.dtype.name} on {source.device} as {chosen.name} on "
                            f"{state.device}", "another dtype or device needs a copy", "pass copy=None")
    return source.to(state.device, chosen, copy=bool(copy))
