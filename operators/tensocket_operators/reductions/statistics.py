"""Statistics: both extremes, joint moments, reductions that skip NaN, counts of values, hashes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.results import named_result
from tensocket_core.geometry import is_integer, normalize_axes, normalize_axis
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    ShapeError,
    UndefinedDtype,
)
from tensocket_plugins.ir.build.fold import Fold
from tensocket_plugins.kit.host_kernels_math import ArrayMath

from ..differentiation.delayed import without_derivative
from ..kinds.composite import composite
from ..kinds.multi_kernel import SequenceOperator, scan_operator
from ..kinds.reduction import Reduction
from ..kinds.view import Custom
from ..pointwise.elementary import added_logarithms
from ..scans.scan import Scan
from .reductions import spread
from .value_checks import value_range

#: Results of ``aminmax``, under PyTorch's names.
AminmaxResult: Final = named_result("aminmax", ("min", "max"))

_SPREAD: Final = ("(Tensor input, any dim=None, bool? unbiased=None, bool keepdim=False, *, Scalar? correction=None) "
                  "-> any")


@composite("aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> any")
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the smallest and the largest element, of all or along a dimension."""
    with blame("aminmax"):
        return AminmaxResult(input.amin(dim, keepdim), input.amax(dim, keepdim))


@composite(f"std_mean{_SPREAD}", method=False)
def std_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> Any:
    """Return the standard deviation and the mean; the arguments are those of ``std``."""
    over, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    with blame("std_mean"):
        return input.std(over, unbiased, keepdim, correction=correction), input.mean(over, keepdim)


@composite(f"var_mean{_SPREAD}", method=False)
def var_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> Any:
    """Return the variance and the mean; the arguments are those of ``var``."""
    over, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    with blame("var_mean"):
        return input.var(over, unbiased, keepdim, correction=correction), input.mean(over, keepdim)


# --------------------------------------------------------------------------------------------------------- NaN skipped

_DIMS: Final = "Tensor input, int[]? dim=None, bool keepdim=False"


def _zero_where_nan(input: Any) -> Any:
    return input.masked_fill(input != input, 0) if input.dtype.is_floating_point else input


nansum: Final[Reduction] = Reduction(
    f"nansum({_DIMS}, *, dtype? dtype=None) -> Tensor",
    "Sum of the elements that are not NaN; int64 for integers and bools.",
    Fold(element=lambda m, x, position: (m.where(m.eq(x, x), x, 0) if m.dtype.kind == "float" else x,),
         identity=lambda dtype: (0,), combine=lambda m, a, b: (a[0] + b[0],), finish=lambda m, acc, count: acc),
    compute="sum",
    wide=True,
    decompose=lambda x, dim, keepdim: _zero_where_nan(x).sum(dim, keepdim),
    derivative=Derivative(input=lambda grad, input, dim, keepdim: spread(
        grad, tuple(input.shape), dim, keepdim).masked_fill(input != input, 0)))


