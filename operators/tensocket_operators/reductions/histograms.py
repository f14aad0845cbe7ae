"""Histograms: counts of elements, or of points in space, per bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.dispatch.results import named_result
from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError, UndefinedDtype
from tensocket_plugins.contract.launch_recorder import forbid_replay, note_constant
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.kit.bounded import BoundedCache

from .. import creation
from ..array_paths import array_path
from ..differentiation.delayed import without_derivative
from ..kinds.composite import composite
from ..kinds.programs import Programs
from ..kinds.view import Custom
from . import histogram_kernel_cpu
from .few_histograms import histogram_of_few, histogramdd_of_few
from .value_checks import value_range

#: Results of ``histogram`` and ``histogramdd``, under PyTorch's names.
HistogramResult: Final = named_result("histogram", ("hist", "bin_edges"))
HistogramddResult: Final = named_result("histogramdd", ("hist", "bin_edges"))


_KERNEL: Final = Programs("histogram", cpu=True, simt=False)


def _check_floating(name: str, input: Any) -> None:
    """Refuse every dtype but real floats.

    Raises:
        UndefinedDtype: The dtype is not one of real floats.
    """
    if not input.dtype.is_floating_point:
        raise UndefinedDtype(name, f"dtype {input.dtype.name}", "histograms are of real floating-point numbers",
                             "convert with .to(dtype) first")


def _bounds(name: str, values: Any, low: float, high: float, *, given: bool) -> tuple[Any, Any]:
    """Return the range of a histogram: as given, or that of the elements, widened to one unit if it is empty.

    In a batch, each example has its own range, and the bounds are tensors.

    Raises:
        ArgumentError: The range is not finite.
    """
    if not given and not values._device_state.holds_data:
        return 0.0, 1.0
    if not given and values.numel():
        forbid_replay()  # the bounds are values
        least, most = value_range(values.detach())
        low, high = (float(least), float(most))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ArgumentError(name, f"a range from {low} to {high}", "the range is finite", "pass finite bounds")
    if not given and values._level and values.numel():
        least, most = values.amin(), values.amax()
        flat = (least == most) * 0.5
        return least - flat, most + flat
    if low == high:
        return (low - 0.5, high + 0.5) if given or values.numel() else (0.0, 1.0)
    return low, high


def _edges(name: str, values: Any, bins: int, low: float, high: float) -> Any:
    """Return evenly spaced bin edges.

    Raises:
        ArgumentError: The number of bins is below 1.
    """
    if bins < 1:
        raise ArgumentError(name, f"{bins} bins", "there is at least one bin", "pass a larger number")
    if hasattr(low, "_key"):  # the same arithmetic as linspace
        places = creation.arange(bins + 1, dtype=values.dtype, device=values.device)
        step = (high - low) / bins
        return functions.where(places < (bins + 1) // 2, low + step * places, high - step * (bins - places))
    return creation.linspace(low, high, bins + 1, dtype=values.dtype, device=values.device)


#: Edges by device, dtype, bins and bounds, for calls that do not return them; emptied when it is full.
_KNOWN: Final[BoundedCache[tuple[Any, ...], Any]] = BoundedCache(64)


def _known_edges(name: str, values: Any, bins: int, low: Any, high: Any) -> Any:
    """Return ``_edges`` for reading only."""
    if ACTIVE or hasattr(low, "_key"):
        return _edges(name, values, bins, low, high)
    key = values._device_state.key, values.dtype, bins, low, high
    edges = _KNOWN.get(key)
    if edges is None:
        edges = _KNOWN[key] = _edges(name, values, bins, low, high)
    note_constant(edges._array)
    return edges


def _even_places(values: Any, edges: Any, low: Any, high: Any) -> Any:
    """Compute the bin of each element; move to a neighbouring bin where rounding missed it."""
    last = edges.numel() - 2
    scaled = (values - low) * ((last + 1) / (high - low))
    guess = functions.where(values == values, scaled, 0).clamp(0, last).to(dtypes.int64)
    guess = guess - (values < edges[guess]).to(dtypes.int64)
    guess = guess.clamp(0, last)
    return (guess + (values >= edges[guess + 1]).to(dtypes.int64)).clamp(0, last)


def _within(values: Any, edges: Any) -> Any:
    """Whether each element is in a bin; the last bin includes its upper bound."""
    return (values >= edges[0]) & (values <= edges[-1])


def _at_once(points: Any, bins: Sequence[Any], edges: Sequence[Any], bounds: Sequence[tuple[Any, Any]],
             weights: Any = None) -> Any:
    """Return the counts of points in bins of equal width by one kernel; None if it cannot count them.

    Guard: a processor with a code generator, float32 or float64, few coordinates, bounds that are numbers, no mode or
    transform.
    """
    state, dtype = points._device_state, points.dtype
    plain = [x for x in (points, weights, *edges) if x is not None]
    if ACTIVE or not _KERNEL.of(state) or dtype not in (dtypes.float32, dtypes.float64) or (
            len(edges) > histogram_kernel_cpu.COORDINATES) or any(
            x._key & ~DIM0 != state.key | dtype_bit(dtype) for x in plain) or any(
            hasattr(x, "_key") for pair in bounds for x in pair):
        return None
    lows, highs = zip(*bounds, strict=True)
    joined = edges[0] if len(edges) == 1 else functions.cat(edges)
    return call(_bin_counts, points, joined, weights, tuple(map(int, bins)), lows, highs)


def _counted(state: Any, points: Any, edges: Any, weights: Any, bins: Any, low: Any, high: Any) -> Any:
    added = None if weights is None else weights.contiguous()._array
    counts = histogram_kernel_cpu.count_in_bins(
        state, points.contiguous()._array, edges.contiguous()._array, added, points.dtype, bins, low, high)
    return wrap(counts, points._key & ~DIM0)


_bin_counts: Final = Custom(
    "bin_counts(Tensor points, Tensor edges, Tensor? weights, int[] bins, any low, any high) -> Tensor",
    "Counts of points, or sums of their weights, in cells whose sides are bins of equal width, on processors.",
    _counted, method=False, function=False, replayable=True)


@composite("histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", replayable=True)
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Count the elements in bins of equal width from ``min`` to ``max``, by default the range of the elements.

    Elements outside of the range are not counted; the last bin includes its upper bound.

    Args:
        input: Floating-point numbers.
        bins: Number of bins.
        min: Lower bound.
        max: Upper bound. If both are equal, the bounds are those of the elements.

    Raises:
        ArgumentError: The number of bins is below 1, or the range is not finite, or max is less than min.
        UndefinedDtype: The elements are not real floats.
    """
    _check_floating("histc", input)
    values = input.detach().reshape(-1)
    values = values.to(arithmetic_dtype(values.dtype))  # 16-bit floats are too coarse for the edges of many bins
    if max < min:
        raise ArgumentError("histc", f"min={min}, max={max}", "max is not less than min", "exchange them")
    low, high = _bounds("histc", values, min, max, given=min != max)
    edges = _known_edges("histc", values, bins, low, high)
    found = _at_once(values.reshape(-1, 1), [bins], [edges], [(low, high)])
    if found is not None:
        return found.to(input.dtype)
    counts = values.new_zeros((bins,))
    counts = counts.scatter_add(0, _even_places(values, edges, low, high), _within(values, edges).to(values.dtype))
    return counts.to(input.dtype)


