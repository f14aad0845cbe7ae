"""Shortcuts for small arrays on host-resident devices: one kernel call and one new tensor.

Each function here makes a closure for a key that settles dtype and device, so that nothing is left to check but sizes.
Everything that does not fit goes to the general closure, also what NumPy refuses: that one says what is wrong in the
house form. Kernels run without NumPy's floating-point warnings, with any settings of the program: a filter of warnings
alone would stand behind those that the program adds later.
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
from tensocket_plugins.kit.host_kernels_quiet import quiet

from .. import tensors
from ..dispatch.keys import DIM0, dtype_bit
from .convert import to_dtype
from .math import arithmetic_dtype
from .numbers import Convert

_new = object.__new__
_Array = np.ndarray
Closure = Callable[..., Any]

#: What NumPy raises where the general closure decides: shapes that do not fit.
REFUSED: Final = ValueError
# The second line of defence, for NumPy calls off the hot paths: a flag belongs to a kernel, not to the user's own code.
warnings.filterwarnings("ignore", r"(divide by zero|invalid value|overflow|underflow) encountered", RuntimeWarning,
                        r"tensocket_(core|cpu|plugins)\.")

#: Cached 0-d arrays of Python numbers, by dtype; halves the cost of ``a * 2.0``. Zeros (0.0 == -0.0), NaN and
#: numbers of complex dtypes (1 == 1 - 0j) are not kept. Operators that refuse numbers have caches of their own
#: (``number_cache``).
NUMBERS: Final[dict[DType, dict[Any, Any]]] = {dtype: {} for dtype in dtypes.ALL}
_CACHES: Final[dict[Convert, dict[Any, Any]]] = {}
_CACHED_NUMBERS: Final = 4096
_BOOL: Final = dtype_bit(dtypes.bool_)
_QUIET: Final[dict[Kernel, Closure]] = {}


def number_array(value: Any, dtype: DType) -> Any:
    """A Python number as a 0-d array of a NumPy dtype."""
    return _kept_number(value, dtype, None, NUMBERS[dtype])


def number_cache(dtype: DType, convert: Convert) -> tuple[dict[Any, Any], Closure]:
    """The cache of 0-d arrays of converted numbers, and what makes an array for a number that it lacks.

    Args:
        dtype: Dtype of the operands.
        convert: Turns a number into one of the dtype that kernels calculate in; see ``numbers.converter``.
    """
    work, cache = arithmetic_dtype(dtype), _CACHES.setdefault(convert, {})
    return cache, lambda value: _kept_number(value, work, convert, cache)


def _kept_number(value: Any, dtype: DType, convert: Convert | None, cache: dict[Any, Any]) -> Any:
    try:
        return cache[value]
    except KeyError:
        array = to_dtype(np.asarray(value if convert is None else convert(value)), dtype)
        if value == value and value != 0 and dtype.kind != "complex":
            if len(cache) >= _CACHED_NUMBERS:
                cache.clear()
            cache[value] = array
        return array


def rounding(kernel: Kernel, dtype: DType) -> Kernel:
    """A kernel of two operands that rounds its result to a dtype of NumPy's."""
    run, kind = kernel.run, dtype.numpy
    return Kernel(lambda x, y: np.asarray(run(x, y)).astype(kind, copy=False), True, kernel.limit)


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
    Tensor, run, limit = tensors.Tensor, quiet(kernel.run, 1), size_limit(kernel)

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
    Tensor, run, limit = tensors.Tensor, quiet(kernel.run, 2), size_limit(kernel)

    def direct_binary(a: Any, b: Any) -> Any:
        x, y = a._array, b._array
        n, m = x.size, y.size
        if n > limit or m > limit or (n * m > limit and x.shape != y.shape and _grows(x.shape, y.shape, limit)):
            return general(a, b)
        try:
            r = run(x, y)
        except REFUSED:
            return general(a, b)
        if x.ndim > 1 and not x.flags.c_contiguous and r.flags.c_contiguous:
            return general(a, b)  # where orders in memory differ, NumPy takes rows, and PyTorch the first operand's
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
        if x.ndim > 1 and not x.flags.c_contiguous and r.flags.c_contiguous:
            return general(a, b)  # where orders in memory differ, NumPy takes rows, and PyTorch the first operand's
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_binary_0d if zero_dim else direct_binary


def number(kernel: Kernel, key: int, dtype: DType, convert: Convert, zero_dim: bool, general: Closure) -> Closure:
    """``kernel(x, y)`` of a tensor and a Python number on the right that takes the tensor's dtype."""
    Tensor, run, limit = tensors.Tensor, quiet(kernel.run, 2), size_limit(kernel)
    cache, made = number_cache(dtype, convert)

    def direct_number(a: Any, b: Any) -> Any:
        x = a._array
        if x.size > limit:
            return general(a, b)
        try:
            y = cache[b]
        except KeyError:
            y = made(b)
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
    Tensor, run, limit, wanted = tensors.Tensor, quiet(kernel.run, 3), size_limit(kernel), dtype_bit(dtype)

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


def inplace(kernel: Kernel, dtype: DType, convert: Convert, with_number: bool, ufunc: bool,
            general: Closure) -> Closure:
    """``kernel(x, y)`` written to ``x``, for a contiguous target and an operand of its shape, or a number.

    ``ufunc``: the kernel takes the array that it writes to as a third argument.
    """
    run, limit = kernel.run, size_limit(kernel)
    cache, made = number_cache(dtype, convert)

    def put(x: Any, y: Any, out: Any) -> None:
        out[...] = run(x, y)

    write = quiet(run if ufunc else put, 3)

    def direct_inplace(target: Any, other: Any) -> Any:
        x = target._array
        if with_number:
            try:
                y = cache[other]
            except KeyError:
                y = made(other)
        else:
            y = other._array
        if x.size > limit or not x.flags.carray or (y.shape and y.shape != x.shape) or (
                (x.base is not None or y.base is not None) and x is not y and np.may_share_memory(x, y)):
            return general(target, other)
        write(x, y, x)
        counter = target._version_counter
        if counter is None:
            target._version_counter = [1]
        else:
            counter[-1] += 1
        return target

    return direct_inplace


# -------------------------------------------------------------------------------------------------- along dimensions

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
    Tensor, run, limit = tensors.Tensor, quiet(kernel.run, 3), size_limit(kernel)
    total = None if everything is None else quiet(everything.run, 1)
    along = None if last is None else quiet(last.run, 1)
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


def row(kernel: Kernel, last: Kernel, key: int, general: Closure) -> Closure:
    """``kernel(x, axis)`` for ``name(input, dim, *, dtype)``; ``last(x)`` along the last dimension."""
    Tensor, run, along = tensors.Tensor, quiet(kernel.run, 2), quiet(last.run, 1)
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
