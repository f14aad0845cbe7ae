"""Shapes and strides: broadcasting, coalescing, axis normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import contiguous_strides, is_contiguous
from tensocket_plugins.contract.errors import ArgumentTypeError, DimensionError, ShapeError

Shape = tuple[int, ...]
#: NumPy's limit of dimensions.
_MOST_DIMENSIONS: Final = 64
#: NumPy's limit of an array's size in bytes, which counts elements even if strides repeat them.
_MOST_BYTES: Final = (1 << 63) - 1


def element_strides(array: Any) -> Shape:
    """Return the strides of a handle, in elements."""
    if type(array) is np.ndarray:
        size = array.itemsize
        return tuple(s // size for s in array.strides)
    return array.strides  # type: ignore[no-any-return]


def contiguous(array: Any) -> bool:
    """Whether a handle's elements are in row-major order without gaps."""
    if type(array) is np.ndarray:
        return bool(array.flags.c_contiguous)
    return is_contiguous(array.shape, array.strides)


def broadcast_shapes(operator: str, shapes: Sequence[Shape]) -> Shape:
    """Return the common shape.

    Raises:
        ShapeError: Two sizes differ and neither is 1.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes[1:]):
        return first
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and size != result[axis]:
                if result[axis] != 1:
                    raise ShapeError(operator, "shapes " + " and ".join(str(list(s)) for s in shapes),
                                     f"sizes at dimension {axis} must be equal or 1",
                                     "reshape or expand one of the tensors")
                result[axis] = size
    return tuple(result)


def expanded_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """Return the strides that broadcast an array of ``shape`` to ``target``: 0 along broadcast dimensions."""
    lead = len(target) - len(shape)
    return (0,) * lead + tuple(0 if n == 1 and target[axis + lead] != 1 else s
                               for axis, (n, s) in enumerate(zip(shape, strides, strict=True)))


def coalesce(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Merge dimensions to the fewest that visit the same elements in the same order, for several operands at once.

    >>> coalesce((2, 3, 4), [(12, 4, 1), (0, 0, 1)])
    ((6, 4), [(4, 1), (0, 1)])
    """
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        steps = [s[axis] for s in strides]
        if sizes and all(k[-1] == step * size for k, step in zip(kept, steps, strict=True)):
            sizes[-1] *= size
            for k, step in zip(kept, steps, strict=True):
                k[-1] = step
        else:
            sizes.append(size)
            for k, step in zip(kept, steps, strict=True):
                k.append(step)
    if not sizes:
        return (math.prod(shape),), [(1,) for _ in strides]
    return tuple(sizes), [tuple(k) for k in kept]


def is_integer(value: Any) -> bool:
    """Whether an argument is one integer, of Python or of a library such as NumPy; a bool and a sequence are not."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def normalize_axis(operator: str, axis: Any, rank: int) -> int:
    """Return a non-negative axis; a zero-dimensional tensor counts as one-dimensional.

    Raises:
        DimensionError: The axis is out of range.
        ArgumentTypeError: The axis is not an integer.
    """
    bound = max(rank, 1)
    if not isinstance(axis, int) or isinstance(axis, bool):
        if not is_integer(axis):
            raise ArgumentTypeError(operator, f"dim {axis!r}", "a dim is an integer", "pass an integer")
        axis = axis.__index__()
    if not -bound <= axis < bound:
        raise DimensionError(operator, f"dim {axis!r} of a {rank}-dimensional tensor",
                             f"a dim lies between {-bound} and {bound - 1}", "pass a dim of the tensor")
    return int(axis) + bound if axis < 0 else int(axis)


def normalize_axes(operator: str, dim: Any, rank: int) -> Shape:
    """Return the axes sorted and non-negative; None or an empty list means all.

    Raises:
        DimensionError: An axis is out of range.
        ShapeError: An axis appears twice.
        ArgumentTypeError: ``dim`` is neither an integer nor a sequence of integers.
    """
    if dim is None:
        return tuple(range(rank))
    if isinstance(dim, (bool, float, str)):
        raise ArgumentTypeError(operator, f"dim {dim!r}", "a dim is an integer or a tuple of integers", "pass integers")
    axes = [normalize_axis(operator, d, rank) for d in ((dim,) if isinstance(dim, int) or is_integer(dim) else dim)]
    if len(set(axes)) != len(axes):
        raise ShapeError(operator, f"dim {dim!r}", "a dim appears at most once", "remove the repetition")
    return tuple(sorted(axes)) if axes and rank else tuple(range(rank))


def normalize_shape(operator: str, shape: Sequence[int], size: int) -> Shape:
    """Return ``shape`` with a -1 replaced, checked against the number of elements.

    Raises:
        ShapeError: The sizes do not multiply to ``size``, are negative, or leave -1 ambiguous.
    """
    if -1 not in shape:
        if math.prod(shape) == size and all(n >= 0 for n in shape):
            return tuple(shape)
    else:
        known = math.prod(n for n in shape if n != -1)
        if shape.count(-1) == 1 and known > 0 and size % known == 0 and all(n >= -1 for n in shape):
            return tuple(size // known if n == -1 else n for n in shape)
    raise ShapeError(operator, f"shape {list(shape)} for {size} elements",
                     "the sizes multiply to the number of elements, with at most one -1", "choose a fitting shape")


def memory_of(array: Any) -> Any:
    """Return the owner of a handle's memory, the same for all views: the base array, or a device's storage."""
    if type(array) is not np.ndarray:
        return array.storage
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def owner_of(array: Any) -> Any:
    """Return the object that keeps a handle's memory alive: the same for all views and arrays of one foreign buffer.

    NumPy makes the first array over a foreign buffer the base of all views; only that array refers to the buffer.
    """
    memory = memory_of(array)
    return memory if type(memory) is not np.ndarray or memory.base is None else memory.base


def memory_offset(array: Any) -> int:
    """Return the number of elements between the start of the memory and the first element."""
    if type(array) is not np.ndarray:
        return int(array.offset)
    return int(array.ctypes.data - memory_of(array).ctypes.data) // array.itemsize


def memory_nbytes(array: Any) -> int:
    """Return the number of bytes of a handle's memory."""
    memory = memory_of(array)
    if type(memory) is not np.ndarray:
        return int(memory.nbytes)
    if memory.flags.forc:
        return int(memory.nbytes)
    steps = zip(memory.shape, memory.strides, strict=True)
    return int(sum((n - 1) * s for n, s in steps) + memory.itemsize) if memory.size else 0