# ------------------------------------------------------------------------------------------------ several dimensions


def _check_points(input: Any, weight: Any, range: Any) -> None:
    """Refuse points that have no histogram.

    Raises:
        ShapeError: The input has no dimension of coordinates, a point has no weight, or a coordinate does not have two
            bounds.
    """
    if input.ndim < 2:
        raise ShapeError("histogramdd", f"a tensor of shape {list(input.shape)}", "the last of at least 2 dimensions "
                         "holds coordinates", "use histogram, or unsqueeze it")
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise ShapeError("histogramdd", f"weights of shape {list(weight.shape)} for points of shape "
                         f"{list(input.shape[:-1])}", "there is one weight for every point", "expand the weights")
    if weight is not None and weight.dtype is not input.dtype:
        raise DtypeError("histogramdd", f"weights of dtype {weight.dtype.name} for {input.dtype.name}",
                         "weights have the points' dtype", "convert them with .to(dtype)")
    if range is not None and len(range) != 2 * input.shape[-1]:
        raise ShapeError("histogramdd", f"{len(range)} bounds for {input.shape[-1]} coordinates",
                         "every coordinate has two bounds", "pass as many")


def _given_edges(name: str, points: Any, bins: Any) -> Any:
    """Return the given bin edges.

    Raises:
        DtypeError: The edges do not have the dtype of the points.
        ShapeError: The edges are not a vector.
    """
    if bins.dtype is not points.dtype:
        raise DtypeError(name, f"bins of dtype {bins.dtype.name} for {points.dtype.name}",
                         "bounds have the points' dtype", "convert them with .to(dtype)")
    if bins.ndim != 1 or bins.numel() == 0:
        raise ShapeError(name, f"bins of shape {list(bins.shape)}", "bounds of bins are a vector", "flatten them")
    return bins.detach().clone()


def _given_range(name: str, values: Any, range: Any) -> tuple[Any, Any]:
    """Return the bounds of bins of equal width.

    Raises:
        ArgumentError: The upper bound is less than the lower one.
    """
    low, high = (0.0, 0.0) if range is None else (float(range[0]), float(range[1]))
    if high < low:
        raise ArgumentError(name, f"a range from {low} to {high}", "max is not less than min", "exchange them")
    return _bounds(name, values, low, high, given=range is not None)


def _side(name: str, values: Any, bins: Any, range: Any) -> tuple[Any, tuple[Any, Any] | None]:
    """Return the bin edges of one coordinate, and the bounds of bins of equal width; None for given edges."""
    if hasattr(bins, "_key"):
        return _given_edges(name, values, bins), None
    bounds = _given_range(name, values, range)
    return _edges(name, values, bins, *bounds), bounds


