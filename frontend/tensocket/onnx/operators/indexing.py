"""Reads and writes at indices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensocket as torch
from tensocket_operators import Tensor

from .table import operator
from .values import axis_in, ints, number, on_host, text

_REDUCE: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def counted(index: Any, size: int) -> Any:
    """Return indices counted from the front, as int64."""
    index = index.to(torch.int64)
    return torch.where(index < 0, index + size, index)


@operator("Gather")
def gather(x: Any, index: Any, axis: int = 0) -> Any:
    """Return slices of x at indices along an axis, which the dimensions of the indices replace."""
    if not isinstance(x, Tensor):
        return on_host(lambda a, i: np.take(a, i, axis), x, index)
    dim = axis_in(axis, x.dim())
    rows = x.index_select(dim, counted(index.reshape(-1), x.shape[dim]))
    return rows.reshape(*x.shape[:dim], *index.shape, *x.shape[dim + 1:])


@operator("GatherElements")
def gather_elements(x: Any, index: Any, axis: int = 0) -> Any:
    """Return elements at indices along an axis."""
    dim = axis_in(axis, x.dim())
    return torch.gather(x, dim, counted(index, x.shape[dim]))


def _flat_places(shape: Any, index: Any) -> Any:
    """Return the places in a flat array of the index tuples along the last dimension."""
    places = torch.zeros(index.shape[:-1], dtype=torch.int64, device=index.device)
    for k in range(index.shape[-1]):
        places = places * shape[k] + counted(index[..., k], shape[k])
    return places


@operator("GatherND")
def gather_nd(x: Any, index: Any, batch_dims: int = 0) -> Any:
    """Return slices of x at index tuples; the first dimensions may be those of a batch."""
    if not isinstance(x, Tensor):
        return on_host(lambda a, i: a[tuple(np.moveaxis(i, -1, 0))], x, index)
    batch = torch.Size(x.shape[:batch_dims])
    depth = index.shape[-1]
    inner = x.shape[batch_dims:batch_dims + depth]
    rest = x.shape[batch_dims + depth:]
    places = _flat_places(inner, index.reshape(batch.numel(), -1, depth))
    places = places + torch.arange(batch.numel(), device=x.device).reshape(-1, 1) * torch.Size(inner).numel()
    rows = x.reshape(batch.numel() * torch.Size(inner).numel(), *rest).index_select(0, places.reshape(-1))
    return rows.reshape(*batch, *index.shape[batch_dims:-1], *rest)


@operator("Scatter", "ScatterElements")
def scatter_elements(x: Any, index: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    """Return x with elements replaced at indices along an axis, or combined with them."""
    dim = axis_in(axis, x.dim())
    places = counted(index, x.shape[dim])
    if text(reduction) == "none":
        return torch.scatter(x, dim, places, updates)
    return torch.scatter_reduce(x, dim, places, updates, _REDUCE[text(reduction)])


@operator("ScatterND")
def scatter_nd(x: Any, index: Any, updates: Any, reduction: str = "none") -> Any:
    """Return x with slices replaced at index tuples, or combined with them."""
    depth = index.shape[-1]
    inner, rest = torch.Size(x.shape[:depth]), x.shape[depth:]
    places = _flat_places(inner, index).reshape(-1)
    rows, values = x.reshape(inner.numel(), -1), updates.reshape(places.numel(), -1)
    places = places.reshape(-1, 1).expand(places.numel(), rows.shape[1])
    made = torch.scatter(rows, 0, places, values) if text(reduction) == "none" else torch.scatter_reduce(
        rows, 0, places, values, _REDUCE[text(reduction)])
    return made.reshape(*inner, *rest)


@operator("TensorScatter")
def tensor_scatter(past: Any, update: Any, write_indices: Any = None, axis: int = -2, mode: str = "linear") -> Any:
    """Return a cache with an update at each example's place along an axis; ``circular`` wraps around."""
    dim = axis_in(axis, past.dim())
    steps = torch.arange(update.shape[dim], device=past.device).reshape(1, -1)
    starts = torch.zeros(past.shape[0], 1, dtype=torch.int64, device=past.device) if write_indices is None else (
        write_indices.to(torch.int64).reshape(-1, 1))
    places = starts + steps
    if text(mode) == "circular":
        places = places % past.shape[dim]
    shape = [past.shape[0]] + [update.shape[dim] if d == dim else 1 for d in range(1, past.dim())]
    return torch.scatter(past, dim, places.reshape(shape).expand(update.shape), update)


@operator("OneHot", host=(1,))
def one_hot(index: Any, depth: Any, values: Any, axis: int = -1) -> Any:
    """Return values[1] at each index along a new axis, and values[0] elsewhere; nowhere for indices out of range."""
    count = int(number(depth))
    dim = axis_in(axis, index.dim() + 1)
    places = torch.arange(count, device=index.device)
    wanted = index.to(torch.int64).unsqueeze(dim)
    wanted = torch.where(wanted < 0, wanted + count, wanted)
    shape = [1] * (index.dim() + 1)
    shape[dim] = count
    return torch.where(places.reshape(shape) == wanted, values[1], values[0])


@operator("Compress")
def compress(x: Any, condition: Any, axis: int | None = None) -> Any:
    """Return the slices, or elements, at which the condition holds."""
    places = torch.nonzero(condition).reshape(-1)
    return x.reshape(-1).index_select(0, places) if axis is None else x.index_select(axis, places)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def extract_features(x: Any, index: Any) -> Any:
    """Return elements along the last dimension."""
    places = torch.tensor(ints(index), device=x.device)
    found = x.index_select(x.dim() - 1, places)
    return found.reshape(1, -1) if x.dim() == 1 else found
