"""Reductions: one record each, and the operators composed of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import ARRAYS, Derivative
from tensocket_core.dispatch.modes import is_grad_enabled
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import normalize_axes, normalize_axis
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError
from tensocket_plugins.ir.build.fold import Fold

from ..indexing.gather_scatter import gather_valid
from ..kinds.composite import composite
from ..kinds.reduction import Reduction
from . import minmax_kernel
from .value_checks import any_true, promoted_for_arithmetic


def restore(value: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """Restore the reduced dimensions of a tensor with size 1, so that it broadcasts against ``shape``."""
    if keepdim:
        return value
    axes = normalize_axes("reduce", dim, len(shape))
    return value.reshape(tuple(1 if k in axes else n for k, n in enumerate(shape)))


def spread(value: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """Expand a reduced tensor to ``shape``."""
    if dim is None and not keepdim:
        return value.expand(shape)
    return restore(value, shape, dim, keepdim).expand(shape)


def _spread_array(grad: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """Return ``spread`` on arrays: a small result is dense, as fast paths serve dense arrays only."""
    if math.prod(shape) > ARRAYS:
        return NotImplemented
    full = np.empty(shape, grad.dtype)
    full[...] = restore(grad, shape, dim, keepdim) if grad.ndim else grad
    return full


def _mean_array(grad: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    return _spread_array(np.asarray(grad / max(count_of(shape, dim), 1)), shape, dim, keepdim)


def count_of(shape: tuple[int, ...], dim: Any) -> int:
    """Return the number of elements that one result reduces."""
    return math.prod(shape[k] for k in normalize_axes("reduce", dim, len(shape)))


_SUM: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (0,),
                   combine=lambda m, a, b: (a[0] + b[0],), finish=lambda m, acc, count: acc)
_PROD: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (1,),
                    combine=lambda m, a, b: (a[0] * b[0],), finish=lambda m, acc, count: acc)
_MEAN: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (0,),
                    combine=lambda m, a, b: (a[0] + b[0],), finish=lambda m, acc, count: (acc[0] / count,))
_MAX: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (minmax_kernel.smallest_value(dtype),),
                   combine=lambda m, a, b: (m.maximum(a[0], b[0]),), finish=lambda m, acc, count: acc)
_MIN: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (minmax_kernel.largest_value(dtype),),
                   combine=lambda m, a, b: (m.minimum(a[0], b[0]),), finish=lambda m, acc, count: acc)
_ANY: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (False,),
                   combine=lambda m, a, b: (a[0] | b[0],), finish=lambda m, acc, count: acc)
_ALL: Final = Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (True,),
                   combine=lambda m, a, b: (a[0] & b[0],), finish=lambda m, acc, count: acc)

_SQUARES: Final = Fold(element=lambda m, x, position: (x * x,), identity=lambda dtype: (0,),
                       combine=lambda m, a, b: (a[0] + b[0],), finish=lambda m, acc, count: acc)
_LENGTH: Final = Fold(element=_SQUARES.element, identity=_SQUARES.identity, combine=_SQUARES.combine,
                      finish=lambda m, acc, count: (m.sqrt(acc[0]),))
#: Sums of the differences to one of the elements, and of their squares. The relative error of the result is that of the
#: accumulators times (element - mean)**2 / variance, which is at most the number of elements.
_VARIANCE: Final = Fold(
    element=lambda m, x, position: (x, x * x), identity=lambda dtype: (0, 0),
    combine=lambda m, a, b: (a[0] + b[0], a[1] + b[1]),
    finish=lambda m, acc, count, correction: (_variance(m, acc, count, correction),), relative=True)
_DEVIATION: Final = Fold(
    element=_VARIANCE.element, identity=_VARIANCE.identity, combine=_VARIANCE.combine,
    finish=lambda m, acc, count, correction: (m.sqrt(_variance(m, acc, count, correction)),), relative=True)


def _variance(m: Any, acc: tuple[Any, ...], count: Any, correction: Any) -> Any:
    """Return the variance from the sums of differences and of their squares."""
    return m.maximum(acc[1] - acc[0] * acc[0] / count, 0) / m.maximum(count - correction, 0)


#: The position of accumulators without an element; it is larger than every real position, so that those win ties.
_NOWHERE: Final = (1 << 31) - 1


def _position_fold(largest: bool) -> Fold:
    """Return the fold of value and position: NaN wins over numbers, and the first of equal elements wins."""

    def combine(m: Any, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        (x, i), (y, j) = a, b
        better = (y < x) if largest else (x < y)
        if m.dtype.kind == "float":
            x_nan, y_nan = m.ne(x, x), m.ne(y, y)
            better = (better & ~y_nan) | (x_nan & ~y_nan)
            same = m.eq(x, y) | (x_nan & y_nan)
        else:
            same = m.eq(x, y)
        left = better | (same & (i < j))
        return m.where(left, x, y), m.where(left, i, j)

    def identity(dtype: DType) -> tuple[Any, ...]:
        return (minmax_kernel.smallest_value if largest else minmax_kernel.largest_value)(dtype), _NOWHERE

    return Fold(element=lambda m, x, position: (x, position), identity=identity, combine=combine,
                finish=lambda m, acc, count: (acc[1],), positions=frozenset({1}))


_DIMS: Final = "Tensor input, int[]? dim=None, bool keepdim=False"


sum: Final = Reduction(
    f"sum({_DIMS}, *, dtype? dtype=None) -> Tensor",
    "Sum of the elements; int64 for integers and bools.",
    _SUM,
    compute="sum",
    bools="any",
    wide=True,
    complex=True,
    derivative=Derivative(input=lambda grad, input_shape, dim, keepdim: spread(grad, input_shape, dim, keepdim)
                          ).on_arrays(input=_spread_array),
)
mean: Final = Reduction(
    f"mean({_DIMS}, *, dtype? dtype=None) -> Tensor",
    "Arithmetic mean; NaN of no elements.",
    _MEAN,
    compute="float",
    wide=True,
    complex=True,
    decompose=lambda x, dim, keepdim: x.sum(dim, keepdim) / count_of(tuple(x.shape), dim),
    derivative=Derivative(
        input=lambda grad, input_shape, dim, keepdim: spread(
            grad / max(count_of(input_shape, dim), 1), input_shape, dim, keepdim
        )
    ).on_arrays(input=_mean_array),
)
square_sum: Final = Reduction(
    f"square_sum({_DIMS}) -> Tensor",
    "Sum of the elements' squares.",
    _SQUARES,
    compute="float",
    wide=True,
    method=False,
    function=False,
    decompose=lambda x, dim, keepdim: (x * x).sum(dim, keepdim),
    derivative=Derivative(input=lambda grad, input, dim, keepdim: restore(
        grad, tuple(input.shape), dim, keepdim) * (input + input)),
)
length: Final = Reduction(
    f"length({_DIMS}) -> Tensor",
    "Euclidean length; its gradient at 0 is 0.",
    _LENGTH,
    compute="float",
    wide=True,
    method=False,
    function=False,
    decompose=lambda x, dim, keepdim: call(square_sum, x, dim, keepdim).sqrt(),
    derivative=Derivative(input=lambda grad, input, result, dim, keepdim: _length_gradient(
        grad, input, result, dim, keepdim)),
)


def _length_gradient(grad: Any, input: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    """Return grad * input / result, 0 at 0. Narrow floats compute in float32, as grad / result may overflow."""
    dtype, grad, wide, size = promoted_for_arithmetic(grad, input, result)
    slope = grad / size.masked_fill(size == 0, math.inf)
    return (restore(slope, tuple(input.shape), dim, keepdim) * wide).to(dtype)


_SPREAD_DIMS: Final = f"{_DIMS}, float correction=1.0"


def _degrees(shape: tuple[int, ...], dim: Any, correction: float) -> float:
    """Return the denominator of a variance."""
    return max(count_of(shape, dim) - correction, 0)


def _variance_gradient(grad: Any, input: Any, dim: Any, keepdim: bool, correction: float) -> Any:
    shape = tuple(input.shape)
    return restore(grad, shape, dim, keepdim) * 2 / _degrees(shape, dim, correction) * (input - input.mean(dim, True))


variance: Final = Reduction(
    f"variance({_SPREAD_DIMS}) -> Tensor",
    "Sum of the squared distances to the mean, over the number of elements less a correction.",
    _VARIANCE,
    compute="float",
    wide=True,
    method=False,
    function=False,
    decompose=lambda x, dim, keepdim, correction: call(square_sum, x - x.mean(dim, True), dim, keepdim) / _degrees(
        tuple(x.shape), dim, correction),
    derivative=Derivative(input=_variance_gradient),
)
deviation: Final = Reduction(
    f"deviation({_SPREAD_DIMS}) -> Tensor",
    "Square root of the variance; its gradient at 0 is 0.",
    _DEVIATION,
    compute="float",
    wide=True,
    method=False,
    function=False,
    decompose=lambda x, dim, keepdim, correction: call(variance, x, dim, keepdim, correction).sqrt(),
    derivative=Derivative(input=lambda grad, input, result, dim, keepdim, correction: _variance_gradient(
        grad / (result * 2).masked_fill(result == 0, math.inf), input, dim, keepdim, correction)),
)
prod: Final = Reduction(
    f"prod({_DIMS}, *, dtype? dtype=None) -> Tensor",
    "Product of the elements; int64 for integers and bools.",
    _PROD,
    compute="sum",
    bools="all",
    wide=True,
    complex=True,
    derivative=Derivative(input=lambda grad, input, dim, keepdim: _prod_gradient(grad, input, dim, keepdim)),
)


def _prod_gradient(grad: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    """Return grad times the product of all other elements.

    With one zero, only its own gradient is not zero; with several, all are zero. Next to a zero, infinities and NaN
    make the gradients of other elements NaN, except where all elements are reduced and several of them are zero.
    """
    shape = tuple(input.shape)
    axes = normalize_axes("prod", dim, len(shape))
    if shape and (input._level or (input.requires_grad and is_grad_enabled())):
        return restore(grad, shape, dim, keepdim) * _product_of_others(input, axes)
    zero = input == 0
    others = input.masked_fill(zero, 1)
    product = others.prod(axes, True)
    zeros = zero.sum(axes, True)
    plain = product / others
    if shape and any_true((zeros != 0) & ~product.isfinite()):
        found = _product_of_others(input, axes)
        found = found.masked_fill(zeros > 1, 0) if dim is None else found
        return restore(grad, shape, dim, keepdim) * functions.where(zeros != 0, found, plain)
    plain = plain.masked_fill(zeros != 0, 0)
    single = product.expand(shape).masked_fill(~(zero & (zeros == 1)), 0)
    return restore(grad, shape, dim, keepdim) * (plain + single)


def _product_of_others(input: Any, axes: tuple[int, ...]) -> Any:
    """Return for each element the product of all others along ``axes``: the product before it times that after it.

    Unlike a quotient, it can be differentiated where elements are zero.
    """
    places = tuple(range(-len(axes), 0))
    rows = input.movedim(axes, places)
    flat = rows.flatten(-len(axes))
    one = flat.new_ones((*flat.shape[:-1], 1))
    before = functions.cat([one, flat[..., :-1]], -1).cumprod(-1)
    behind = functions.cat([one, flat.flip(-1)[..., :-1]], -1).cumprod(-1).flip(-1)
    return (before * behind).reshape(rows.shape).movedim(places, axes)


def _extreme_gradient(grad: Any, input: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    """Share the gradient evenly among equal extremes; over all dimensions, a NaN result's among all NaN elements."""
    shape = tuple(input.shape)
    extreme = restore(result, shape, dim, keepdim)
    hits = input == extreme
    hit = (hits | (input != input) if dim is None and input.dtype.category > 1 else hits).to(grad.dtype)
    return restore(grad, shape, dim, keepdim) * hit / hit.sum(normalize_axes("amax", dim, len(shape)), True)