def _places(values: Any, edges: Any, bounds: tuple[Any, Any] | None) -> Any:
    """Return the bin of each value of one coordinate."""
    if bounds is not None:
        return _even_places(values, edges, *bounds)
    places = functions.searchsorted(edges, values, right=True) - 1
    return (places - (values == edges[-1]).to(dtypes.int64)).clamp(0, max(edges.numel() - 2, 0))


def _composed(points: Any, sides: Sequence[tuple[Any, Any]], weight: Any) -> Any:
    """Return the counts of points, coordinate by coordinate."""
    shape = [edges.numel() - 1 for edges, _ in sides]
    place, inside = points.new_zeros((points.shape[0],), dtype=dtypes.int64), points.new_ones((), dtype=dtypes.bool_)
    for k, (edges, bounds) in enumerate(sides):
        values = points[:, k]
        place, inside = place * shape[k] + _places(values, edges, bounds), inside & _within(values, edges)
    added = inside.to(points.dtype) if weight is None else weight.masked_fill(~inside, 0)
    return points.new_zeros((math.prod(shape),)).scatter_add(0, place, added.expand(place.shape)).reshape(shape)


def _histogram(name: str, points: Any, bins: Sequence[Any], range: Any, weight: Any,
               density: bool) -> tuple[Any, list[Any]]:
    """Return the counts of points (rows of coordinates) and the bin edges of each coordinate."""
    _check_floating(name, points)
    sides = [_side(name, points[:, k], given, None if range is None else range[2 * k:][:2])
             for k, given in enumerate(bins)]
    edges, bounds = [side[0] for side in sides], [side[1] for side in sides if side[1] is not None]
    weight = None if weight is None else weight.detach().reshape(-1)
    counts = _at_once(points, bins, edges, bounds, weight) if len(bounds) == len(sides) else None
    if counts is None:
        counts = _composed(points, sides, weight)
    if density:
        counts = counts / counts.sum()
        for k, ends in enumerate(edges):
            widths = ends.diff()
            counts = counts / widths.reshape(tuple(-1 if j == k else 1 for j in builtin_range(len(edges))))
    return counts, edges


#: The functions below have a parameter named ``range``.
builtin_range: Final = range


@composite("histogram(Tensor input, any bins=100, *, any range=None, Tensor? weight=None, bool density=False) -> any",
           host_path=array_path(histogram_of_few, HistogramResult, zero_dim=True))
def histogram(input: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Return the counts of elements in bins, and the bin edges.

    Args:
        input: Floating-point numbers.
        bins: Number of bins of equal width, or a vector of increasing edges.
        range: Lower and upper bound of bins of equal width; by default those of the elements.
        weight: Weight of each element; by default 1.
        density: Whether to divide by the sum of the counts and by the bins' widths, so that the integral is 1.

    Raises:
        ArgumentError: The number of bins is below 1, or the range is not finite or not increasing.
        DtypeError: Edges or weights have another dtype.
        ShapeError: The edges are not a vector, or an element has no weight.
    """
    if weight is not None:
        _check_weight(input, weight)
    counts, edges = _histogram("histogram", input.detach().reshape(-1, 1), [bins], range, weight, density)
    return HistogramResult(*[without_derivative("histogram", part, input, bins, weight) for part in (counts, edges[0])])


def _check_weight(input: Any, weight: Any) -> None:
    if tuple(weight.shape) != tuple(input.shape):
        raise ShapeError("histogram", f"weights of shape {list(weight.shape)} for shape {list(input.shape)}",
                         "there is one weight for every element", "expand the weights")
    if weight.dtype is not input.dtype:
        raise DtypeError("histogram", f"weights of dtype {weight.dtype.name} for {input.dtype.name}",
                         "weights have the elements' dtype", "convert them with .to(dtype)")


@composite("histogramdd(Tensor input, any bins, *, any range=None, Tensor? weight=None, bool density=False) -> any",
           method=False, host_path=array_path(
               histogramdd_of_few, lambda counts, *edges: HistogramddResult(counts, edges)))
def histogramdd(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """Return the counts of points in the cells of a grid, and the bin edges of every coordinate.

    Args:
        input: Points, (..., coordinates), of floating-point numbers.
        bins: One number of bins for all coordinates, or for each a number or a vector of increasing edges.
        range: Lower and upper bound of every coordinate, in one flat sequence; by default those of the points.
        weight: Weight of each point; by default 1.
        density: Whether to divide by the sum of the counts and by the cells' volumes.

    Raises:
        ArgumentError: The number of bins is below 1, or a range is not finite or not increasing.
        DtypeError: Edges or weights have another dtype.
        ShapeError: Bins, edges and weights do not fit the points.
    """
    _check_points(input, weight, range)
    size = input.shape[-1]
    chosen = [bins] * size if isinstance(bins, int) else list(bins)
    if len(chosen) != size:
        raise ShapeError("histogramdd", f"bins of {len(chosen)} coordinates for {size}",
                         "there are bins for every coordinate", "pass as many as the last dimension has")
    counts, edges = _histogram("histogramdd", input.detach().reshape(-1, size), chosen, range, weight, density)
    counts, *ends = [without_derivative("histogramdd", part, input, weight, *chosen) for part in (counts, *edges)]
    return HistogramddResult(counts, tuple(ends))
