"""Host paths for small arrays that move elements: joining arrays, taking rows at indices (see ``host_path``)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.host_kernels import Closure
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.kit.host_kernels import undispatched

_new = object.__new__
_Array = np.ndarray

#: Bytes of a row from which the device's kernel copies rows at once.
_ROW_BYTES: Final = 512
#: The most bytes that NumPy joins along the first dimension faster than the device's kernel: as for entries.
_JOINED_BYTES: Final = 1 << 20


def join(key: int, limit: int, empty: Closure, next_path: Closure) -> Closure:
    """Return a closure of ``cat`` for tensors of one dtype; ``empty(shape)`` allocates results that are not small."""
    concatenate = undispatched(np.concatenate)

    def whole(arrays: Any) -> Any:
        """Join dense arrays along the first dimension; return None for others, and if threads join them faster."""
        if sum([x.nbytes for x in arrays]) > _JOINED_BYTES or not all(x.flags.c_contiguous for x in arrays):
            return None
        return concatenate(arrays, 0, empty((sum([len(x) for x in arrays]), *arrays[0].shape[1:])))

    def host_join(items: Any, dim: int = 0) -> Any:
        if len(items) == 2:  # the most common case; a comprehension costs as much as a dozen attribute reads
            first, second = items
            x, y = first._array, second._array
            arrays: Any = (x, y)
        else:
            arrays = [t._array for t in items]
            x, y = arrays[0], arrays[-1]
        small = x.size <= limit and y.size <= limit
        if (dim and not small) or dim is None:  # NumPy walks through rows more slowly, or would flatten
            return next_path(items, dim)
        try:
            r: Any = whole(arrays) if not small else concatenate(arrays, dim) if dim else concatenate(arrays)
        except (ValueError, TypeError):
            return next_path(items, dim)
        if r is None or not r.flags.c_contiguous:
            return next_path(items, dim)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_join


def stacked(key: int, limit: int, empty: Closure, next_path: Closure) -> Closure:
    """Return a closure of ``stack`` for tensors of one dtype; ``empty(shape)`` allocates the result."""
    concatenate = undispatched(np.concatenate)
    key &= ~DIM0

    def host_stacked(items: Any, dim: int = 0) -> Any:
        arrays = [t._array for t in items]
        shape, shapes = (arrays[0].shape, {x.shape for x in arrays}) if arrays else ((), ())
        rank = len(shape)
        if len(shapes) != 1 or type(dim) is not int or arrays[0].size > limit or (dim and not 0 <= dim < rank):
            return next_path(items, dim)
        r = empty((*shape[:dim], len(arrays), *shape[dim:]))
        if rank:
            # Join along an axis that splits into the new dimension and the old one.
            concatenate(arrays, dim, r.reshape((*shape[:dim], len(arrays) * shape[dim], *shape[dim + 1:])))
        else:
            r[...] = arrays
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_stacked


def taken(x: Any, positions: Any, limit: int) -> Any:
    """Return the rows of an array; None if the general closure must decide, or is faster."""
    shape = x.shape
    if not shape or positions.size * x.size > limit * shape[0]:
        return None
    try:
        # ``take`` would copy all of an array that is not contiguous.
        r = x.take(positions, 0) if x.flags.c_contiguous else x[positions].copy()
    except IndexError:
        return None
    return r if type(r) is _Array and r.flags.c_contiguous else None


def many_rows(x: Any, positions: Any, dtype: DType, state: DeviceState) -> Any:
    """Return the rows of a large array by the device's gather kernel; None if the general closure must decide."""
    kernel = state.runtime.kernels.find("gather", dtype.name, direct=False)
    shape = x.shape
    if kernel is None or len(shape) < 2 or not positions.size or not (
            x.flags.c_contiguous and positions.flags.c_contiguous) or positions.max() >= shape[0] or (
            x.strides[0] < _ROW_BYTES):
        return None
    stream = state.stream
    out = state.runtime.empty((positions.size, *shape[1:]), dtype, stream)
    index = _Array(out.shape, positions.dtype, positions, 0, (positions.itemsize, *[0] * (len(shape) - 1)))
    kernel.run([out], [x, index], (0,), stream)
    return out


def rows_along(limit: int, state: DeviceState, next_path: Closure) -> Closure:
    """Return a closure of ``index_select`` for int64 vectors along the first dimension."""
    integers = dtype_bit(dtypes.int64)

    def host_rows(a: Any, dim: int, index: Any) -> Any:
        positions = index._array
        if RECORDERS or dim != 0 or positions.ndim != 1 or not index._key & integers or (
                positions.size and positions.min() < 0):
            return next_path(a, dim, index)
        x = a._array
        r = taken(x, positions, limit)
        if r is None:
            r = many_rows(x, positions, DTYPE_OF[a._key & DTYPE_MASK], state)
            if r is None:
                return next_path(a, dim, index)
        t = _new(Tensor)
        t._array = r
        t._key = a._key & ~AUTOGRAD
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_rows
