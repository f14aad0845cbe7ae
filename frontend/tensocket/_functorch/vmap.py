"""Batches of examples; see ``func``."""

from __future__ import annotations

from tensocket._C._functorch import _add_batch_dim, _remove_batch_dim
from tensocket_core.pytree import broadcast_to_and_flatten as _broadcast_to_and_flatten
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_operators import Tensor
from tensocket_operators.transforms import chunk_vmap, restore_vmap, vmap

__all__ = ["Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_remove_batch_dim", "chunk_vmap", "restore_vmap",
           "tree_flatten", "tree_unflatten", "vmap"]
