"""Running sums, products and extremes, and differences of adjacent elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import normalize_axis
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ShapeError, UndefinedDtype

from ..indexing.gather_scatter import gather_valid
from ..indexing.gradients import added_to_zeros
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.multi_kernel import SequenceOperator, scan_operator
from ..reductions import minmax_kernel
from ..reductions.value_checks import any_true
from .scan import Scan

#: NumPy dtypes, with the wider dtype that accumulates them.
_WIDER: Final = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}


def _scan(function: Any) -> Any:
    def run(x: Any, dim: int) -> Any:
        if not x.ndim:
            return x.copy()
        return function(x, dim, dtype=_WIDER.get(x.dtype, x.dtype)).astype(x.dtype)

    return run


_SUM: Final = Scan(element=lambda m, x, position: (x,), combine=lambda m, a, b: (a[0] + b[0],),
                   finish=lambda m, values: values[0], identity=lambda dtype: (0,))
_PRODUCT: Final = Scan(element=lambda m, x, position: (x,), combine=lambda m, a, b: (a[0] * b[0],),
                       finish=lambda m, values: values[0], identity=lambda dtype: (1,))

running_sum: Final[SequenceOperator] = scan_operator(
    "cumsum(Tensor input, int dim) -> Tensor", "Sums of the elements up to each one.", _scan(np.cumsum), _SUM,
    derivative=Derivative(input=lambda grad, dim: _sum_of_rest(grad, dim)))
running_product: Final[SequenceOperator] = scan_operator(
    "cumprod(Tensor input, int dim) -> Tensor", "Products of the elements up to each one.", _scan(np.cumprod),
    _PRODUCT, derivative=wirtinger(Derivative(
        input=lambda grad, input, result, dim: _product_gradient(grad, input, result, dim))))


def _sum_of_rest(grad: Any, dim: int) -> Any:
    """Return the sums from each element to the last."""
    return grad if grad.ndim == 0 else call(running_sum, grad.flip(dim), dim).flip(dim)


def _product_gradient(grad: Any, input: Any, result: Any, dim: int) -> Any:
    """Return the sums of grad * result from each element on, over the element; where it is 0, multiply without it."""
    if input.ndim == 0:
        return grad
    weighted = grad * (result.conj() if input.dtype.is_complex else result)
    inverse = input.conj() if input.dtype.is_complex else input
    if not any_true(input == 0):
        return _sum_of_rest(weighted, dim) / inverse
    rows, upstream = inverse.movedim(dim, -1), grad.movedim(dim, -1)
    size = rows.shape[-1]
    places = positions(rows, size)
    own = places.unsqueeze(1) == places
    products = rows.unsqueeze(-2).expand((*rows.shape[:-1], size, size)).masked_fill(own, 1)
    without = call(running_product, products, products.ndim - 1).triu()
    return (without * upstream.unsqueeze(-2)).sum(-1).movedim(-1, dim)


def _scanned(record: SequenceOperator, input: Any, dim: Any, dtype: Any) -> Any:
    axis = normalize_axis(record.name, dim, input.ndim)
    if dtype is dtypes.bool_:
        raise UndefinedDtype(record.name, "dtype bool", f"{record.name} is defined for numbers",
                             "pass a number's dtype")
    wanted = dtype or (dtypes.int64 if input.dtype.category < 2 else input.dtype)
    return call(record, input if input.dtype is wanted else input.to(wanted), axis)


@composite("cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor")
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the running sums along a dimension, each including its element; int64 for integers and bools."""
    return _scanned(running_sum, input, dim, dtype)


