"""Reductions and normalisations of the elements that a mask holds: ``masked_NAME`` is ``tensocket.masked.NAME``.

Elements that the mask leaves out are replaced by the identity of the operation. A result of no elements at all is
that identity, or what the operation makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DimensionError

from .._generated import functions
from ..dispatch.blame import blame
from ..dispatch.composite import composite
from ..execute.geometry import normalize_axes, normalize_axis
from .choices import true_somewhere

_MASKED: Final[dict[str, Any]] = {"method": False, "namespace": "masked"}
_SEVERAL: Final = ("(Tensor input, any dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) "
                   "-> Tensor")
_PLACE: Final = "(Tensor input, int? dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor"
_ALONG: Final = "(Tensor input, int dim, *, dtype? dtype=None, Tensor? mask=None) -> Tensor"
_SPREAD: Final = ("(Tensor input, any dim=None, bool? unbiased=None, *, Scalar? correction=None, bool keepdim=False, "
                  "dtype? dtype=None, Tensor? mask=None) -> Tensor")


def _broadcast(name: str, input: Any, mask: Any) -> Any:
    """The mask as bools of the input's shape.

    Raises:
        DimensionError: It has more dimensions.
    """
    if mask.ndim > input.ndim:
        raise DimensionError(f"masked.{name}", f"a mask of shape {list(mask.shape)} for shape {list(input.shape)}",
                             "a mask broadcasts to the tensor's shape", "reshape the mask")
    with blame(f"masked.{name}"):
        return mask.detach().to(dtypes.bool_).expand(tuple(input.shape))


def _kept(name: str, input: Any, mask: Any, identity: Any) -> Any:
    """The tensor with ``identity`` where the mask does not hold."""
    if mask is None:
        return input
    return functions.where(_broadcast(name, input, mask), input, input.new_full((), identity))


def _axes(name: str, input: Any, dim: Any) -> tuple[int, ...]:
    return normalize_axes(f"masked.{name}", dim, input.ndim)


def _summable(dtype: Any, input: Any) -> Any:
    """The tensor in the dtype of its sums: int64 for integers and bools."""
    wanted = dtype or (dtypes.int64 if input.dtype.category < 2 else input.dtype)
    return input.to(wanted)


def _extreme(dtype: DType, largest: bool) -> Any:
    """The largest or smallest element of a dtype."""
    if dtype.category >= 2:
        return math.inf if largest else -math.inf
    if dtype.kind == "bool":
        return largest
    bits = 8 * dtype.itemsize - (dtype.kind == "int")
    return (1 << bits) - 1 if largest else -(1 << bits) if dtype.kind == "int" else 0


# -------------------------------------------------------------------------------------------------------- reductions


@composite(f"masked_sum{_SEVERAL}", **_MASKED)
def masked_sum(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Sum of the elements that the mask holds; int64 for integers and bools."""
    return _kept("sum", _summable(dtype, input), mask, 0).sum(_axes("sum", input, dim), keepdim)


