"""Order statistics: medians, quantiles, modes, the k-th smallest element. They build on ``sort`` and selection."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import normalize_axis
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    ArgumentError,
    DimensionError,
    DtypeError,
    ShapeError,
    UndefinedDtype,
)

from ..indexing.gather_scatter import gather_valid
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.view import Custom
from ..scans.scans import found_derivative, gather_found
from ..sorting.sorting import selection
from ..unrolled.checks import declared, run_check
from ..unrolled.recomputed import Recomputed
from . import mode_kernel_cpu
from .value_checks import any_outside

if TYPE_CHECKING:
    from ..sorting.selection_kernel_cpu import Rule


#: Results along a dimension, under PyTorch's names.
MedianResult: Final = named_result("median", ("values", "indices"))
NanmedianResult: Final = named_result("nanmedian", ("values", "indices"))
ModeResult: Final = named_result("mode", ("values", "indices"))
KthvalueResult: Final = named_result("kthvalue", ("values", "indices"))

_INTERPOLATIONS: Final = ("linear", "lower", "higher", "midpoint", "nearest")


def _checked_axis(name: str, input: Any, dim: int) -> int:
    """Return the normalised dimension.

    Raises:
        DimensionError: The dimension has no elements.
    """
    axis = normalize_axis(name, dim, input.ndim)
    if input.ndim and input.shape[axis] == 0:
        raise DimensionError(name, f"dim {dim} of shape {list(input.shape)}", "the dimension has elements",
                             "choose another dim")
    return axis


def _check_real(name: str, input: Any, *, bools: bool = False) -> None:
    """Refuse complex numbers, which have no order, and bools unless ``bools`` is set.

    Raises:
        UndefinedDtype: The dtype is refused.
    """
    if input.dtype.is_complex or (input.dtype is dtypes.bool_ and not bools):
        raise UndefinedDtype(name, f"dtype {input.dtype.name}", f"{name} is defined for real numbers",
                             "convert with .to(dtype) first")


def _taken(input: Any, axis: int, rule: Rule, rank: int, keepdim: bool) -> tuple[Any, Any]:
    """Return the elements of a rank along the axis, and their positions."""
    values, indices = call(COMPOSITES["found_of_rank"], input, axis, rule, rank)
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


@composite("found_of_rank(Tensor input, int dim, str rule, int rank) -> any", method=False, function=False,
           replayable=True, derivative=found_derivative())
def found_of_rank(input: Any, dim: int, rule: Rule, rank: int) -> Any:
    """Return the elements of a rank along a dimension, which stays with size 1, and their positions."""
    return gather_found(selection, input, dim, rule, rank)


def _median(name: str, input: Any, dim: int, keepdim: bool, rule: Rule) -> tuple[Any, Any]:
    """Return the lower median and its position."""
    axis = _checked_axis(name, input, dim)
    if input.ndim == 0:
        return input.clone(), input.new_zeros((), dtype=dtypes.int64)
    return _taken(input, axis, rule, 0, keepdim)


def _median_of_all(name: Rule, input: Any) -> Any:
    """Return the lower median of all elements; equal elements share its gradient evenly."""
    flat = input.reshape(-1)
    if flat.numel() == 0:
        undefined = math.nan if input.dtype.is_floating_point else -(1 << (8 * input.dtype.itemsize - 1))
        return input.new_full((), undefined)
    if not input._level:
        return call(COMPOSITES["middle"], flat, name)
    value = _median(name, flat.detach(), 0, False, name)[0]
    same = _is_same(flat.detach(), value)
    return functions.where(same, flat, 0).sum() / same.sum()


def _is_same(input: Any, value: Any) -> Any:
    """Return the mask of the elements that equal a value; all NaNs are equal."""
    return (input == value) | ((input != input) & (value != value))


def _shared(grad: Any, input: Any, result: Any) -> Any:
    """Return the gradient of the median of all elements."""
    same = _is_same(input.detach(), result.detach())
    return functions.where(same, grad / same.sum(), 0)


@composite("middle(Tensor input, str rule) -> Tensor", method=False, function=False, replayable=True,
           derivative=Derivative(input=_shared))
def middle(input: Any, rule: Rule) -> Any:
    """Return the lower median of a vector with elements."""
    return _taken(input, 0, rule, 0, False)[0]


@composite("median(Tensor input, int? dim=None, bool keepdim=False) -> any", replayable=True)
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median, the lower of two middle elements; along a dimension (values, indices). NaN if an element is.

    Raises:
        DimensionError: The dimension has no elements.
        UndefinedDtype: The elements are complex or bools.
    """
    _check_real("median", input)
    if dim is None:
        return _median_of_all("median", input)
    return MedianResult(*_median("median", input, dim, keepdim, "median"))


