"""Reductions and normalisations of the elements that a mask selects: ``masked_NAME`` is ``tensocket.masked.NAME``.

The identity of the operation replaces elements that the mask does not select. The result over no elements at all is
that identity, or the operation applied to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.geometry import normalize_axes, normalize_axis
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DimensionError

from ..kinds.composite import composite
from .value_checks import any_true

_MASKED: Final[dict[str, Any]] = {"method": False, "namespace": "masked"}
_SEVERAL: Final = ("(Tensor input, any dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) "
                   "-> Tensor")
_PLACE: Final = "(Tensor input, int? dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor"
_ALONG: Final = "(Tensor input, int dim, *, dtype? dtype=None, Tensor? mask=None) -> Tensor"
_SPREAD: Final = ("(Tensor input, any dim=None, bool? unbiased=None, *, Scalar? correction=None, bool keepdim=False, "
                  "dtype? dtype=None, Tensor? mask=None) -> Tensor")


def extreme(dtype: DType, largest: bool) -> Any:
    """Return the largest or smallest element of a dtype."""
    if dtype.category >= 2:
        return math.inf if largest else -math.inf
    if dtype.kind == "bool":
        return largest
    bits = 8 * dtype.itemsize - (dtype.kind == "int")
    return (1 << bits) - 1 if largest else -(1 << bits) if dtype.kind == "int" else 0


def _lowest(dtype: DType, *options: Any) -> Any:
    return extreme(dtype, False)


def _highest(dtype: DType, *options: Any) -> Any:
    return extreme(dtype, True)


def _zero(dtype: DType, *options: Any) -> Any:
    return 0


def _one(dtype: DType, *options: Any) -> Any:
    return 1


def _nan(dtype: DType, *options: Any) -> Any:
    return math.nan


def _norm_identity(dtype: DType, ord: Any = 2.0) -> Any:
    """Return the identity of a norm: infinity for a negative order, as its negative powers are 0 and add nothing."""
    return math.inf if ord is not None and ord < 0 else 0


#: By operation, a function of the dtype that returns the replacement of unselected elements; it does not change the
#: result. Means and variances have none, because they count elements.
IDENTITIES: Final[dict[str, Callable[..., Any]]] = {
    "sum": _zero, "cumsum": _zero, "prod": _one, "cumprod": _one, "all": _one, "any": _zero, "norm": _norm_identity,
    "amax": _lowest, "argmax": _lowest, "logsumexp": _lowest, "logaddexp": _lowest, "softmax": _lowest,
    "log_softmax": _lowest, "amin": _highest, "argmin": _highest, "softmin": _highest, "median": _nan}


def identity_of(name: str, dtype: DType, *options: Any) -> Any:
    """Return the identity of an operation on elements of a dtype.

    Args:
        name: Name of the operation, as in ``IDENTITIES``.
        dtype: Dtype of the elements.
        options: The order of a norm.

    Raises:
        ArgumentError: The operation has no identity.
    """
    if name not in IDENTITIES:
        raise ArgumentError(f"masked.{name}", f"dtype {dtype.name}", "the operation has no identity",
                            "combine the tensor and the mask for one of " + ", ".join(sorted(IDENTITIES)))
    return IDENTITIES[name](dtype, *options)


def _broadcast(name: str, input: Any, mask: Any) -> Any:
    """Return the mask as bools of the input's shape.

    Raises:
        DimensionError: The mask has more dimensions than the input.
    """
    if mask.ndim > input.ndim:
        raise DimensionError(f"masked.{name}", f"a mask of shape {list(mask.shape)} for shape {list(input.shape)}",
                             "a mask broadcasts to the tensor's shape", "reshape the mask")
    with blame(f"masked.{name}"):
        return mask.detach().to(dtypes.bool_).expand(tuple(input.shape))


def fill_unselected(name: str, input: Any, mask: Any, *options: Any, fold: str | None = None) -> Any:
    """Return the tensor with the identity of ``fold``, by default of ``name``, where the mask is false."""
    if mask is None:
        return input
    identity = identity_of(fold or name, input.dtype, *options)
    return functions.where(_broadcast(name, input, mask), input, input.new_full((), identity))


def _axes(name: str, input: Any, dim: Any) -> tuple[int, ...]:
    return normalize_axes(f"masked.{name}", dim, input.ndim)


def _summable(dtype: Any, input: Any) -> Any:
    """Convert the tensor to the dtype of its sums: int64 for integers and bools."""
    wanted = dtype or (dtypes.int64 if input.dtype.category < 2 else input.dtype)
    return input.to(wanted)


# -------------------------------------------------------------------------------------------------------- reductions


@composite(f"masked_sum{_SEVERAL}", **_MASKED)
def masked_sum(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the sum of the elements that the mask selects; int64 for integers and bools."""
    return fill_unselected("sum", _summable(dtype, input), mask).sum(_axes("sum", input, dim), keepdim)