@composite("cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor")
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the running products along a dimension, each including its element; int64 for integers and bools."""
    return _scanned(running_product, input, dim, dtype)


# ------------------------------------------------------------------------------------------------- running extremes


def _last_extreme(function: Any) -> Any:
    """Return a function to the positions of running extremes: the last of equal elements; NaN wins over numbers."""

    def run(x: Any, dim: int) -> Any:
        if not x.ndim:
            return np.zeros((), np.int64)
        best = function.accumulate(x, dim)
        place = np.arange(x.shape[dim]).reshape([-1 if k == dim else 1 for k in range(x.ndim)])
        return np.maximum.accumulate(np.where((x == best) | (x != x), place, 0), dim).astype(np.int64)

    return run


def _extreme(largest: bool) -> Scan:
    """Return the scan of the running extreme and its position; the position is the result."""

    def combine(m: Any, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        later = a[0] <= b[0] if largest else b[0] <= a[0]
        if m.dtype.kind == "float":
            later = later | m.ne(b[0], b[0])
        return m.where(later, b[0], a[0]), m.where(later, b[1], a[1])

    def identity(dtype: DType) -> tuple[Any, ...]:
        return (minmax_kernel.smallest_value if largest else minmax_kernel.largest_value)(dtype), 0

    return Scan(element=lambda m, x, position: (x, position), combine=combine, identity=identity,
                finish=lambda m, values: m.cast(values[1], dtypes.int64), positions=frozenset({1}))


top_places: Final[SequenceOperator] = scan_operator(
    "cummax(Tensor input, int dim) -> Tensor", "Positions of running maxima.", _last_extreme(np.maximum),
    _extreme(True), result="int64", wide=False, kinds="bif")
bottom_places: Final[SequenceOperator] = scan_operator(
    "cummin(Tensor input, int dim) -> Tensor", "Positions of running minima.", _last_extreme(np.minimum),
    _extreme(False), result="int64", wide=False, kinds="bif")

#: Results of ``cummax`` and ``cummin``, under PyTorch's names.
CumMaxResult: Final = named_result("cummax", ("values", "indices"))
CumMinResult: Final = named_result("cummin", ("values", "indices"))


def gather_found(record: SequenceOperator, input: Any, *args: Any) -> tuple[Any, Any]:
    """Run a record that finds positions along a dimension, its first argument; return the elements and positions."""
    indices = call(record, input.detach(), *args)
    return (call(gather_valid, input, args[0], indices) if input.ndim else input.clone()), indices


def found_derivative() -> Derivative:
    """Return the derivative of an operator with the results of ``gather_found``."""
    return Derivative(input=lambda grads, input_shape, dim, result1: (
        added_to_zeros(grads[0], dim, result1, input_shape) if input_shape else grads[0]))


@composite("found_extremes(Tensor input, int dim, bool largest) -> any", method=False, function=False, replayable=True,
           derivative=found_derivative())
def found_extremes(input: Any, dim: int, largest: bool) -> Any:
    """Return running extremes along a dimension and their positions."""
    return gather_found(top_places if largest else bottom_places, input, dim)


@composite("cummax(Tensor input, int dim) -> any")
def cummax(input: Any, dim: int) -> Any:
    """Return the running maximum along a dimension and its position, the last of equal elements."""
    return CumMaxResult(*call(COMPOSITES["found_extremes"], input, normalize_axis("cummax", dim, input.ndim), True))


@composite("cummin(Tensor input, int dim) -> any")
def cummin(input: Any, dim: int) -> Any:
    """Return the running minimum along a dimension and its position, the last of equal elements."""
    return CumMinResult(*call(COMPOSITES["found_extremes"], input, normalize_axis("cummin", dim, input.ndim), False))


# ------------------------------------------------------------------------------------------------------ differences


@composite("diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor")
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the n-th differences of adjacent elements along a dimension; exclusive or for bools.

    Raises:
        ShapeError: The tensor has no dimensions.
        ArgumentError: n is negative.
    """
    if input.ndim == 0:
        raise ShapeError("diff", "a 0-dimensional tensor", "neighbours lie along a dimension", "pass a vector")
    if n < 0:
        raise ArgumentError("diff", f"n={n}", "the number of differences is not negative", "pass 0 or more")
    axis = normalize_axis("diff", dim, input.ndim)
    parts = [x for x in (prepend, input, append) if x is not None and n]
    result = functions.cat(parts, axis) if len(parts) > 1 else input
    for _ in range(min(n, result.shape[axis])):
        rest = result.shape[axis] - 1
        later, earlier = result.narrow(axis, 1, rest), result.narrow(axis, 0, rest)
        result = later ^ earlier if result.dtype is dtypes.bool_ else later - earlier
    return result if n else result.clone()
