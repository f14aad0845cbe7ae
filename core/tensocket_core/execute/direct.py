"""Shortcuts for small arrays on host-resident devices: one kernel call and one new tensor.

Each function here makes a closure for a key that settles dtype and device, so that nothing is left to check but sizes.
Whatever does not fit goes to the general closure, also what NumPy refuses or warns of: that one says what is wrong in
the house form, and runs the kernel without warnings. (NumPy looks at its error settings only where a floating-point
flag was raised, so the common case pays nothing.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import zip_longest
from math import prod
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.kit.host_kernels import undispatched
from tensocket_plugins.kit.host_kernels_quiet import quiet

from .. import tensors
from ..device import DeviceEntry
from ..dispatch.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from .convert import to_dtype

_new = object.__new__
_Array = np.ndarray
Closure = Callable[..., Any]

#: What NumPy raises where the general closure decides: shapes that do not fit, and flags where warnings are errors.
REFUSED: Final = (ValueError, RuntimeWarning, FloatingPointError)
# A flag that NumPy would report belongs to a kernel, not to the user's own NumPy code.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"tensocket_(core|plugins)\.")

#: Cached 0-d arrays of Python numbers, by dtype; halves the cost of ``a * 2.0``. Zeros (0.0 == -0.0) and NaN are not
#: kept.
NUMBERS: Final[dict[DType, dict[Any, Any]]] = {dtype: {} for dtype in dtypes.ALL}
_CACHED_NUMBERS: Final = 4096
#: Bytes of a row from which a device's kernel copies rows at once.
_ROW_BYTES: Final = 512
_BOOL: Final = dtype_bit(dtypes.bool_)
_QUIET: Final[dict[Kernel, Closure]] = {}


def number_array(value: Any, dtype: DType) -> Any:
    """A Python number as a 0-d array of a NumPy dtype."""
    cache = NUMBERS[dtype]
    try:
        return cache[value]
    except KeyError:
        array = to_dtype(np.asarray(value), dtype)
        if value == value and value != 0:
            if len(cache) >= _CACHED_NUMBERS:
                cache.clear()
            cache[value] = array
        return array


def quietly(kernel: Kernel) -> Closure:
    """A direct kernel without NumPy's warnings."""
    run = _QUIET.get(kernel)
    if run is None:
        run = _QUIET[kernel] = quiet(kernel.run)
    return run


def size_limit(kernel: Kernel) -> float:
    """Elements up to which a kernel is used."""
    return float("inf") if kernel.limit is None else kernel.limit


# ------------------------------------------------------------------------------------------------------- pointwise


def unary(kernel: Kernel, key: int, zero_dim: bool, general: Closure) -> Closure:
    """``kernel(x)``; for 0-d tensors with care for ufuncs, which return NumPy scalars then."""
    Tensor, run, limit = tensors.Tensor, kernel.run, size_limit(kernel)

    def direct_unary(a: Any) -> Any:
        x = a._array
        if x.size > limit:
            return general(a)
        try:
            r = run(x)
        except REFUSED:
            return general(a)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    def direct_unary_0d(a: Any) -> Any:
        try:
            r = np.asarray(run(a._array))
        except REFUSED:
            return general(a)
        t = _new(Tensor)
        t._array = r
        t._key = key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_unary_0d if zero_dim else direct_unary


def _grows(x: tuple[int, ...], y: tuple[int, ...], limit: float) -> bool:
    """Whether small operands broadcast to a large result."""
    if x[-len(y):] == y or y[-len(x):] == x:
        return False
    return prod(map(max, zip_longest(x[::-1], y[::-1], fillvalue=1))) > limit


def binary(kernel: Kernel, key: int, zero_dim: bool, general: Closure) -> Closure:
    """``kernel(x, y)`` of two tensors of one dtype."""
    Tensor, run, limit = tensors.Tensor, kernel.run, size_limit(kernel)

    def direct_binary(a: Any, b: Any) -> Any:
        x, y = a._array, b._array
        n, m = x.size, y.size
        if n > limit or m > limit or (n * m > limit and x.shape != y.shape and _grows(x.shape, y.shape, limit)):
            return general(a, b)
        try:
            r = run(x, y)
        except REFUSED:
            return general(a, b)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    def direct_binary_0d(a: Any, b: Any) -> Any:
        x, y = a._array, b._array
        n, m = x.size, y.size
        if n > limit or m > limit or (n * m > limit and x.shape != y.shape and _grows(x.shape, y.shape, limit)):
            return general(a, b)
        try:
            r = np.asarray(run(x, y))
        except REFUSED:
            return general(a, b)
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_binary_0d if zero_dim else direct_binary


def number(kernel: Kernel, key: int, dtype: DType, zero_dim: bool, general: Closure) -> Closure:
    """``kernel(x, y)`` of a tensor and a Python number on the right that takes the tensor's dtype."""
    Tensor, run, limit, cache = tensors.Tensor, kernel.run, size_limit(kernel), NUMBERS[dtype]

    def direct_number(a: Any, b: Any) -> Any:
        x = a._array
        if x.size > limit:
            return general(a, b)
        try:
            y = cache[b]
        except KeyError:
            y = number_array(b, dtype)
        try:
            r = run(x, y)
        except REFUSED:
            return general(a, b)
        t = _new(Tensor)
        t._array = r if type(r) is _Array else np.asarray(r)
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    key = key | DIM0 if zero_dim else key
    return direct_number


