"""Collectives through which gradients flow; for one process, they are the identity."""

from __future__ import annotations

from typing import Any

from .distributed_c10d import ReduceOp, get_world_size


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the sum over ranks: the tensor of the only rank."""
    get_world_size(group)
    return tensor.view_as(tensor)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return the tensors of all ranks: that of the only rank."""
    return (all_reduce(tensor, group=group),)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return the tensor of rank ``src``, which is the only rank."""
    return all_reduce(tensor, group=group)


def reduce(tensor: Any, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the sum over ranks: the tensor of the only rank."""
    return all_reduce(tensor, op, group)


__all__ = ["all_gather", "all_reduce", "broadcast", "reduce"]
