"""New tensors with known elements: one value for all elements, or a copy of host values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import is_recording

from ..device import DeviceState
from ..dispatch.modes import ACTIVE, STATE
from ..keys import dtype_bit
from ..tensor import wrap
from .copies import from_host
from .host_convert import to_dtype
from .numbers import as_number, check_range
from .pointwise_plan import run_generated
from .primitives import primitive

#: Elements from which a kernel computes a range in less time than NumPy, and bytes from which one fills an array so.
MANY: Final = 1 << 14
_MANY_BYTES: Final = 1 << 19


def finish(array: Any, dtype: DType, state: DeviceState, requires_grad: bool) -> Any:
    """Return a new leaf on a handle."""
    tensor = wrap(array, state.key | dtype_bit(dtype))
    if ACTIVE:
        for transform in STATE.transforms:
            tensor = transform.created(tensor)
        if STATE.inference is not None:
            STATE.inference(tensor)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def fill_array(operator: str, state: DeviceState, out: Any, value: Any, dtype: DType) -> None:
    """Fill an array with one value."""
    check_range(operator, value, dtype)
    if 0 in out.shape:
        return
    runtime = state.runtime
    if runtime.profile.host_resident and (runtime.target is None or (out.nbytes < _MANY_BYTES and not is_recording())):
        out[...] = to_dtype(np.asarray(value), dtype)
    elif runtime.target is not None:
        run_generated(state, ("fill", dtype), lambda x: x, [(value, dtype)], out.shape, [(out, dtype)])
    else:
        primitive("fill", state, "fill", dtype)([out], [], (as_number(value, dtype),), state.stream)


def filled(
    operator: str, shape: tuple[int, ...], value: Any, dtype: DType, state: DeviceState, requires_grad: bool = False
) -> Any:
    """Return a new tensor filled with one value."""
    out = state.runtime.empty(shape, dtype, state.stream)
    fill_array(operator, state, out, value, dtype)
    return finish(out, dtype, state, requires_grad)


def from_values(values: np.ndarray[Any, Any], dtype: DType, state: DeviceState) -> Any:
    """Return a tensor with a copy of host values, converted to ``dtype``."""
    return wrap(from_host(state, to_dtype(values, dtype), dtype), state.key | dtype_bit(dtype))