def choice(kernel: Kernel, key: int, dtype: DType, general: Closure) -> Closure:
    """``kernel(condition, x, y)``: a bool tensor and two tensors of one other dtype."""
    Tensor, run, limit, wanted = tensors.Tensor, kernel.run, size_limit(kernel), dtype_bit(dtype)

    def direct_choice(c: Any, a: Any, b: Any) -> Any:
        try:
            fits = c._key & _BOOL and a._key & b._key & wanted
        except AttributeError:  # neither tensor nor number
            fits = 0
        if not fits:
            return general(c, a, b)
        m, x, y = c._array, a._array, b._array
        if m.size > limit or x.size > limit or y.size > limit:
            return general(c, a, b)
        try:
            r = run(m, x, y)
        except REFUSED:
            return general(c, a, b)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_choice


def inplace(kernel: Kernel, dtype: DType, with_number: bool, ufunc: bool, general: Closure) -> Closure:
    """``kernel(x, y)`` written to ``x``, for a contiguous target and an operand of its shape, or a number.

    ``ufunc``: the kernel takes the array that it writes to as a third argument.
    """
    run, limit, cache = kernel.run, size_limit(kernel), NUMBERS[dtype]

    def direct_inplace(target: Any, other: Any) -> Any:
        x = target._array
        if with_number:
            try:
                y = cache[other]
            except KeyError:
                y = number_array(other, dtype)
        else:
            y = other._array
        if x.size > limit or not x.flags.carray or (y.shape and y.shape != x.shape):
            return general(target, other)
        try:
            if ufunc:
                run(x, y, x)
            else:
                x[...] = run(x, y)
        except (RuntimeWarning, FloatingPointError):
            if not ufunc:  # nothing was written
                return general(target, other)
            # NumPy reports flags after its loop: the result is there.
        counter = target._version_counter
        if counter is None:
            target._version_counter = [1]
        else:
            counter[0] += 1
        return target

    return direct_inplace


# ------------------------------------------------------------------------------------------------------ reductions

#: All axes of an array of so many dimensions.
_ALL: Final = tuple(tuple(range(rank)) for rank in range(65))


