"""Host paths of the kinds: closures that serve small arrays with one NumPy call and one new tensor.

The key of a closure settles dtype and device, so that only sizes are left to check. Every call that is too large goes
to the next path, and so does every call that NumPy refuses: the next path raises tensocket's own error.
"""

from __future__ import annotations

from itertools import zip_longest
from math import prod
from typing import Any, Final

import numpy as np

from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.launch.entries import ArrayEntry
from tensocket_core.launch.host_kernels import REFUSED, Closure, number_cache, size_limit
from tensocket_core.launch.numbers import Convert
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.kit.host_kernels_quiet import quiet

_new = object.__new__
_Array = np.ndarray
_BOOL: Final = dtype_bit(dtypes.bool_)

# ------------------------------------------------------------------------------------------------------- pointwise


def unary(kernel: Kernel, key: int, zero_dim: bool, next_path: Closure) -> Closure:
    """Return a closure over ``kernel(x)``; ufuncs return NumPy scalars for 0-d arrays, which it wraps."""
    run, limit = quiet(kernel.run, 1), size_limit(kernel)

    def host_unary(a: Any) -> Any:
        x = a._array
        if x.size > limit:
            return next_path(a)
        try:
            r = run(x)
        except REFUSED:
            return next_path(a)
        t = _new(Tensor)
        t._array = r if type(r) is _Array else np.asarray(r)
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    key = key | DIM0 if zero_dim else key
    return host_unary


def _grows(x: tuple[int, ...], y: tuple[int, ...], limit: float) -> bool:
    """Whether small operands broadcast to a large result."""
    if x[-len(y):] == y or y[-len(x):] == x:
        return False
    return prod(map(max, zip_longest(x[::-1], y[::-1], fillvalue=1))) > limit


def binary(kernel: Kernel, key: int, zero_dim: bool, next_path: Closure) -> Closure:
    """Return a closure over ``kernel(x, y)`` for two tensors of one dtype."""
    run, limit = quiet(kernel.run, 2), size_limit(kernel)

    def host_binary(a: Any, b: Any) -> Any:
        x, y = a._array, b._array
        n, m = x.size, y.size
        if n > limit or m > limit or (n * m > limit and x.shape != y.shape and _grows(x.shape, y.shape, limit)):
            return next_path(a, b)
        try:
            r = run(x, y)
        except REFUSED:
            return next_path(a, b)
        if x.ndim > 1 and not x.flags.c_contiguous and r.flags.c_contiguous:
            return next_path(a, b)  # if memory orders differ, NumPy's result is row-major, PyTorch's like the first
        if n > 1 < m and (n != m or r.size != n) and not (x.flags.c_contiguous and y.flags.c_contiguous):
            return next_path(a, b)  # for broadcast operands, NumPy ranks strides differently
        t = _new(Tensor)
        t._array = r = r if type(r) is _Array else np.asarray(r)
        t._key = key | DIM0 if zero_dim and not r.shape else key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_binary


def number(kernel: Kernel, key: int, dtype: DType, convert: Convert, zero_dim: bool, next_path: Closure) -> Closure:
    """Return a closure over ``kernel(x, y)`` for a tensor and a Python number on the right in the tensor's dtype."""
    run, limit = quiet(kernel.run, 2), size_limit(kernel)
    cache, made = number_cache(dtype, convert)

    def host_number(a: Any, b: Any) -> Any:
        x = a._array
        if x.size > limit:
            return next_path(a, b)
        try:
            y = cache[b]
        except KeyError:
            y = made(b)
        try:
            r = run(x, y)
        except REFUSED:
            return next_path(a, b)
        t = _new(Tensor)
        t._array = r if type(r) is _Array else np.asarray(r)
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    key = key | DIM0 if zero_dim else key
    return host_number


def number_first(kernel: Kernel, key: int, dtype: DType, convert: Convert, zero_dim: bool,
                 next_path: Closure) -> Closure:
    """Return a closure as ``number`` does, for a number on the left."""
    run, limit = quiet(kernel.run, 2), size_limit(kernel)
    cache, made = number_cache(dtype, convert)

    def host_number_first(a: Any, b: Any) -> Any:
        y = b._array
        if y.size > limit:
            return next_path(a, b)
        try:
            x = cache[a]
        except KeyError:
            x = made(a)
        try:
            r = run(x, y)
        except REFUSED:
            return next_path(a, b)
        t = _new(Tensor)
        t._array = r if type(r) is _Array else np.asarray(r)
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    key = key | DIM0 if zero_dim else key
    return host_number_first


def choice(kernel: Kernel, key: int, dtype: DType, next_path: Closure) -> Closure:
    """Return a closure over ``kernel(condition, x, y)`` for a bool tensor and two tensors of another, common dtype."""
    run, limit, wanted = quiet(kernel.run, 3), size_limit(kernel), dtype_bit(dtype)

    def host_choice(c: Any, a: Any, b: Any) -> Any:
        try:
            fits = c._key & _BOOL and a._key & b._key & wanted
        except AttributeError:  # neither tensor nor number
            fits = 0
        if not fits:
            return next_path(c, a, b)
        m, x, y = c._array, a._array, b._array
        if m.size > limit or x.size > limit or y.size > limit:
            return next_path(c, a, b)
        try:
            r = run(m, x, y)
        except REFUSED:
            return next_path(c, a, b)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_choice