amax: Final = Reduction(
    f"amax({_DIMS}) -> Tensor",
    "Largest element; NaN if there is one.",
    _MAX,
    empty=False,
    derivative=Derivative(
        input=lambda grad, input, result, dim, keepdim: _extreme_gradient(grad, input, result, dim, keepdim)
    ),
)
amin: Final = Reduction(
    f"amin({_DIMS}) -> Tensor",
    "Smallest element; NaN if there is one.",
    _MIN,
    empty=False,
    derivative=Derivative(
        input=lambda grad, input, result, dim, keepdim: _extreme_gradient(grad, input, result, dim, keepdim)
    ),
)
any: Final = Reduction(
    f"any({_DIMS}) -> Tensor",
    "Whether an element is not zero.",
    _ANY,
    compute="bool",
    result="bool",
    decompose=lambda x, dim, keepdim: x.sum(dim, keepdim) != 0,
)
all: Final = Reduction(f"all({_DIMS}) -> Tensor", "Whether no element is zero.", _ALL, compute="bool", result="bool",
                       decompose=lambda x, dim, keepdim: x.logical_not().sum(dim, keepdim) == 0)
argmax: Final = Reduction(
    "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
    "Position of the largest element, the first of equals; over all dimensions it counts row-major.",
    _position_fold(True),
    result="int64",
    empty=False,
)
argmin: Final = Reduction(
    "argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
    "Position of the smallest element, the first of equals; over all dimensions it counts row-major.",
    _position_fold(False),
    result="int64",
    empty=False,
)


