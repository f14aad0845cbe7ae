"""Collectives that return their results."""

from __future__ import annotations

from typing import Any

from tensocket_operators import Tensor

from . import _operators as _operators


class AsyncCollectiveTensor(Tensor):
    """The class of results of collectives that still run. The only process has its results at once, so none is made."""


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """Return the sum over ranks: the tensor of the only rank."""
    return self.clone()


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """Return the concatenated tensors of all ranks: that of the only rank."""
    return self.clone()


def reduce_scatter_tensor(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """Return this rank's part of the sum: the tensor of the only rank."""
    return self.clone()


def wait_tensor(tensor: Any) -> Any:
    """Return the tensor, which is available at once."""
    return tensor


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """Return the tensor of rank ``src``, which is the only rank."""
    return self.clone()


def all_to_all_single(self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = "") -> Any:
    """Return the parts that all ranks have for this one: the tensor of the only rank."""
    return self.clone()


#: Gradients flow through copies.
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
