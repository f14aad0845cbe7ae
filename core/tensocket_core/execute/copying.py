"""Copies: between element types, layouts and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_plugins.contract.dtypes import DType, bfloat16

from ..device import DeviceEntry
from ..dispatch.operator import check_dtype
from .convert import float32_of_bfloat16, to_dtype
from .geometry import contiguous, expand
from .math import MOVED_AS
from .pointwise import run_generated
from .primitive import primitive
from .usage import copy_arrays

#: Elements from which a generated copy kernel is worth its call on a host-resident device.
_HOST_LIMIT = 65536


def _identity(value: Any) -> Any:
    return value


def copy_elements(entry: DeviceEntry, out: Any, stored: DType, source: Any, dtype: DType) -> None:
    """Copy ``source`` (of element type ``dtype``) into ``out`` (of ``stored``) on one device; ``source`` broadcasts."""
    shape = out.shape
    if 0 in shape:
        return
    runtime = entry.runtime
    if runtime.profile.host_resident and (out.size < _HOST_LIMIT or stored is dtype):
        values = float32_of_bfloat16(source) if dtype is bfloat16 and stored is not dtype else source
        out[...] = values if stored is dtype else to_dtype(values, stored)
    elif runtime.target is not None:
        if stored is dtype:
            stored = dtype = MOVED_AS.get(dtype, dtype)
        run_generated(entry, ("copy", dtype, stored), _identity, [(source, dtype)], shape, [(out, stored)])
    else:
        primitive("copy", entry, "copy", dtype)([out], [expand(source, shape)], (), entry.stream)


def converted(entry: DeviceEntry, source: Any, dtype: DType, stored: DType) -> Any:
    """A new contiguous array of element type ``stored``."""
    check_dtype("to", entry, stored)
    out = entry.runtime.empty(source.shape, stored, entry.stream)
    copy_elements(entry, out, stored, source, dtype)
    return out


def to_device(source: Any, dtype: DType, origin: DeviceEntry, target: DeviceEntry) -> Any:
    """A new contiguous array with the same elements on another device."""
    check_dtype("to", target, dtype)
    if not target.holds_data:
        return target.runtime.empty(source.shape, dtype, target.stream)
    if not contiguous(source):
        source = converted(origin, source, dtype, dtype)
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


def from_host(entry: DeviceEntry, values: np.ndarray[Any, Any], dtype: DType) -> Any:
    """A new array on a device from stored bits on the host."""
    check_dtype("tensor", entry, dtype)
    out = entry.runtime.empty(values.shape, dtype, entry.stream)
    if values.size:
        copy_arrays(entry, out, np.ascontiguousarray(values))
    return out