@composite(f"masked_prod{_SEVERAL}", **_MASKED)
def masked_prod(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Product of the elements that the mask holds; int64 for integers and bools."""
    return _kept("prod", _summable(dtype, input), mask, 1).prod(_axes("prod", input, dim), keepdim)


def _bounded(name: str, input: Any, dim: Any, keepdim: bool, dtype: Any, mask: Any, fold: Callable[..., Any],
             largest: bool) -> Any:
    """A fold of the elements, with ``largest`` or smallest ones for those left out."""
    input = input if dtype is None else input.to(dtype)
    with blame(f"masked.{name}"):
        return fold(_kept(name, input, mask, _extreme(input.dtype, largest)), dim, keepdim)


@composite(f"masked_amax{_SEVERAL}", **_MASKED)
def masked_amax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Largest element that the mask holds; the smallest number of the dtype where it holds none."""
    return _bounded("amax", input, dim, keepdim, dtype, mask, functions.amax, False)


@composite(f"masked_amin{_SEVERAL}", **_MASKED)
def masked_amin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Smallest element that the mask holds; the largest number of the dtype where it holds none."""
    return _bounded("amin", input, dim, keepdim, dtype, mask, functions.amin, True)


@composite(f"masked_argmax{_PLACE}", **_MASKED)
def masked_argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
                  mask: Any = None) -> Any:
    """Position of the largest element that the mask holds, the first of equals, in the dtype of the elements."""
    places = _bounded("argmax", input, dim, keepdim, dtype, mask, functions.argmax, False)
    return places.to(input.dtype if dtype is None else dtype)


@composite(f"masked_argmin{_PLACE}", **_MASKED)
def masked_argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
                  mask: Any = None) -> Any:
    """Position of the smallest element that the mask holds, the first of equals, in the dtype of the elements."""
    places = _bounded("argmin", input, dim, keepdim, dtype, mask, functions.argmin, True)
    return places.to(input.dtype if dtype is None else dtype)


def _counts(name: str, input: Any, axes: tuple[int, ...], keepdim: bool, mask: Any) -> Any:
    """Numbers of elements that the mask holds."""
    if mask is None:
        held = input.new_ones((), dtype=dtypes.int64).expand(tuple(input.shape))
    else:
        held = _broadcast(name, input, mask).to(dtypes.int64)
    return held.sum(axes, keepdim)


@composite(f"masked_mean{_SEVERAL}", **_MASKED)
def masked_mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Mean of the elements that the mask holds; NaN where it holds none.

    Raises:
        ArgumentError: The elements are integers or bools, and no ``dtype`` is given.
    """
    input = input if dtype is None else input.to(dtype)
    if input.dtype.category < 2:
        raise ArgumentError("masked.mean", f"dtype {input.dtype.name}", "means are of floating-point numbers",
                            "pass a float dtype")
    axes = _axes("mean", input, dim)
    return _kept("mean", input, mask, 0).sum(axes, keepdim) / _counts("mean", input, axes, keepdim, mask)


@composite("masked_median(Tensor input, int dim=-1, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) "
           "-> Tensor", **_MASKED)
def masked_median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Median of the elements that the mask holds and that are not NaN, the lower of two middle ones.

    Raises:
        ArgumentError: The elements are integers and the mask holds none of a row.
    """
    input = input if dtype is None else input.to(dtype)
    wide = input if input.dtype.is_floating_point else input.to(dtypes.float32)
    axis = normalize_axis("masked.median", dim, input.ndim)
    found = functions.nanmedian(_kept("median", wide, mask, math.nan), axis, keepdim)[0]
    if input.dtype.is_floating_point:
        return found
    if true_somewhere(found != found):
        raise ArgumentError("masked.median", "a row without elements", "a median of integers is that of some",
                            "convert to a float dtype first")
    return found.to(input.dtype)


@composite("masked_norm(Tensor input, Scalar ord=2.0, any dim=None, *, bool keepdim=False, dtype? dtype=None, "
           "Tensor? mask=None) -> Tensor", **_MASKED)
def masked_norm(input: Any, ord: float = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
                mask: Any = None) -> Any:
    """``linalg.vector_norm`` of the elements that the mask holds."""
    input = input if dtype is None else input.to(dtype)
    kept = _kept("norm", input, mask, math.inf if ord < 0 else 0)
    return functions.linalg_vector_norm(kept, ord, _axes("norm", input, dim), keepdim)


def _variance(name: str, input: Any, dim: Any, unbiased: bool | None, correction: float | None, keepdim: bool,
              dtype: Any, mask: Any) -> Any:
    """Mean squared distance to the mean, with ``count - correction`` in the denominator.

    Raises:
        ArgumentTypeError: Both ways to say the correction are used.
    """
    if unbiased is not None and correction is not None:
        raise ArgumentTypeError(f"masked.{name}", f"unbiased={unbiased}, correction={correction}",
                                "only one of both is given", "pass correction alone")
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    wanted = dtype or (input.dtype if input.dtype.category >= 2 else dtypes.float32)
    input, axes = input.to(wanted), _axes(name, input, dim)
    count = _counts(name, input, axes, True, mask)
    distance = input - _kept(name, input, mask, 0).sum(axes, True) / count
    squares = (distance * distance.conj()).real if input.dtype.is_complex else distance * distance
    total = _kept(name, squares, mask, 0).sum(axes, keepdim)
    return (total / (count.reshape(tuple(total.shape)) - less).clamp(min=0)).to(wanted)


@composite(f"masked_var{_SPREAD}", **_MASKED)
def masked_var(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
               keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Variance of the elements that the mask holds; arguments as of ``var``."""
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


@composite(f"masked_std{_SPREAD}", **_MASKED)
def masked_std(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
               keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Standard deviation of the elements that the mask holds; arguments as of ``std``."""
    return _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


@composite(f"masked_logsumexp{_SEVERAL}", **_MASKED)
def masked_logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of the sum of exponentials of the elements that the mask holds."""
    input = input if dtype is None else input.to(dtype)
    return functions.logsumexp(_kept("logsumexp", input, mask, _extreme(input.dtype, False)),
                               _axes("logsumexp", input, dim), keepdim).to(input.dtype)


@composite("masked_logaddexp(Tensor input, Tensor other, *, dtype? dtype=None, Tensor? input_mask=None, "
           "Tensor? other_mask=None) -> Tensor", **_MASKED)
def masked_logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None,
                     other_mask: Any = None) -> Any:
    """``logaddexp`` of elements, with exp(x) = 0 for those that their mask leaves out."""
    input, other = (x if dtype is None else x.to(dtype) for x in (input, other))
    return functions.logaddexp(_kept("logaddexp", input, input_mask, -math.inf),
                               _kept("logaddexp", other, other_mask, -math.inf))


# --------------------------------------------------------------------------------------------------- along a dimension


@composite(f"masked_cumsum{_ALONG}", **_MASKED)
def masked_cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Sums of the elements up to each one that the mask holds."""
    return _kept("cumsum", _summable(dtype, input), mask, 0).cumsum(dim)


@composite(f"masked_cumprod{_ALONG}", **_MASKED)
def masked_cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Products of the elements up to each one that the mask holds."""
    return _kept("cumprod", _summable(dtype, input), mask, 1).cumprod(dim)


@composite(f"masked_softmax{_ALONG}", **_MASKED)
def masked_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """``softmax`` of the elements that the mask holds; 0 for others, NaN where it holds none."""
    input = input if dtype is None else input.to(dtype)
    return functions.softmax(_kept("softmax", input, mask, _extreme(input.dtype, False)), dim)


@composite(f"masked_log_softmax{_ALONG}", **_MASKED)
def masked_log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of ``masked.softmax``."""
    input = input if dtype is None else input.to(dtype)
    return functions.log_softmax(_kept("log_softmax", input, mask, _extreme(input.dtype, False)), dim)


@composite(f"masked_softmin{_ALONG}", **_MASKED)
def masked_softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """``masked.softmax`` of the negated elements."""
    input = input if dtype is None else input.to(dtype)
    return functions.softmax(-_kept("softmin", input, mask, _extreme(input.dtype, True)), dim)


@composite("masked_normalize(Tensor input, Scalar ord, int dim, *, float eps=1e-12, dtype? dtype=None, "
           "Tensor? mask=None) -> Tensor", **_MASKED)
def masked_normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
                     mask: Any = None) -> Any:
    """Elements that the mask holds, divided by their norm along a dimension, ``eps`` at least; 0 for others."""
    input = input if dtype is None else input.to(dtype)
    norm = masked_norm(input, ord, dim, keepdim=True, mask=mask)
    return _kept("normalize", input, mask, 0) / norm.clamp(min=eps)