def inplace(kernel: Kernel, dtype: DType, convert: Convert, with_number: bool, ufunc: bool,
            next_path: Closure) -> Closure:
    """Return a closure that writes ``kernel(x, y)`` to ``x``, a contiguous target; ``y`` has its shape or is a number.

    ``ufunc``: the kernel takes the array to write as a third argument.
    """
    run, limit = kernel.run, size_limit(kernel)
    cache, made = number_cache(dtype, convert)

    def put(x: Any, y: Any, out: Any) -> None:
        out[...] = run(x, y)

    write = quiet(run if ufunc else put, 3)

    def host_inplace(target: Any, other: Any) -> Any:
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
            return next_path(target, other)
        write(x, y, x)
        counter = target._version_counter
        if counter is None:
            target._version_counter = [1]
        else:
            counter[-1] += 1
        return target

    return host_inplace


# -------------------------------------------------------------------------------------------------- along dimensions

#: All axes of an array, by its number of dimensions.
_ALL: Final = tuple(tuple(range(rank)) for rank in range(65))


def _function_of(entry: ArrayEntry | None) -> list[Closure]:
    """Return a list of an entry's current function, without warnings; the list is empty without an entry."""
    current: list[Closure] = []
    if entry is not None:
        entry.follow(lambda run: current.__setitem__(slice(None), [quiet(run, 1)]))
    return current


def only_axis(dim: Any, rank: int) -> int | None:
    """Return the one dimension in a list or tuple, if there is one and it exists."""
    if type(dim) not in (tuple, list) or len(dim) != 1 or type(dim[0]) is not int or not -rank <= dim[0] < rank:
        return None
    return dim[0]


def listed_axes(dim: Any, rank: int) -> tuple[int, ...] | None:
    """Return the dimensions in a list or tuple, from the first to the last, if all exist and none is there twice."""
    if type(dim) not in (tuple, list) or not dim or not all(type(k) is int and -rank <= k < rank for k in dim):
        return None
    axes = sorted({k % rank for k in dim})
    return tuple(axes) if len(axes) == len(dim) else None


def reduction(kernel: Kernel, everything: Kernel | None, last: ArrayEntry | None, key: int, positional: bool,
              next_path: Closure, shortest: int = 1) -> Closure:
    """Return a closure over ``kernel(x, axes, keepdim)``, for all dimensions or one.

    ``everything(x)`` and ``last(x)`` are cheaper, over all dimensions and over the last one; ``positional``: the
    operator has no ``dtype`` argument; ``shortest``: the next path is faster for many shorter rows.
    """
    run, limit = quiet(kernel.run, 3), size_limit(kernel)
    total = None if everything is None else quiet(everything.run, 1)
    along, most = _function_of(last), limit if last is None else max(limit, size_limit(last))

    def host_reduction(a: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        x = a._array
        rank = x.ndim
        size = x.size
        if dtype is not None or not 0 < size <= most:
            return next_path(a, dim, keepdim) if positional else next_path(a, dim, keepdim, dtype)
        try:
            if size > limit:
                if type(dim) is not int or keepdim or (dim != -1 and dim + 1 != rank) or x.shape[-1] < shortest:
                    return next_path(a, dim, keepdim)
                r = along[0](x)  # it exists, as only its limit can be the higher one
            elif dim is None:
                r = total(x) if total is not None and not keepdim else run(x, _ALL[rank], keepdim)
            elif type(dim) is not int or not -rank <= dim < rank:
                axes = listed_axes(dim, rank)
                if axes is None:
                    return next_path(a, dim, keepdim)
                if len(axes) == 1:
                    return host_reduction(a, axes[0], keepdim)
                r = run(x, axes, keepdim)
            elif along and (dim == -1 or dim + 1 == rank):
                r = along[0](x)
                if keepdim:
                    r = r.reshape((*r.shape, 1))
            else:
                r = run(x, (dim % rank,), keepdim)
        except REFUSED:
            return next_path(a, dim, keepdim)
        t = _new(Tensor)
        t._array = r
        t._key = key if r.shape else key | DIM0
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_reduction


def row(kernel: Kernel, last: ArrayEntry, key: int, next_path: Closure) -> Closure:
    """Return a closure over ``kernel(x, axis)`` for ``name(input, dim, *, dtype)``; ``last(x)`` serves the last dim."""
    run, along = quiet(kernel.run, 2), _function_of(last)
    limit, along_limit = size_limit(kernel), size_limit(last)

    def host_row(a: Any, dim: int, dtype: Any = None) -> Any:
        x = a._array
        rank = x.ndim
        if dtype is not None or type(dim) is not int or not -rank <= dim < rank:
            return next_path(a, dim, dtype=dtype)
        is_last = dim == -1 or dim + 1 == rank
        if not 0 < x.size <= (along_limit if is_last else limit) or not x.flags.c_contiguous:
            return next_path(a, dim, dtype=dtype)  # results are contiguous; NumPy keeps the operand's order
        try:
            r = along[0](x) if is_last else run(x, dim)
        except REFUSED:
            return next_path(a, dim)
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return host_row
