"""Products and combinations of elements, and estimates of derivatives."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.geometry import is_integer, normalize_axes
from tensocket_core.promotion import result_type
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError

from ..kinds.composite import composite
from ..unrolled.recomputed import Recomputed
from .selection import positions

#: Number of elements from which finding a result takes long, so that its memory is allocated first.
_MANY: Final = 1 << 32


@composite("cartesian_prod(any tensors) -> Tensor~", method=False)
def cartesian_prod(*tensors: Any) -> Any:
    """Return all choices of one element of each vector: (product of sizes, number of vectors); one vector as it is.

    Raises:
        ArgumentTypeError: An argument is not a tensor.
        DtypeError: The vectors have different dtypes.
        ShapeError: No tensor is given, or a tensor is not a vector.
    """
    if not tensors:
        raise ShapeError("cartesian_prod", "no tensors", "there is at least one", "pass vectors")
    for x in tensors:
        if not hasattr(x, "_key"):
            raise ArgumentTypeError("cartesian_prod", f"a {type(x).__name__}", "arguments are tensors",
                                    "pass the vectors one by one")
        if x.ndim != 1:
            raise ShapeError("cartesian_prod", f"a tensor of shape {list(x.shape)}", "all are vectors", "flatten it")
        if x.dtype is not tensors[0].dtype:
            raise DtypeError("cartesian_prod", f"dtypes {tensors[0].dtype.name} and {x.dtype.name}",
                             "all have one dtype", "convert with .to(dtype)")
    if len(tensors) == 1:
        return tensors[0]
    return functions.stack([grid.reshape(-1) for grid in functions.meshgrid(*tensors, indexing="ij")], 1)


def _choices(like: Any, size: int, count: int, repeated: bool) -> Any:
    """Return increasing indices: (choices, count), in lexicographic order."""
    chosen = positions(like, size).unsqueeze(1)
    for _ in range(count - 1):
        rows = chosen.shape[0]
        following = positions(like, size).expand((rows, size))
        last = chosen[:, -1:]
        valid = following >= last if repeated else following > last
        pairs = valid.nonzero()
        chosen = functions.cat([chosen[pairs[:, 0]], pairs[:, 1:]], 1)
    return chosen


@composite("combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor", method=False,
           recomputed=Recomputed())
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Return all choices of r elements of a vector in their order: (choices, r).

    Args:
        input: A vector.
        r: Number of elements of a choice.
        with_replacement: Whether an element may be chosen more than once.

    Raises:
        ArgumentError: r is negative.
        ShapeError: The tensor is not a vector.
    """
    if input.ndim != 1:
        raise ShapeError("combinations", f"a tensor of shape {list(input.shape)}", "the tensor is a vector",
                         "flatten it")
    if r < 0:
        raise ArgumentError("combinations", f"r={r}", "choices have no negative number of elements", "pass 0 or more")
    if r == 0:
        return input.new_empty((0,))
    size = input.shape[0] + (r - 1 if with_replacement and input.shape[0] else 0)
    rows = math.comb(size, r) if min(r, size - r) < 64 else 1 << 62  # or more
    if rows * r > _MANY:
        input.new_empty((rows, r))  # fail here if memory cannot hold the result
    return input[_choices(input, input.shape[0], r, with_replacement)]


# --------------------------------------------------------------------------------------------- estimated derivatives


