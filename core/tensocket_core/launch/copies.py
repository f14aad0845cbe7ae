"""Copies: between element types, layouts and devices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.ir.element_types import MOVED_AS
from tensocket_plugins.ir.strategies import Strategy

from ..device import DeviceState
from ..dispatch.operator import check_dtype
from ..geometry import contiguous, element_strides, expand
from ..strides import empty_preserved, memory_order
from .host_convert import native_values, to_dtype
from .kernel_handles import moved_handle
from .pointwise_plan import prepared, run_generated
from .primitives import primitive
from .programs import program
from .stream_use import copy_arrays, note_use

#: Elements from which a generated copy kernel is worth its call on a host-resident device: in general, for a transposed
#: copy, for a conversion, and for a conversion that NumPy does element by element or in several passes.
_HOST_LIMIT: Final = 65536
_TURNED: Final = 4096
_CONVERTED: Final = 8192
_SLOWLY_CONVERTED: Final = 1024
#: Elements of a row below which NumPy's loop over rows is slow; elements up to which devices index with 32 bits.
_SHORT, _MOST = 1 << 6, 1 << 30
#: Kernels for contiguous arrays, by device and element types.
_FLAT: Final[dict[tuple[int, DType, DType], Any]] = {}


def _identity(value: Any) -> Any:
    return value


def copy_elements(state: DeviceState, out: Any, stored: DType, source: Any, dtype: DType) -> None:
    """Copy ``source`` (of element type ``dtype``) into ``out`` (of ``stored``) on one device; ``source`` broadcasts."""
    shape = out.shape
    if 0 in shape:
        return
    runtime = state.runtime
    size = out.size
    if runtime.profile.host_resident and (runtime.target is None or (not is_recording() and (
            size < _SLOWLY_CONVERTED or size < _host_limit(out, stored, source, dtype)))):
        out[...] = source if stored is dtype else to_dtype(native_values(source, dtype), stored)
    elif stored is dtype and _in_runs(out, source) and not is_recording() and (
            kernel := runtime.kernels.find("copy", dtype.name, direct=False)) is not None:
        kernel.run([out], [expand(source, shape)], (), state.stream)
    elif runtime.target is not None:
        if stored is dtype:
            _move(state, out, source, dtype)
        elif out.shape == source.shape and "complex" not in (stored.kind, dtype.kind) and contiguous(out) and (
                contiguous(source)) and out.size < _MOST:
            _convert_flat(state, out, stored, source, dtype)
        else:
            run_generated(state, ("copy", dtype, stored), _identity, [(source, dtype)], shape, [(out, stored)])
    else:
        primitive("copy", state, "copy", dtype)([out], [expand(source, shape)], (), state.stream)


def _host_limit(out: Any, stored: DType, source: Any, dtype: DType) -> int:
    if stored is dtype:
        if _in_runs(out, source):
            return _CONVERTED if out.shape[-1] < _SHORT else _HOST_LIMIT
        return _HOST_LIMIT if contiguous(source) else _TURNED
    narrow = any(kind.kind == "float" and kind.itemsize < 4 for kind in (stored, dtype))
    return _SLOWLY_CONVERTED if narrow else _CONVERTED


def _convert_flat(state: DeviceState, out: Any, stored: DType, source: Any, dtype: DType) -> None:
    """Convert contiguous arrays without the geometry checks, which take 1.6 of the 7 us of some thousand elements."""
    place = state.key, stored, dtype
    run = _FLAT.get(place)
    if run is None:
        key, build, _ = prepared(state, ("copy", dtype, stored), _identity, [(source, dtype)], out.shape,
                                 [(out, stored)])
        run = _FLAT[place] = program(state, key, build, Strategy.SERIAL)
    stream = state.stream
    note_use((out, source), stream)
    run((out, source), (out.size,), stream)


def _in_runs(out: Any, source: Any) -> bool:
    """Whether both arrays have stride 1 along the last dimension."""
    return out.ndim == source.ndim and element_strides(out)[-1:] == element_strides(source)[-1:] == (1,)


def _move(state: DeviceState, out: Any, source: Any, dtype: DType) -> None:
    """Copy bits; elements of 16 bytes are copied as pairs, with an extra dimension for the two halves."""
    word = MOVED_AS.get(dtype, dtype)
    source, out = expand(source, out.shape), moved_handle(out, dtype)
    run_generated(state, ("copy", word, word), _identity, [(moved_handle(source, dtype), word)], out.shape,
                  [(out, word)])


def converted(state: DeviceState, source: Any, dtype: DType, stored: DType) -> Any:
    """Return a new array of element type ``stored``, with the order of dimensions in memory of ``source``."""
    check_dtype("to", state, stored)
    out = empty_preserved(state, source, stored)
    copy_elements(state, out, stored, source, dtype)
    return out


def row_major(state: DeviceState, source: Any, dtype: DType) -> Any:
    """Return the array itself if it is contiguous, else a contiguous copy."""
    if contiguous(source):
        return source
    out = state.runtime.empty(source.shape, dtype, state.stream)
    copy_elements(state, out, dtype, source, dtype)
    return out


def to_device(source: Any, dtype: DType, origin: DeviceState, target: DeviceState) -> Any:
    """Return a copy of ``source`` on another device, with the order of dimensions in memory of ``source``."""
    check_dtype("to", target, dtype)
    if not target.holds_data:
        return empty_preserved(target, source, dtype)
    if contiguous(source):
        return _moved(source, dtype, origin, target)
    order = memory_order(source.shape, [element_strides(source)])
    dense = row_major(origin, source.transpose(tuple(order)), dtype)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return _moved(dense, dtype, origin, target).transpose(tuple(inverse))


def _moved(source: Any, dtype: DType, origin: DeviceState, target: DeviceState) -> Any:
    """Copy a contiguous array to another device."""
    out = target.runtime.empty(source.shape, dtype, target.stream)
    if 0 in source.shape:
        return out
    host = source
    if not origin.runtime.profile.host_resident:
        host = out if target.runtime.profile.host_resident else np.empty(source.shape, dtype.numpy)
        copy_arrays(origin, host, source)
    if host is not out:
        copy_arrays(target, out, host)
    return out


def from_host(state: DeviceState, values: np.ndarray[Any, Any], dtype: DType) -> Any:
    """Return a new array on a device, copied from stored bits on the host."""
    check_dtype("tensor", state, dtype)
    out = state.runtime.empty(values.shape, dtype, state.stream)
    if values.size:
        copy_arrays(state, out, np.ascontiguousarray(values))
    return out
