"""Batches of examples; see ``func``. Programs with containers of their own build on the functions for one tensor."""

from __future__ import annotations

from typing import Any

from tensocket._C._functorch import _add_batch_dim, _remove_batch_dim, is_batchedtensor
from tensocket.errors import ArgumentError
from tensocket_core.pytree import broadcast_to_and_flatten as _broadcast_to_and_flatten
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_core.transforms.vmap import named as _get_name
from tensocket_operators import Tensor
from tensocket_operators.transforms import chunk_vmap, restore_vmap, vmap


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """Return the batch of a result, with its dimension at ``out_dim``; None for results that all examples share.

    Raises:
        ArgumentError: The result is not a tensor, or is one of a batch although ``out_dim`` is None.
    """
    if out_dim is None:
        if isinstance(batched_output, Tensor) and is_batchedtensor(batched_output):
            raise ArgumentError("vmap", f"out_dim None for a result of {name}", "can not return a BatchedTensor when "
                                "out_dim is None", "pass a dimension")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ArgumentError("vmap", f"a {type(batched_output).__name__} returned by {name}", "vmap must only return "
                            "Tensors", "return tensors")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


__all__ = ["Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_get_name", "_maybe_remove_batch_dim",
           "_remove_batch_dim", "chunk_vmap", "restore_vmap", "tree_flatten", "tree_unflatten", "vmap"]
