"""Strides of results by PyTorch's rules from the strides of operands, and arrays with those strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ShapeError

from . import formats
from .device import DeviceState
from .geometry import Shape, as_strided, contiguous, element_strides, expanded_strides, is_dense

#: Order of dimensions in memory, slowest first, by memory format.
_ORDER = {formats.channels_last: (0, 2, 3, 1), formats.channels_last_3d: (0, 2, 3, 4, 1)}


def ordered_strides(shape: Shape, order: Sequence[int]) -> Shape:
    """Return the strides without gaps of dimensions in the given order of memory, the slowest first.

    >>> ordered_strides((2, 3, 4), (0, 2, 1))
    (12, 1, 3)
    """
    result, step = [0] * len(shape), 1
    for axis in reversed(order):
        result[axis] = step
        step *= max(shape[axis], 1)
    return tuple(result)


def format_strides(operator: str, shape: Shape, format: formats.memory_format) -> Shape:
    """Return the strides of a tensor of ``shape`` in a memory format.

    Raises:
        ShapeError: The format requires another number of dimensions.
    """
    if format not in _ORDER:
        return contiguous_strides(shape)
    order = _ORDER[format]
    if len(shape) != len(order):
        raise ShapeError(operator, f"{format} for {len(shape)} dimensions", f"this format has {len(order)} dimensions",
                         "add dimensions, or use contiguous_format")
    return ordered_strides(shape, order)


def in_format(array: Any, format: formats.memory_format) -> bool:
    """Whether a handle is in a memory format; strides of dimensions of size 1 do not count."""
    if format not in _ORDER:
        return contiguous(array)
    shape, strides, order = array.shape, element_strides(array), _ORDER[format]
    if len(shape) != len(order):
        return False
    step = 1
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def public_strides(array: Any) -> tuple[int, ...]:
    """Return a handle's strides as PyTorch reports them, in elements: a 0 along a dimension of size 1 is replaced."""
    shape, strides = array.shape, element_strides(array)
    if 0 in shape and not any(strides):
        return contiguous_strides(shape)
    if 0 not in strides:
        return strides
    result, after = list(strides), 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1 and result[axis] == 0:
            result[axis] = after
        after = shape[axis] * result[axis]
    return tuple(result)


def suggested_format(shape: Shape, strides: Shape) -> formats.memory_format:
    """Return the memory format that PyTorch infers from strides, which may have gaps; row-major in doubt."""
    format = {4: formats.channels_last, 5: formats.channels_last_3d}.get(len(shape))
    if format is None or strides[1] == 0:
        return formats.contiguous_format
    least = 0
    for axis in reversed(_ORDER[format]):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return formats.contiguous_format
        least = strides[axis] * max(shape[axis], 1)
    return format


def _swaps(first: int, second: int, shape: Shape, operands: Sequence[Shape]) -> int:
    """Return 1 if dimension ``first`` is slower in memory than ``second``, -1 if it is faster, 0 if undecided."""
    for strides in operands:
        a, b = strides[first], strides[second]
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[first] > shape[second]:
            return 1
    return 0


def memory_order(shape: Shape, operands: Sequence[Shape]) -> list[int]:
    """Return the dimensions from the slowest to the fastest in memory; the first operand that orders two decides.

    Args:
        shape: The common shape.
        operands: Strides of every operand broadcast to that shape, 0 along broadcast dimensions.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        place = start
        for before in range(start - 1, -1, -1):
            decision = _swaps(order[before], order[place], shape, operands)
            if decision > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif decision < 0:
                break
    return order[::-1]


def pointwise_strides(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> Shape:
    """Return the strides of the result of a pointwise operator.

    If all operands have one layout, the result has it too; otherwise it has the first one's order, without gaps.

    Args:
        shape: The result's shape.
        operands: Shape and strides of every operand that is a tensor.
    """
    if len(shape) < 2 or 0 in shape:
        return contiguous_strides(shape)
    first = operands[0]
    if all(sizes == shape for sizes, _ in operands):
        row_major = contiguous_strides(shape)
        if all(_agree(shape, strides, row_major) for _, strides in operands):
            return row_major
        if len(shape) in (4, 5):
            order = _ORDER[formats.channels_last if len(shape) == 4 else formats.channels_last_3d]
            last = ordered_strides(shape, order)
            if all(_agree(shape, strides, last) for _, strides in operands):
                return last
        if all(strides == first[1] for _, strides in operands) and is_dense(*first):
            return first[1]
    wide = [expanded_strides(sizes, strides, shape) for sizes, strides in operands]
    return ordered_strides(shape, memory_order(shape, wide))


def _agree(shape: Shape, strides: Shape, wanted: Shape) -> bool:
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, wanted, strict=True))


def preserved_strides(shape: Shape, strides: Shape) -> Shape:
    """Return the strides of a copy: the same if they are dense, else the same order of dimensions without gaps."""
    if is_dense(shape, strides):
        return strides if 0 not in shape else contiguous_strides(shape)
    return ordered_strides(shape, memory_order(shape, [strides]))


def reach(shape: Shape, strides: Shape) -> int:
    """Return the number of elements from the first to the last one in memory, gaps included."""
    return 0 if 0 in shape else sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1


def empty_strided_array(state: DeviceState, shape: Shape, dtype: DType, strides: Shape) -> Any:
    """Return an uninitialised array with the given strides."""
    if strides == contiguous_strides(shape):
        return state.runtime.empty(shape, dtype, state.stream)
    return as_strided(state.runtime.empty((reach(shape, strides),), dtype, state.stream), shape, strides, 0)


def empty_preserved(state: DeviceState, source: Any, dtype: DType) -> Any:
    """Return an uninitialised array for a copy of ``source``, with its order of dimensions."""
    if contiguous(source):
        return state.runtime.empty(source.shape, dtype, state.stream)
    return empty_strided_array(state, source.shape, dtype, preserved_strides(source.shape, public_strides(source)))


def empty_pointwise(state: DeviceState, shape: Shape, dtype: DType, operands: Sequence[Any]) -> Any:
    """Return an uninitialised array for the result of a pointwise operator on these handles and numbers."""
    arrays = [x for x in operands if hasattr(x, "shape")]
    if all(contiguous(x) for x in arrays) and all(x.shape == shape for x in arrays):
        return state.runtime.empty(shape, dtype, state.stream)
    given = [(x.shape, public_strides(x)) for x in arrays if x.shape]
    if not given:
        return state.runtime.empty(shape, dtype, state.stream)
    return empty_strided_array(state, shape, dtype, pointwise_strides(shape, given))