@composite("nanmedian(Tensor input, int? dim=None, bool keepdim=False) -> any", replayable=True)
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of the elements that are not NaN; NaN where all are NaN. The results are those of ``median``.

    Raises:
        DimensionError: The dimension has no elements.
        UndefinedDtype: The elements are complex or bools.
    """
    _check_real("nanmedian", input)
    if dim is None:
        return _median_of_all("nanmedian", input)
    return NanmedianResult(*_median("nanmedian", input, dim, keepdim, "nanmedian"))


@composite("mode(Tensor input, int dim=-1, bool keepdim=False) -> any")
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the most frequent element along a dimension, the smallest of several, and its last position.

    Raises:
        DimensionError: The dimension has no elements.
        UndefinedDtype: The elements are complex.
    """
    _check_real("mode", input, bools=True)
    axis = _checked_axis("mode", input, dim)
    if input.ndim == 0:
        return ModeResult(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    values, indices = call(COMPOSITES["found_mode"], input, axis)
    return ModeResult(*((values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))))


@composite("found_mode(Tensor input, int dim) -> any", method=False, function=False, replayable=True,
           derivative=found_derivative())
def found_mode(input: Any, dim: int) -> Any:
    """Return the most frequent elements along a dimension, which stays with size 1, and their last positions."""
    indices = call(mode_position, input.detach(), dim - input.ndim)
    return call(gather_valid, input, dim, indices), indices


def _mode_position(state: Any, input: Any, axis: int) -> Any:
    input, axis = input.detach(), axis + input.ndim
    shape = tuple(1 if k == axis else n for k, n in enumerate(input.shape))
    if not state.holds_data or 0 in input.shape:
        return input.new_empty(shape, dtype=dtypes.int64)
    found = mode_kernel_cpu.mode_places(state, input._array, axis, input.dtype)
    if found is not None:
        return wrap(found, state.key | dtype_bit(dtypes.int64))
    order, size = functions.argsort(input, axis), input.shape[axis]
    ordered = input.gather(axis, order)
    places = positions(input, size).reshape(tuple(size if k == axis else 1 for k in range(input.ndim)))
    later = ordered.narrow(axis, 1, size - 1) != ordered.narrow(axis, 0, size - 1)
    begins = functions.cat([later.new_ones(shape), later], axis)
    lengths = places - functions.where(begins, places, 0).cummax(axis)[0]
    return order.gather(axis, lengths.argmax(axis, True))


#: ``axis`` is negative: it counts from the last dimension, so that batches do not change it.
mode_position: Final = Custom(
    "mode_position(Tensor input, int axis) -> Tensor",
    "Last positions of the most frequent elements along an axis, which stays with size 1.",
    _mode_position,
    method=False,
    function=False,
    replayable=True,
)