@composite("nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the mean of the elements that are not NaN; NaN where all are NaN.

    Raises:
        DtypeError: The elements are integers or bools.
    """
    if input.dtype.category < 2:
        raise DtypeError("nanmean", f"dtype {input.dtype.name}", "means are of floating-point numbers",
                         "convert with .to(dtype) first")
    count = (input.detach() == input.detach()).sum(normalize_axes("nanmean", dim, input.ndim), keepdim)
    with blame("nanmean"):
        return input.nansum(dim, keepdim, dtype=dtype) / count


# ---------------------------------------------------------------------------------------------------------- hashes

_words: Final[Reduction] = Reduction(
    f"xor_sum({_DIMS}) -> Tensor", "Exclusive or of the elements' bits.",
    Fold(element=lambda m, x, position: (x,), identity=lambda dtype: (0,),
         combine=lambda m, a, b: (a[0] ^ b[0],), finish=lambda m, acc, count: acc),
    method=False, function=False)


@composite("hash_tensor(Tensor input, int[]? dim=(), *, bool keepdim=False, int mode=0) -> Tensor")
def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """Return a hash of the elements, uint64: exclusive or of their bits as float64 or 64-bit integers.

    Raises:
        ArgumentError: The mode is not 0.
        UndefinedDtype: The elements are complex.
    """
    if mode != 0:
        raise ArgumentError("hash_tensor", f"mode={mode}", "the only mode is 0", "leave it out")
    if input.dtype.is_complex:
        raise UndefinedDtype("hash_tensor", f"dtype {input.dtype.name}", "hashes are of real numbers",
                             "use view_as_real first")
    wide = input.detach().to(dtypes.float64 if input.dtype.is_floating_point else dtypes.int64)
    return call(_words, wide.view(dtypes.int64), dim, keepdim).view(dtypes.uint64)


# ----------------------------------------------------------------------------------------------------- running sums


def _running(x: Any, dim: int) -> Any:
    if not x.ndim or not x.size:
        return x.copy()
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x, dim, dtype=np.float64).astype(x.dtype)
    result, m = x.astype(np.complex128), ArrayMath(dtypes.complex128)
    rows = np.moveaxis(result, dim, 0)
    for k in range(1, len(rows)):  # steps over whole slices; NumPy has no ufunc for complex numbers
        rows[k] = added_logarithms(m, rows[k - 1], rows[k])
    return result.astype(x.dtype)


def _log_sum(m: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the logarithm of the sum of two numbers that are given by their logarithms."""
    x, y = a[0], b[0]
    if m.dtype.is_complex:
        return (added_logarithms(m, x, y),)
    top = m.maximum(x, y)
    return (top + m.log1p(m.exp(m.where(m.eq(x, y), 0, m.minimum(x, y) - top))),)


log_running: Final[SequenceOperator] = scan_operator(
    "logcumsumexp(Tensor input, int dim) -> Tensor", "Logarithms of the sums of exponentials up to each element.",
    _running, Scan(element=lambda m, x, position: (x,), combine=_log_sum, finish=lambda m, values: values[0]),
    kinds="fc", derivative=wirtinger(Derivative(
        input=lambda grad, input, result, dim: _log_gradient(grad, input, result, dim))))


def _later(values: Any, dim: int) -> Any:
    """Return the logarithms of the sums of exponentials from each element to the last."""
    return call(log_running, values.flip(dim), dim).flip(dim)


def _signed(weights: Any, function: Any) -> Any:
    """Apply a linear function that works on logarithms: its value for positive weights less that for negative ones."""
    return function(weights.clamp(min=0).log()) - function((-weights).clamp(min=0).log())


def _adjoint_values(state: Any, weights: Any, input: Any, result: Any, dim: int) -> Any:
    return _signed(weights, lambda logs: (_later(logs - result, dim) + input).exp())


def _tangent_values(state: Any, weights: Any, input: Any, result: Any, dim: int) -> Any:
    return _signed(weights, lambda logs: (call(log_running, logs + input, dim) - result).exp())


# Both are linear in the weights, and each is the other's adjoint.
_log_adjoint: Final[Custom] = Custom(
    "logcumsumexp_adjoint(Tensor weights, Tensor input, Tensor result_, int dim) -> Tensor",
    "Sums of later weights, each times exp(input - result).", _adjoint_values, method=False, function=False,
    derivative=Derivative(
        weights=lambda grad, input, result_, dim: call(log_tangent, grad, input, result_, dim),
        input=lambda grad, result: grad * result,
        result_=lambda grad, weights, input, result_, dim: -weights * call(log_tangent, grad, input, result_, dim)))
log_tangent: Final[Custom] = Custom(
    "logcumsumexp_tangent(Tensor weights, Tensor input, Tensor result_, int dim) -> Tensor",
    "Sums of earlier weights, each times exp(input - result).", _tangent_values, method=False, function=False,
    derivative=Derivative(
        weights=lambda grad, input, result_, dim: call(_log_adjoint, grad, input, result_, dim),
        input=lambda grad, weights, input, result_, dim: weights * call(_log_adjoint, grad, input, result_, dim),
        result_=lambda grad, result: -grad * result))


def _log_gradient(grad: Any, input: Any, result: Any, dim: int) -> Any:
    """Return exp(input) times the sum of grad / exp(result) from each element to the last."""
    if input.ndim == 0:
        return grad
    if input.dtype.is_complex:
        return (_later(grad.log() - result.conj(), dim) + input.conj()).exp()
    return call(_log_adjoint, grad, input, result, dim)


@composite("logcumsumexp(Tensor input, int dim) -> Tensor")
def logcumsumexp(input: Any, dim: int) -> Any:
    """Return the logarithm of the running sum of exponentials along a dimension, without overflow."""
    return call(log_running, input, normalize_axis("logcumsumexp", dim, input.ndim))


# ------------------------------------------------------------------------------------------------- counts of values


def _check_counted(input: Any, weights: Any, minlength: int) -> None:
    """Refuse arguments that cannot be counted.

    Raises:
        ArgumentError: minlength is negative.
        ArgumentTypeError: minlength is not an integer.
        ShapeError: The values are not a vector, or there is not one weight per value.
        UndefinedDtype: The values are not integers.
    """
    if input.dtype.category != 1:
        raise UndefinedDtype("bincount", f"dtype {input.dtype.name}", "integers are counted",
                             "convert with .long() first")
    if not is_integer(minlength):
        raise ArgumentTypeError("bincount", f"minlength={minlength!r}", "minlength is an integer", "pass an integer")
    if minlength < 0:
        raise ArgumentError("bincount", f"minlength={minlength}", "minlength is not negative", "pass 0 or more")
    if input.ndim != 1:
        raise ShapeError("bincount", f"a tensor of shape {list(input.shape)}", "the values are a vector", "flatten it")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise ShapeError("bincount", f"weights of shape {list(weights.shape)} for {input.numel()} values",
                         "there is one weight for every value", "pass as many weights")


@composite("bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Count how often 0, 1, 2 ... occur among the elements, or add up their weights.

    Args:
        input: A vector of integers, none negative.
        weights: One weight per element; float32 weights are added up in float32, others in float64.
        minlength: Minimum size of the result.

    Raises:
        ArgumentError: An element or minlength is negative.
        ShapeError, UndefinedDtype: The arguments are not as described.
    """
    _check_counted(input, weights, minlength)
    if input.numel() == 0:
        return input.new_zeros((minlength,), dtype=dtypes.int64)
    low, high = value_range(input)
    if low < 0:
        raise ArgumentError("bincount", f"an element {low}", "counted integers are not negative", "add an offset")
    if weights is None:
        added = input.new_ones(tuple(input.shape), dtype=dtypes.int64)
    else:
        added = weights.detach() if weights.dtype is dtypes.float32 else weights.detach().to(dtypes.float64)
    size = max(high + 1, minlength)
    totals = added.new_zeros((size,)).scatter_add(0, input.detach().to(dtypes.int64), added)
    return without_derivative("bincount", totals, weights)