@composite(f"masked_prod{_SEVERAL}", **_MASKED)
def masked_prod(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the product of the elements that the mask selects; int64 for integers and bools."""
    return fill_unselected("prod", _summable(dtype, input), mask).prod(_axes("prod", input, dim), keepdim)


def _bounded(name: str, input: Any, dim: Any, keepdim: bool, mask: Any, fold: Callable[..., Any]) -> Any:
    """Fold the elements, with the identity of the fold in place of unselected ones."""
    with blame(f"masked.{name}"):
        return fold(fill_unselected(name, input, mask), dim, keepdim)


@composite(f"masked_amax{_SEVERAL}", **_MASKED)
def masked_amax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the largest element that the mask selects; the smallest number of the dtype where it selects none."""
    return _bounded("amax", input, dim, keepdim, mask, functions.amax).to(dtype or input.dtype)


@composite(f"masked_amin{_SEVERAL}", **_MASKED)
def masked_amin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the smallest element that the mask selects; the largest number of the dtype where it selects none."""
    return _bounded("amin", input, dim, keepdim, mask, functions.amin).to(dtype or input.dtype)


@composite(f"masked_argmax{_PLACE}", **_MASKED)
def masked_argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
                  mask: Any = None) -> Any:
    """Return the position of the first largest element that the mask selects, in the dtype of the elements."""
    places = _bounded("argmax", input, dim, keepdim, mask, functions.argmax)
    return places.to(input.dtype if dtype is None else dtype)


@composite(f"masked_argmin{_PLACE}", **_MASKED)
def masked_argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
                  mask: Any = None) -> Any:
    """Return the position of the first smallest element that the mask selects, in the dtype of the elements."""
    places = _bounded("argmin", input, dim, keepdim, mask, functions.argmin)
    return places.to(input.dtype if dtype is None else dtype)


def _counts(name: str, input: Any, axes: tuple[int, ...], keepdim: bool, mask: Any) -> Any:
    """Count the elements that the mask selects."""
    if mask is None:
        held = input.new_ones((), dtype=dtypes.int64).expand(tuple(input.shape))
    else:
        held = _broadcast(name, input, mask).to(dtypes.int64)
    return held.sum(axes, keepdim)


@composite(f"masked_mean{_SEVERAL}", **_MASKED)
def masked_mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the mean of the elements that the mask selects; NaN where it selects none.

    Raises:
        ArgumentError: The elements are integers or bools, and no ``dtype`` is given.
    """
    input = input if dtype is None else input.to(dtype)
    if input.dtype.category < 2:
        raise ArgumentError("masked.mean", f"dtype {input.dtype.name}", "means are of floating-point numbers",
                            "pass a float dtype")
    axes = _axes("mean", input, dim)
    return fill_unselected("mean", input, mask, fold="sum").sum(axes, keepdim) / _counts("mean", input, axes, keepdim,
                                                                                         mask)


@composite("masked_median(Tensor input, int dim=-1, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) "
           "-> Tensor", **_MASKED)
def masked_median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the median of the elements that the mask selects and that are not NaN, the lower of two middle ones.

    Raises:
        ArgumentError: The elements are integers and the mask selects none of a row.
    """
    input = input if dtype is None else input.to(dtype)
    wide = input if input.dtype.is_floating_point else input.to(dtypes.float32)
    axis = normalize_axis("masked.median", dim, input.ndim)
    found = functions.nanmedian(fill_unselected("median", wide, mask), axis, keepdim)[0]
    if input.dtype.is_floating_point:
        return found
    if any_true(found != found):
        raise ArgumentError("masked.median", "a row without elements", "a median of integers is that of some",
                            "convert to a float dtype first")
    return found.to(input.dtype)


@composite("masked_norm(Tensor input, Scalar ord=2.0, any dim=None, *, bool keepdim=False, dtype? dtype=None, "
           "Tensor? mask=None) -> Tensor", **_MASKED)
def masked_norm(input: Any, ord: float = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
                mask: Any = None) -> Any:
    """Return the ``linalg.vector_norm`` of the elements that the mask selects."""
    input = input if dtype is None else input.to(dtype)
    return functions.linalg_vector_norm(fill_unselected("norm", input, mask, ord), ord, _axes("norm", input, dim),
                                        keepdim)


def _variance(name: str, input: Any, dim: Any, unbiased: bool | None, correction: float | None, keepdim: bool,
              dtype: Any, mask: Any) -> Any:
    """Return the variance, with ``count - correction`` in the denominator.

    Raises:
        ArgumentTypeError: Both ``unbiased`` and ``correction`` are given.
    """
    if unbiased is not None and correction is not None:
        raise ArgumentTypeError(f"masked.{name}", f"unbiased={unbiased}, correction={correction}",
                                "only one of both is given", "pass correction alone")
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    wanted = dtype or (input.dtype if input.dtype.category >= 2 else dtypes.float32)
    axes = _axes(name, input, dim)
    count = _counts(name, input, axes, True, mask)
    # Unselected elements may be NaN, which would reach the gradients.
    input = fill_unselected(name, input.to(wanted), mask, fold="sum")
    distance = input - input.sum(axes, True) / count
    squares = (distance * distance.conj()).real if input.dtype.is_complex else distance * distance
    total = fill_unselected(name, squares, mask, fold="sum").sum(axes, keepdim)
    return (total / (count.reshape(tuple(total.shape)) - less).clamp(min=0)).to(wanted)


@composite(f"masked_var{_SPREAD}", **_MASKED)
def masked_var(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
               keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the variance of the elements that the mask selects; the arguments are those of ``var``."""
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


@composite(f"masked_std{_SPREAD}", **_MASKED)
def masked_std(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
               keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the standard deviation of the elements that the mask selects; the arguments are those of ``std``."""
    return _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


@composite(f"masked_logsumexp{_SEVERAL}", **_MASKED)
def masked_logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Return the logarithm of the sum of exponentials of the elements that the mask selects."""
    input = input if dtype is None else input.to(dtype)
    return functions.logsumexp(fill_unselected("logsumexp", input, mask),
                               _axes("logsumexp", input, dim), keepdim).to(input.dtype)


@composite("masked_logaddexp(Tensor input, Tensor other, *, dtype? dtype=None, Tensor? input_mask=None, "
           "Tensor? other_mask=None) -> Tensor", **_MASKED)
def masked_logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None,
                     other_mask: Any = None) -> Any:
    """Return the elementwise ``logaddexp``, with exp(x) = 0 for elements that their mask does not select."""
    input, other = (x if dtype is None else x.to(dtype) for x in (input, other))
    return functions.logaddexp(fill_unselected("logaddexp", input, input_mask),
                               fill_unselected("logaddexp", other, other_mask))


# --------------------------------------------------------------------------------------------------- along a dimension


@composite(f"masked_cumsum{_ALONG}", **_MASKED)
def masked_cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the running sums of the elements that the mask selects."""
    return fill_unselected("cumsum", input.to(dtype or input.dtype), mask).cumsum(dim).to(dtype or input.dtype)


@composite(f"masked_cumprod{_ALONG}", **_MASKED)
def masked_cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the running products of the elements that the mask selects."""
    return fill_unselected("cumprod", input.to(dtype or input.dtype), mask).cumprod(dim).to(dtype or input.dtype)


@composite(f"masked_softmax{_ALONG}", **_MASKED)
def masked_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the ``softmax`` of the elements that the mask selects; 0 for others, NaN where it selects none."""
    input = input if dtype is None else input.to(dtype)
    return functions.softmax(fill_unselected("softmax", input, mask), dim)


@composite(f"masked_log_softmax{_ALONG}", **_MASKED)
def masked_log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the logarithm of ``masked.softmax``."""
    input = input if dtype is None else input.to(dtype)
    return functions.log_softmax(fill_unselected("log_softmax", input, mask), dim)


@composite(f"masked_softmin{_ALONG}", **_MASKED)
def masked_softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return ``masked.softmax`` of the negated elements."""
    input = input if dtype is None else input.to(dtype)
    return functions.softmax(-fill_unselected("softmin", input, mask), dim)


@composite("masked_normalize(Tensor input, Scalar ord, int dim, *, float eps=1e-12, dtype? dtype=None, "
           "Tensor? mask=None) -> Tensor", **_MASKED)
def masked_normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
                     mask: Any = None) -> Any:
    """Divide the elements that the mask selects by their norm along a dimension, at least ``eps``; others become 0."""
    input = input if dtype is None else input.to(dtype)
    norm = masked_norm(input, ord, dim, keepdim=True, mask=mask)
    return fill_unselected("normalize", input, mask, fold="sum") / norm.clamp(min=eps)