def _spacings(input: Any, spacing: Any, dim: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the dimensions, and for each of them the distance of its points or their coordinates.

    Raises:
        ArgumentError: The number of spacings differs from that of dimensions.
        ArgumentTypeError: Numbers and vectors are mixed.
    """
    if dim is None:
        axes = tuple(range(input.ndim))
    else:
        given = (dim,) if is_integer(dim) else tuple(dim)
        normalize_axes("gradient", given, input.ndim)
        axes = tuple(d % max(input.ndim, 1) for d in given)
    if spacing is None or isinstance(spacing, (int, float, complex)):
        return axes, [1 if spacing is None else spacing] * len(axes)
    distances = [spacing] if hasattr(spacing, "_key") else list(spacing)
    if len({hasattr(x, "_key") for x in distances}) > 1:
        raise ArgumentTypeError("gradient", "a spacing of numbers and tensors", "spacings are of one kind",
                                "pass numbers, or vectors of coordinates")
    if len(distances) != len(axes):
        raise ArgumentError("gradient", f"{len(distances)} spacings for {len(axes)} dimensions",
                            "there is one spacing, or one for every dimension", "pass as many")
    return axes, distances


def _at(values: Any, axis: int, start: int, length: int) -> Any:
    return values.narrow(axis, start, length)


def _even_slope(input: Any, axis: int, distance: Any, order: int) -> Any:
    """Return central differences of equidistant points, and one-sided differences of an order at the ends."""
    size = input.shape[axis]
    inner = (_at(input, axis, 2, size - 2) - _at(input, axis, 0, size - 2)) / 2
    if order == 1:
        ends = [_at(input, axis, 1, 1) - _at(input, axis, 0, 1),
                _at(input, axis, size - 1, 1) - _at(input, axis, size - 2, 1)]
    else:
        ends = [_at(input, axis, 0, 1) * -1.5 + _at(input, axis, 1, 1) * 2 - _at(input, axis, 2, 1) * 0.5,
                _at(input, axis, size - 3, 1) * 0.5 - _at(input, axis, size - 2, 1) * 2
                + _at(input, axis, size - 1, 1) * 1.5]
    return functions.cat([ends[0], inner, ends[1]], axis) / distance


def _slope(input: Any, axis: int, places: Any, order: int) -> Any:
    """Return differences of points at coordinates; second-order ones are slopes of parabolas through three points."""
    size, dtype = input.shape[axis], result_type((input, places))
    if dtype.kind in ("float", "complex"):
        input = input.to(dtype)  # differences are rounded as quotients are
    steps = places.diff().reshape(tuple(-1 if k == axis else 1 for k in range(input.ndim)))
    slopes = input.diff(dim=axis) / steps
    before, after = _at(steps, axis, 0, size - 2), _at(steps, axis, 1, size - 2)
    left, right = _at(slopes, axis, 0, size - 2), _at(slopes, axis, 1, size - 2)
    inner = (left * after + right * before) / (before + after)
    first, last = _at(slopes, axis, 0, 1), _at(slopes, axis, size - 2, 1)
    if order == 2:
        bend = (right - left) / (before + after)
        first = first - _at(bend, axis, 0, 1) * _at(before, axis, 0, 1)
        last = last + _at(bend, axis, size - 3, 1) * _at(after, axis, size - 3, 1)
    return functions.cat([first, inner, last], axis)


@composite("gradient(Tensor input, *, any spacing=1, any dim=None, int edge_order=1) -> any", method=False)
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> list[Any]:
    """Estimate the partial derivatives of a function that is sampled on a grid, one tensor for each dimension.

    Inside, the error is of second order in the distance of points; at the ends, of order ``edge_order``.

    Args:
        input: Values on a grid.
        spacing: The distance of points, one for each dimension, or vectors of the points' coordinates.
        dim: Dimensions; all by default.
        edge_order: 1 or 2.

    Raises:
        ArgumentError: The order is neither 1 nor 2, or the number of spacings differs from that of dimensions.
        DtypeError: The elements are bools.
        ShapeError: A dimension has too few points, or their number differs from that of the coordinates.
    """
    if edge_order not in (1, 2):
        raise ArgumentError("gradient", f"edge_order={edge_order}", "the order is 1 or 2", "pass one of them")
    axes, distances = _spacings(input, spacing, dim)
    if input.dtype.kind == "bool":
        raise DtypeError("gradient", f"dtype {input.dtype.name}", "differences are of numbers",
                         "convert with .to(dtype) first")
    results = []
    for axis, distance in zip(axes, distances, strict=True):
        size = input.shape[axis]
        if size <= edge_order:
            raise ShapeError("gradient", f"dim {axis} of size {size}",
                             "a dimension has more points than the order of its ends", "pass more points")
        if not hasattr(distance, "_key"):
            results.append(_even_slope(input, axis, distance, edge_order))
            continue
        if math.prod(distance.shape) != size:
            raise ShapeError("gradient", f"{list(distance.shape)} coordinates for dim {axis} of size {size}",
                             "there is one coordinate for every point", "pass as many")
        results.append(_slope(input, axis, distance.reshape(-1), edge_order))
    return results
