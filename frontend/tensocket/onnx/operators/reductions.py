"""Reductions, and operators that order elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as torch

from .table import named, operator, results
from .values import axes_in, axis_in, ints, number, on_host


def _reduced(name: str, function: Callable[[Any, list[int], bool], Any]) -> None:
    @operator(name, host=(1,))
    def reduce(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        given = ints(axes) or []
        if not given and noop_with_empty_axes:
            return function(x.unsqueeze(0), [0], False)  # of each element alone
        dims = axes_in(given or None, x.dim())
        if not dims:
            return function(x.unsqueeze(0), [0], False)
        return function(x, dims, bool(keepdims))

    named(reduce, name)


def _sum(x: Any, dims: list[int], keep: bool) -> Any:
    return torch.sum(x, dims, keep, dtype=x.dtype)


def _product(x: Any, dims: list[int], keep: bool) -> Any:
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim, keep, dtype=x.dtype)
    return x


def _extreme(name: str, start: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return amax or amin, with the dtype's bound for no elements."""

    def compute(x: Any, dims: list[int], keep: bool) -> Any:
        if 0 in [x.shape[d] for d in dims]:
            shape = [1 if d in dims else n for d, n in enumerate(x.shape)]
            made = torch.full(shape, start(x.dtype), dtype=x.dtype, device=x.device)
            return made if keep else made.squeeze(tuple(dims))
        if x.dtype is torch.bool:
            return compute(x.to(torch.uint8), dims, keep).to(torch.bool)
        return getattr(torch, name)(x, dims, keep)

    return compute


def _bound(sign: int) -> Callable[[Any], Any]:
    def find(dtype: Any) -> Any:
        if dtype is torch.bool:
            return sign > 0
        if dtype.is_floating_point:
            return sign * float("inf")
        return torch.iinfo(dtype).max if sign > 0 else torch.iinfo(dtype).min

    return find


def _mean(x: Any, dims: list[int], keep: bool) -> Any:
    if x.dtype.is_floating_point:
        return torch.mean(x, dims, keep)
    return torch.div(_sum(x, dims, keep), torch.Size([x.shape[d] for d in dims]).numel(), rounding_mode="trunc")


def _log_sum_exp(x: Any, dims: list[int], keep: bool) -> Any:
    return torch.logsumexp(x if x.dtype.is_floating_point else x.to(torch.float64), dims, keep).to(x.dtype)


def _root(x: Any, dims: list[int], keep: bool) -> Any:
    squares = _sum(x * x, dims, keep)
    return torch.sqrt(squares if x.dtype.is_floating_point else squares.to(torch.float64)).to(x.dtype)


_reduced("ReduceSum", _sum)
_reduced("ReduceProd", _product)
_reduced("ReduceMean", _mean)
_reduced("ReduceMax", _extreme("amax", _bound(-1)))
_reduced("ReduceMin", _extreme("amin", _bound(1)))
_reduced("ReduceL1", lambda x, dims, keep: _sum(torch.abs(x), dims, keep))
_reduced("ReduceL2", _root)
_reduced("ReduceSumSquare", lambda x, dims, keep: _sum(x * x, dims, keep))
_reduced("ReduceLogSum", lambda x, dims, keep: torch.log(_sum(x, dims, keep)).to(x.dtype))
_reduced("ReduceLogSumExp", _log_sum_exp)


@operator("ArgMax")
def argmax(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """Return the index of the first, or last, largest element along an axis."""
    if select_last_index:
        return x.shape[axis] - 1 - torch.argmax(x.flip(axis), axis, bool(keepdims))
    return torch.argmax(x, axis, bool(keepdims))


@operator("ArgMin")
def argmin(x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    """Return the index of the first, or last, smallest element along an axis."""
    if select_last_index:
        return x.shape[axis] - 1 - torch.argmin(x.flip(axis), axis, bool(keepdims))
    return torch.argmin(x, axis, bool(keepdims))


@operator("TopK", host=(1,))
def top_k(x: Any, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """Return the k largest or smallest elements along an axis, and their indices; equal ones by index."""
    dim, count = axis_in(axis, x.dim()), int(number(k))
    if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
        order = on_host(lambda a: np.argsort(~a if largest else a, dim, kind="stable"), x)
        values = on_host(lambda a, i: np.take_along_axis(a, i, dim), x, order)
    else:
        values, order = torch.sort(x, dim, descending=bool(largest), stable=True)
    return values.narrow(dim, 0, count), order.narrow(dim, 0, count)


@operator("Unique", counts=True)
def unique(x: Any, axis: int | None = None, sorted: int = 1, outputs: int = 1) -> Any:
    """Return distinct elements or slices, their first places, places of elements among them, and counts."""

    def find(a: Any) -> Any:
        values, first, inverse, counts = np.unique(a, True, True, True, axis=axis, equal_nan=False)
        inverse = inverse.reshape(-1)
        if not sorted:
            order = np.argsort(first)
            rank = np.argsort(order)
            values = values[order] if axis is None else np.take(values, order, axis)
            first, inverse, counts = first[order], rank[inverse], counts[order]
        return values, first, inverse, counts

    found = [on_host(lambda a, k=k: find(a)[k], x) for k in range(outputs)]
    return results(found, outputs)


@operator("NonZero")
def nonzero(x: Any) -> Any:
    """Return the indices of elements other than 0, a row for each dimension."""
    return torch.nonzero(x).t().contiguous()
