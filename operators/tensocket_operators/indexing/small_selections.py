"""Host paths for selections whose size depends on values: positions of nonzero elements, elements under masks.

Also the number of nonzero elements, and the sum of a diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.host_kernels import Closure
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.kit.host_kernels_quiet import quiet
from tensocket_plugins.kit.host_memory import call_pooled

_new = object.__new__
#: Elements of the tensor up to which NumPy selects; larger results take their memory from the pool.
_SMALL: Final = 1 << 13
#: Elements up to which NumPy selects and scatters by a mask, and those up to which it does so without positions
#: (``masked_select`` of 6,550 x 10; a kernel is divided among threads).
_MEDIUM: Final = 1 << 17
_FEW: Final = 1 << 9
_INT64: Final = np.dtype(np.int64)


def _tensor(array: Any, key: int) -> Tensor:
    t = _new(Tensor)
    t._array = array
    t._key = key
    t._grad = t._grad_fn = t._version_counter = t._base = None
    return t


def coordinates(x: Any) -> Any:
    """Return the positions of nonzero elements of an array, one row each.

    NumPy finds positions in a vector of bools ten times as fast as in an array of several dimensions, or of numbers.
    """
    if not x.ndim:
        return np.empty((0 if x.item() == 0 else 1, 0), _INT64)
    flat = (x if x.dtype.char == "?" else x != 0).reshape(-1).nonzero()[0]
    if x.ndim == 1:
        return flat.reshape(-1, 1)
    rows = np.empty((flat.size, x.ndim), _INT64)
    for k in range(x.ndim - 1, 0, -1):
        above = flat // max(x.shape[k], 1)
        np.subtract(flat, above * x.shape[k], rows[:, k])
        flat = above
    rows[:, 0] = flat
    return rows


def _of_numbers(make: Callable[[Any, int], Closure]) -> Callable[[int, DeviceState, Closure], Closure | None]:
    """Return a ``host_path`` for tensors whose elements NumPy compares, with the key of positions."""

    def host_path(key: int, state: DeviceState, next_path: Closure) -> Closure | None:
        dtype = DTYPE_OF.get(key & DTYPE_MASK)
        if dtype is None or not dtype.native:
            return None
        return make(next_path, state.key | dtype_bit(dtypes.int64))

    return host_path


@_of_numbers
def nonzero_path(next_path: Closure, key: int) -> Closure:
    """Return a closure of ``nonzero`` without ``as_tuple``, and of ``argwhere``."""

    def host_nonzero(input: Any, *, as_tuple: bool = False) -> Any:
        x = input._array
        if as_tuple or x.size > _SMALL:
            return next_path(input, as_tuple=as_tuple)
        return _tensor(coordinates(x), key)

    return host_nonzero


@_of_numbers
def argwhere_path(next_path: Closure, key: int) -> Closure:
    """Return a closure of ``argwhere``."""

    def host_argwhere(input: Any) -> Any:
        x = input._array
        return _tensor(coordinates(x), key) if x.size <= _SMALL else next_path(input)

    return host_argwhere


@_of_numbers
def nonzero_static_path(next_path: Closure, key: int) -> Closure:
    """Return a closure of ``nonzero_static``."""

    def host_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
        x = input._array
        if type(size) is not int or not 0 <= size <= _SMALL or type(fill_value) is not int or x.size > _SMALL or (
                not -(1 << 63) <= fill_value < 1 << 63):
            return next_path(input, size=size, fill_value=fill_value)
        rows = coordinates(x)
        if len(rows) > size:
            rows = rows[:size].copy()
        elif len(rows) < size:
            filled = np.full((size, rows.shape[1]), fill_value, _INT64)
            filled[:len(rows)] = rows
            rows = filled
        return _tensor(rows, key)

    return host_static


@_of_numbers
def count_nonzero_path(next_path: Closure, key: int) -> Closure:
    """Return a closure of ``count_nonzero`` over all dimensions."""
    key |= DIM0

    def host_count(input: Any, dim: Any = None) -> Any:
        x = input._array
        if dim is not None or x.size > _SMALL:
            return next_path(input, dim)
        count = np.count_nonzero(x) if x.ndim else 0 if x.item() == 0 else 1
        return _tensor(np.array(count, _INT64), key)

    return host_count


def trace_path(key: int, state: DeviceState, next_path: Closure) -> Closure | None:
    """Return a closure of ``trace`` that adds a diagonal as ``sum`` adds a strided vector; None without such a sum."""
    dtype = DTYPE_OF.get(key & DTYPE_MASK)
    kernel = None if dtype is None or key & AUTOGRAD else state.runtime.kernels.find("sum_all", dtype.name, direct=True)
    if kernel is None or kernel.limit is None:
        return None
    run, limit, result = quiet(kernel.run, 1), kernel.limit, key | DIM0

    def host_trace(input: Any) -> Any:
        x = input._array
        if x.ndim != 2 or not 2 <= min(x.shape) <= limit:  # entries add dense vectors, such as one element
            return next_path(input)
        return _tensor(run(x.diagonal()), result)

    return host_trace


def masked_select_path(key: int, state: DeviceState, next_path: Closure) -> Closure | None:
    """Return a closure of ``masked_select`` for a mask of the tensor's shape."""
    if key & (AUTOGRAD | DIM0):
        return None

    def host_select(input: Any, mask: Any) -> Any:
        x, m = input._array, mask._array
        if x.shape != m.shape or m.dtype.char != "?" or x.size > _MEDIUM:
            return next_path(input, mask)
        if x.size <= _FEW:
            return _tensor(x[m], input._key)
        return _tensor(call_pooled("masked_select", _selected, x, m), input._key)

    return host_select


def _selected(x: Any, mask: Any) -> Any:
    """Return ``x[mask]`` by positions in vectors, which NumPy finds six times as fast."""
    return x.reshape(-1).take(mask.reshape(-1).nonzero()[0])


def masked_scatter_path(key: int, state: DeviceState, next_path: Closure) -> Closure | None:
    """Return a closure of ``masked_scatter`` for dense tensors and a mask of the tensor's shape."""
    if key & (AUTOGRAD | DIM0):
        return None

    def host_scatter(input: Any, mask: Any, source: Any) -> Any:
        x, m, y = input._array, mask._array, source._array
        if x.shape != m.shape or m.dtype.char != "?" or (input._key ^ source._key) & DTYPE_MASK or (
                x.size > _MEDIUM) or not x.flags.c_contiguous:
            return next_path(input, mask, source)
        r = call_pooled("masked_scatter", _scattered, x, m, y)
        return next_path(input, mask, source) if r is None else _tensor(r, input._key)

    return host_scatter


def _scattered(x: Any, mask: Any, source: Any) -> Any:
    """Return a copy of an array with elements of ``source`` under a mask; None if there are too few."""
    places = mask if x.size <= _FEW else mask.reshape(-1).nonzero()[0]
    count = mask.size - mask.tobytes().count(0) if places is mask else places.size  # faster than count_nonzero
    if count > source.size:
        return None
    r = x.copy()
    (r if places is mask else r.reshape(-1))[places] = source.reshape(-1)[:count]
    return r
