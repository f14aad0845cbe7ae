"""Reductions and running totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensocket_operators as core
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

from .promotion import together

_TOTAL: Final[dict[str, DType]] = {"int": core.int64, "uint": core.uint64, "bool": core.int64}


def _total_dtype(x: Any, dtype: Any) -> DType:
    """Return the dtype of sums: the default integer of the same sign, or the dtype itself if that is wider."""
    found: DType = x.dtype if dtype is None else dtype
    return found if dtype is not None else _TOTAL.get(found.kind, found)



def _running(operator: Callable[..., Any], start: int, x: Any, axis: int | None, dtype: Any, initial: bool) -> Any:
    if axis is None:
        if x.ndim > 1:
            raise ArgumentError("cumulative_sum", f"a {x.ndim}-dimensional array without an axis",
                                "arrays of several axes are accumulated along one", "pass axis")
        axis = 0
    if x.ndim == 0:
        x = x.reshape(1)
    wanted = _total_dtype(x, dtype)
    result = operator(x.to(wanted), axis, dtype=wanted)
    if not initial:
        return result
    shape = tuple(1 if k == axis % x.ndim else n for k, n in enumerate(x.shape))
    return core.cat([core.full(shape, start, dtype=wanted, device=x.device), result], axis)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the products of the elements up to each one along an axis, optionally after the empty product 1."""
    return _running(core.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the sums of the elements up to each one along an axis, optionally after the empty sum 0."""
    return _running(core.cumsum, 0, x, axis, dtype, include_initial)


def _extreme(operator: Callable[..., Any], x: Any, axis: Any, keepdims: bool) -> Any:
    return x.clone() if axis == () else operator(x, axis, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest element."""
    return _extreme(core.amax, x, axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the smallest element."""
    return _extreme(core.amin, x, axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the arithmetic mean."""
    return x.clone() if axis == () else core.mean(x, axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the product of the elements."""
    wanted = _total_dtype(x, dtype)
    return x.to(wanted, copy=True) if axis == () else core.prod(x, axis, keepdims, dtype=wanted)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the standard deviation."""
    return core.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the sum of the elements."""
    wanted = _total_dtype(x, dtype)
    return x.to(wanted, copy=True) if axis == () else core.sum(x, axis, keepdims, dtype=wanted)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the variance."""
    if axis == ():
        return core.zeros_like(x) if correction < 1 else core.full_like(x, float("nan"))
    return core.var(x, axis, keepdim=keepdims, correction=correction)


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether no element is zero."""
    return x != 0 if axis == () else core.all(x != 0, axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether an element is not zero."""
    return x != 0 if axis == () else core.any(x != 0, axis, keepdims)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Return the n-th differences of neighbours along an axis."""
    given = [v for v in (x, prepend, append) if v is not None]
    parts = iter(together(*given))
    x = next(parts)
    return core.diff(x, n, axis, None if prepend is None else next(parts), None if append is None else next(parts))