@composite("max(Tensor input, any dim=None, bool keepdim=False) -> any")
def max_of(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the largest element; (values, indices) along an int ``dim``; with a tensor, the elementwise maximum."""
    if dim is None:
        with blame("max"):
            return input.amax()
    with blame("max"):
        return input.maximum(dim) if hasattr(dim, "_key") else MaxResult(*_along(input, input.argmax, dim, keepdim))


@composite("min(Tensor input, any dim=None, bool keepdim=False) -> any")
def min_of(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the smallest element; (values, indices) along an int ``dim``; with a tensor, the elementwise minimum."""
    if dim is None:
        with blame("min"):
            return input.amin()
    with blame("min"):
        return input.minimum(dim) if hasattr(dim, "_key") else MinResult(*_along(input, input.argmin, dim, keepdim))


#: Results of ``max`` and ``min`` along a dimension, under PyTorch's names.
MaxResult: Final = named_result("max", ("values", "indices"))
MinResult: Final = named_result("min", ("values", "indices"))


def _along(input: Any, position: Callable[..., Any], dim: int, keepdim: bool) -> tuple[Any, Any]:
    indices = position(dim, True)
    if input.ndim == 0:
        return input.clone(), indices
    values = call(gather_valid, input, normalize_axis("gather", dim, input.ndim), indices)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _spread_arguments(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """Return ``dim`` and the correction from PyTorch's forms: ``var(False)``, ``var(0, False)``, ``correction=``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif unbiased is not None:
        raise ArgumentTypeError(
            "var", f"unbiased={unbiased}, correction={correction}", "only one of both is given", "pass correction alone"
        )
    return dim, correction


def _warn_of_degrees(operator: str, input: Any, axes: tuple[int, ...], correction: float) -> None:
    """Warn if there are no more elements than the correction: the quotient is then NaN or infinite."""
    if count_of(tuple(input.shape), axes) <= correction:
        warnings.warn(f"[{operator}] degrees of freedom is <= 0: {count_of(tuple(input.shape), axes)} elements, "
                      f"correction={correction} — the correction is less than the number of elements — reduce more "
                      "elements, or pass a smaller correction", UserWarning, stacklevel=4)


@composite(
    "var(Tensor input, any dim=None, bool? unbiased=None, bool keepdim=False, *, Scalar? correction=None) -> Tensor"
)
def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """Return the variance, sum((input - mean)**2) / (n - correction); the correction is 1 by default."""
    dim, correction = _spread_arguments(dim, unbiased, correction)
    axes = normalize_axes("var", dim, input.ndim)
    _warn_of_degrees("var", input, axes, correction)
    with blame("var"):
        if input.is_complex():
            centred = input - input.mean(axes, True)
            total = (centred * centred.conj()).real.sum(axes, keepdim)
            return total / _degrees(tuple(input.shape), axes, correction)
        return call(variance, input, axes, keepdim, float(correction))


@composite(
    "std(Tensor input, any dim=None, bool? unbiased=None, bool keepdim=False, *, Scalar? correction=None) -> Tensor"
)
def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """Return the standard deviation, the square root of the variance."""
    dim, correction = _spread_arguments(dim, unbiased, correction)
    with blame("std"):
        if input.is_complex():
            squared = input.var(dim, keepdim=keepdim, correction=correction)  # it warns
            nothing = squared == 0  # these have no gradient
            return squared.masked_fill(nothing, 1).sqrt().masked_fill(nothing, 0)
        axes = normalize_axes("std", dim, input.ndim)
        _warn_of_degrees("std", input, axes, correction)
        return call(deviation, input, axes, keepdim, float(correction))