@composite("kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> any")
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest element along a dimension, counted from 1, and its position; NaN is the largest.

    Raises:
        ArgumentError: k is less than 1 or greater than the dimension's size.
        UndefinedDtype: The elements are complex or bools.
    """
    _check_real("kthvalue", input)
    axis = normalize_axis("kthvalue", dim, input.ndim)
    size = input.shape[axis] if input.ndim else 1
    if not size:
        raise DimensionError("kthvalue", f"dim {axis} of a tensor of shape {list(input.shape)}",
                             "the dimension has at least one element", "choose another dim")
    if not 1 <= k <= size:
        raise ArgumentError("kthvalue", f"k={k} of {size} elements", "k lies between 1 and the dimension's size",
                            "pass another k")
    if input.ndim == 0:
        return KthvalueResult(input.clone(), input.new_zeros((), dtype=dtypes.int64))
    return KthvalueResult(*_taken(input, axis, "kth", k - 1, keepdim))


@composite("msort(Tensor input) -> Tensor")
def msort(input: Any) -> Any:
    """Sort the elements along the first dimension; NaN counts as the largest."""
    return functions.sort(input, 0)[0]


# ------------------------------------------------------------------------------------------------------- quantiles


def _check_quantile(name: str, input: Any, q: Any, interpolation: str) -> None:
    """Refuse arguments for which no quantile is defined.

    Raises:
        ArgumentError: q is outside of [0, 1], or the interpolation is unknown.
        DtypeError: The elements, or those of q, have another dtype.
        ShapeError: q has more than one dimension, or the input has no elements.
    """
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(name, f"dtype {input.dtype.name}", "quantiles are of float32 or float64", "convert first")
    if input.numel() == 0:
        raise ShapeError(name, f"a tensor of shape {list(input.shape)}", "there are elements", "pass some")
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(name, f"interpolation={interpolation!r}", f"it is one of {', '.join(_INTERPOLATIONS)}",
                            "pass one of these")
    if hasattr(q, "_key"):
        if q.ndim > 1:
            raise ShapeError(name, f"q of shape {list(q.shape)}", "q is a number or a vector", "flatten it")
        if q.dtype is not input.dtype:
            raise DtypeError(name, f"q of dtype {q.dtype.name} for {input.dtype.name}",
                             "q has the dtype of the elements", "convert q with .to(dtype)")
    if not hasattr(q, "_key") or q._device_state.holds_data:
        run_check(_check_fractions, name, q)


@declared
def _check_fractions(name: str, q: Any) -> None:
    outside = any_outside(q, 0, 1) if hasattr(q, "_key") else not 0 <= q <= 1
    if outside:
        raise ArgumentError(name, f"q={q.tolist() if hasattr(q, '_key') else q}", "q lies between 0 and 1",
                            "pass fractions, not percents")


def _between(rows: Any, ranks: Any, interpolation: str) -> Any:
    """Return the elements of sorted rows (last dimension) at fractional ranks."""
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}[interpolation]()
    below, axis = ranks.detach().floor(), rows.ndim - 1

    def elements(places: Any) -> Any:
        return call(gather_valid, rows, axis, places.to(dtypes.int64).clamp(0, rows.shape[axis] - 1))

    first = elements(below)
    if interpolation in ("lower", "higher", "nearest"):
        return first
    weight = rows.new_full((), 0.5) if interpolation == "midpoint" else ranks - below
    return first.lerp(elements(ranks.detach().ceil()), weight)


def _quantile(name: str, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip: bool) -> Any:
    _check_quantile(name, input, q, interpolation)
    given = q if hasattr(q, "_key") else input.new_full((), q)
    axis = 0 if dim is None else normalize_axis(name, dim, input.ndim)
    rank = input.ndim
    if dim is None:
        reduced = (1,) * rank if keepdim else ()
        input = input.reshape(-1)
    else:
        lead = tuple(1 if k == axis else n for k, n in enumerate(input.shape))
        reduced = lead if keepdim else tuple(n for k, n in enumerate(input.shape) if k != axis)
    input = input.reshape(-1) if input.ndim == 0 else input
    rows = functions.sort(input.movedim(axis, -1), -1)[0]
    size = rows.shape[-1]
    wanted = given.reshape(-1)
    numbers = (rows == rows).detach().sum(-1, True)
    if skip:
        ranks = wanted * (numbers - 1).clamp(min=0)
    else:
        ranks = functions.where(numbers == size, wanted * (size - 1), size - 1).to(rows.dtype)
    found = _between(rows, ranks, interpolation).movedim(-1, 0)
    return found.reshape((*tuple(given.shape), *reduced))


@composite("quantile(Tensor input, Operand q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
           "Tensor", recomputed=Recomputed(copied=("input", "q")))
def quantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
             interpolation: str = "linear") -> Any:
    """Return the q-quantiles of the elements, along a dimension or of all; NaN if an element is.

    With n elements, the rank is q * (n - 1). Between two ranks, ``interpolation`` selects the result: ``linear``, a
    weighted mean; ``lower`` or ``higher``; ``nearest`` (in a tie the even rank); ``midpoint``, the mean of both.

    Args:
        input: float32 or float64.
        q: A number, or a vector, which adds a first dimension to the result.
        dim: The dimension; None for all elements.
        keepdim: Whether the dimension stays, with size 1.
        interpolation: As above.

    Raises:
        ArgumentError: q is outside of [0, 1], or the interpolation is unknown.
        DtypeError: The elements, or those of q, have another dtype.
        ShapeError: q has more than one dimension, or the input has no elements.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@composite("nanquantile(Tensor input, Operand q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
           "Tensor", recomputed=Recomputed(copied=("input", "q")))
def nanquantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
                interpolation: str = "linear") -> Any:
    """Return the ``quantile`` of the elements that are not NaN; NaN where all are NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