def reduction(kernel: Kernel, everything: Kernel | None, last: Kernel | None, key: int, positional: bool,
              general: Closure) -> Closure:
    """``kernel(x, axes, keepdim)`` over all dimensions or one.

    Args:
        kernel: The kernel.
        everything: ``kernel(x)`` over all dimensions, where there is a cheaper one.
        last: ``kernel(x)`` over the last dimension, where there is a cheaper one.
        key: The result's.
        positional: Whether the operator has no ``dtype`` argument.
        general: For everything else.
    """
    Tensor, run, limit = tensors.Tensor, kernel.run, size_limit(kernel)
    total = None if everything is None else everything.run
    along = None if last is None else last.run
    most = limit if last is None else max(limit, size_limit(last))

    def direct_reduction(a: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        x = a._array
        rank = x.ndim
        size = x.size
        if dtype is not None or not 0 < size <= most:
            return general(a, dim, keepdim) if positional else general(a, dim, keepdim, dtype)
        try:
            if size > limit:
                if type(dim) is not int or keepdim or (dim != -1 and dim + 1 != rank):
                    return general(a, dim, keepdim)
                r = along(x)  # type: ignore[misc]  # there is one: its limit is the higher one
            elif dim is None:
                r = total(x) if total is not None and not keepdim else run(x, _ALL[rank], keepdim)
            elif type(dim) is not int or not -rank <= dim < rank:
                return general(a, dim, keepdim)
            elif along is not None and not keepdim and (dim == -1 or dim + 1 == rank):
                r = along(x)
            else:
                r = run(x, (dim % rank,), keepdim)
        except REFUSED:
            return general(a, dim, keepdim)
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_reduction


# -------------------------------------------------------------------------------------------- rows, joining, products


def row(kernel: Kernel, last: Kernel, key: int, general: Closure) -> Closure:
    """``kernel(x, axis)`` for ``name(input, dim, *, dtype)``; ``last(x)`` along the last dimension."""
    Tensor, run, along = tensors.Tensor, kernel.run, last.run
    limit, along_limit = size_limit(kernel), size_limit(last)

    def direct_row(a: Any, dim: int, dtype: Any = None) -> Any:
        x = a._array
        rank = x.ndim
        if dtype is not None or type(dim) is not int or not -rank <= dim < rank:
            return general(a, dim, dtype=dtype)
        is_last = dim == -1 or dim + 1 == rank
        if not 0 < x.size <= (along_limit if is_last else limit):
            return general(a, dim, dtype=dtype)
        try:
            r = along(x) if is_last else run(x, dim)
        except REFUSED:
            return general(a, dim)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_row


def join(key: int, limit: int, general: Closure) -> Closure:
    """``cat`` of tensors of one dtype."""
    Tensor, concatenate = tensors.Tensor, undispatched(np.concatenate)

    def direct_join(items: Any, dim: int = 0) -> Any:
        if len(items) == 2:  # the most common case; a comprehension costs as much as a field of a dozen
            first, second = items
            array = first._array
            arrays: Any = (array, second._array)
        else:
            arrays = [t._array for t in items]
            array = arrays[0]
        if array.size > limit or arrays[-1].size > limit:
            return general(items, dim)
        try:
            r = concatenate(arrays, dim)
        except (ValueError, TypeError):
            return general(items, dim)
        if not r.flags.c_contiguous:
            return general(items, dim)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_join


def stacked(key: int, limit: int, empty: Closure, general: Closure) -> Closure:
    """``stack`` of tensors of one dtype; ``empty(shape)`` gives memory for the result."""
    Tensor, concatenate = tensors.Tensor, undispatched(np.concatenate)
    key &= ~DIM0

    def direct_stacked(items: Any, dim: int = 0) -> Any:
        arrays = [t._array for t in items]
        shape, shapes = (arrays[0].shape, {x.shape for x in arrays}) if arrays else ((), ())
        rank = len(shape)
        if len(shapes) != 1 or type(dim) is not int or arrays[0].size > limit or (dim and not 0 <= dim < rank):
            return general(items, dim)
        r = empty((*shape[:dim], len(arrays), *shape[dim:]))
        if rank:
            # Along an axis that splits into the new dimension and the old one.
            concatenate(arrays, dim, r.reshape((*shape[:dim], len(arrays) * shape[dim], *shape[dim + 1:])))
        else:
            r[...] = arrays
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_stacked


def taken(x: Any, positions: Any, limit: int) -> Any:
    """Rows of an array; None where the general closure has to decide, or is faster."""
    shape = x.shape
    if not shape or positions.size * x.size > limit * shape[0]:
        return None
    try:
        # ``take`` would copy all of an array that is not contiguous.
        r = x.take(positions, 0) if x.flags.c_contiguous else x[positions]
    except IndexError:
        return None
    return r if type(r) is _Array and r.flags.c_contiguous else None


def many_rows(x: Any, positions: Any, dtype: DType, entry: DeviceEntry) -> Any:
    """Rows of a large array by the device's kernel for that; None where the general closure has to decide."""
    kernel = entry.runtime.kernels.find("gather", dtype.name, direct=False)
    shape = x.shape
    if kernel is None or len(shape) < 2 or not positions.size or not (
            x.flags.c_contiguous and positions.flags.c_contiguous) or positions.max() >= shape[0] or (
            x.strides[0] < _ROW_BYTES):
        return None
    stream = entry.stream
    out = entry.runtime.empty((positions.size, *shape[1:]), dtype, stream)
    index = _Array(out.shape, positions.dtype, positions, 0, (positions.itemsize, *[0] * (len(shape) - 1)))
    kernel.run([out], [x, index], (0,), stream)
    return out


def rows_along(limit: int, entry: DeviceEntry, general: Closure) -> Closure:
    """``index_select`` of a vector of int64 along the first dimension."""
    Tensor, integers = tensors.Tensor, dtype_bit(dtypes.int64)

    def direct_rows(a: Any, dim: int, index: Any) -> Any:
        positions = index._array
        if dim != 0 or positions.ndim != 1 or not index._key & integers or (positions.size and positions.min() < 0):
            return general(a, dim, index)
        x = a._array
        r = taken(x, positions, limit)
        if r is None:
            r = many_rows(x, positions, DTYPE_OF[a._key & DTYPE_MASK], entry)
            if r is None:
                return general(a, dim, index)
        t = _new(Tensor)
        t._array = r
        t._key = a._key & ~AUTOGRAD
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_rows


def product(kernel: Kernel, key: int, fits: Callable[[Any, Any], bool], general: Closure) -> Closure:
    """``kernel(x, y)``: products of matrices, where ``fits(x, y)`` allows their shapes."""
    Tensor, run = tensors.Tensor, kernel.run

    def direct_product(a: Any, b: Any) -> Any:
        x, y = a._array, b._array
        if not fits(x, y):
            return general(a, b)
        try:
            r = run(x, y)
        except REFUSED:
            return general(a, b)
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_product


def affine(kernel: Kernel, key: int, general: Closure) -> Closure:
    """``kernel(x, weight, bias)``: ``input @ weight.T + bias``, for an input of at least two dimensions."""
    Tensor, run = tensors.Tensor, kernel.run

    def direct_affine(a: Any, weight: Any, bias: Any = None) -> Any:
        x, w = a._array, weight._array
        if x.ndim < 2 or w.ndim != 2:
            return general(a, weight, bias)
        try:
            r = run(x, w, None if bias is None else bias._array)
        except REFUSED:
            return general(a, weight, bias)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_affine
