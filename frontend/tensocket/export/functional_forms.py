"""Writes as new tensors: the form of the written one, and assignments at an index."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ExportError
from tensocket_operators import Tensor


def formed(value: Any, target: Any) -> Any:
    """Return a value with the dtype and shape of another tensor."""
    if value.dtype is not target.dtype or value.device != target.device:
        value = value.to(target.device, target.dtype)
    return value if value.shape == target.shape else value.expand(target.shape)


def put(target: Any, index: tuple[Any, ...], value: Any) -> Any:
    """Return a tensor with other elements at an index of slices and integers, or of tensors."""
    if any(x is None for x in index) or any(isinstance(x, (Tensor, list)) for x in index):
        if all(isinstance(x, Tensor) for x in index):
            filled = value if isinstance(value, Tensor) else target.new_full((), value)
            return target.index_put(index, filled.to(target.dtype))
        raise ExportError("run_decompositions", f"an assignment at {[type(x).__name__ for x in index]}",
                          "positions of assignments are slices and integers, or tensors", "use one kind")
    value = value if isinstance(value, Tensor) else target.new_full((), value)
    if ... in index:
        at = index.index(...)
        index = (*index[:at], *[slice(None)] * (target.dim() - len(index) + 1), *index[at + 1:])
    return _put_at(target, index, 0, value)


def _put_at(target: Any, index: tuple[Any, ...], dim: int, value: Any) -> Any:
    """Return a tensor with other elements at the positions of its dimensions from one on."""
    while index and index[0] == slice(None):
        index, dim = index[1:], dim + 1
    if not index:
        return formed(value, target)
    first, rest = index[0], index[1:]
    if isinstance(first, slice):
        bounds = (dim, first.start, first.stop, 1 if first.step is None else first.step)
        part = target[(*[slice(None)] * dim, first)]
        return target.slice_scatter(_put_at(part, rest, dim + 1, value), *bounds)
    part = target.select(dim, first)
    return target.select_scatter(_put_at(part, rest, dim, value), dim, first)