def as_strided(array: Any, shape: Shape, strides: Shape, offset: int) -> Any:
    """Return a view with any shape and strides; ``offset`` counts from the array's first element and may be negative.

    Raises:
        ShapeError: There are more dimensions than NumPy allows.
    """
    if type(array) is not np.ndarray:
        _check_rank(shape)
        return array.as_strided(shape, strides, array.offset + offset)
    size = array.itemsize
    steps = tuple([s * size for s in strides])
    if 0 in shape:
        offset = 0
    flags = array.flags
    if flags.forc:
        try:
            return np.ndarray(shape, array.dtype, array if flags.c_contiguous else array.T, offset * size, steps)
        except (ValueError, TypeError):  # beyond the end of the array
            pass
    return _in_memory(array, shape, steps, offset * size)


def _check_rank(shape: Shape) -> None:
    if len(shape) > _MOST_DIMENSIONS:
        raise ShapeError("as_strided", f"{len(shape)} dimensions", f"tensors have up to {_MOST_DIMENSIONS} of them",
                         "reshape the tensor")


def _in_memory(array: np.ndarray[Any, Any], shape: Shape, steps: Shape, nbytes: int) -> np.ndarray[Any, Any]:
    """Return a view of an array's memory; ``nbytes`` counts from the array's first element."""
    return on_memory(array, array.dtype, shape, steps, nbytes)


def on_memory(array: np.ndarray[Any, Any], dtype: np.dtype[Any], shape: Shape, steps: Shape,
              nbytes: int = 0) -> np.ndarray[Any, Any]:
    """Return a view of an array's memory with any dtype, shape and strides.

    ``nbytes`` counts from the array's first element.
    """
    _check_rank(shape)
    if math.prod(shape) * dtype.itemsize > _MOST_BYTES:
        raise ShapeError("as_strided", f"size {list(shape)}", "bytes, also of repeated elements, fit 63 bits",
                         "expand to a smaller size")
    memory = memory_of(array)
    nbytes = 0 if 0 in shape else nbytes + int(array.ctypes.data - memory.ctypes.data)
    if memory.flags.forc:
        return np.ndarray(shape, dtype, memory if memory.flags.c_contiguous else memory.T, nbytes, steps)
    whole = np.lib.stride_tricks.as_strided(memory, (memory_nbytes(memory) // memory.itemsize,), (memory.itemsize,))
    return np.ndarray(shape, dtype, whole, nbytes, steps)


def expand(array: Any, shape: Shape) -> Any:
    """Return a view broadcast to ``shape``, with stride 0 along new and repeated dimensions."""
    if array.shape == shape:
        return array
    return as_strided(array, shape, expanded_strides(array.shape, element_strides(array), shape), 0)


def overlaps_partially(array: Any, out: Any) -> bool:
    """Whether writing ``out`` changes elements of ``array`` that are read later: memory shared, but not one to one."""
    array, out = getattr(array, "plain", array), getattr(out, "plain", out)
    if array is out:
        return False
    if type(array) is np.ndarray:
        if not np.may_share_memory(array, out):
            return False
        start = array.ctypes.data, out.ctypes.data
    elif array.storage is not out.storage:
        return False
    else:
        start = array.offset, out.offset
    same = start[0] == start[1] and array.shape == out.shape and array.dtype == out.dtype
    return not same or any(n != 1 and s != t for n, s, t in zip(array.shape, array.strides, out.strides, strict=True))


def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether the elements fill a block of memory without gaps, each one once, in any order of dimensions."""
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if size == 0:
            return True
        if stride != step:
            return False
        step *= size
    return True


def dense_overlaps_partially(array: Any, out: Any) -> bool:
    """Whether two dense arrays share memory, but not element by element."""
    return dense_overlaps(array, out) and overlaps_partially(array, out)


def dense_overlaps(array: Any, out: Any) -> bool:
    """Whether two dense arrays share memory."""
    array, out = getattr(array, "plain", array), getattr(out, "plain", out)
    if type(array) is not type(out) or not (array.size and out.size):
        return False
    if type(array) is np.ndarray:
        shared = np.may_share_memory(array, out)
    else:
        (a, length), (b, reach) = [(x.offset * x.dtype.itemsize, x.size * x.dtype.itemsize) for x in (array, out)]
        shared = array.storage is out.storage and a < b + reach and b < a + length
    return bool(shared) and all(is_dense(x.shape, element_strides(x)) for x in (array, out))


__all__ = [
    "Shape",
    "as_strided",
    "broadcast_shapes",
    "coalesce",
    "contiguous",
    "contiguous_strides",
    "dense_overlaps",
    "dense_overlaps_partially",
    "element_strides",
    "expand",
    "expanded_strides",
    "is_contiguous",
    "is_dense",
    "memory_nbytes",
    "memory_of",
    "memory_offset",
    "normalize_axes",
    "normalize_axis",
    "normalize_shape",
    "overlaps_partially",
    "owner_of",
]
