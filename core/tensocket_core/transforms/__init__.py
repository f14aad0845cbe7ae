"""Function transforms: gradients, tangents and batches, nested in any order."""

from __future__ import annotations

from .batching import register_batching_rule
from .forward import jvp
from .reverse import grad, grad_and_value, vjp
from .tangents import register_forward_rule
from .vmap import chunk_vmap, restore_vmap, vmap

__all__ = [
    "chunk_vmap",
    "grad",
    "grad_and_value",
    "jvp",
    "register_batching_rule",
    "register_forward_rule",
    "restore_vmap",
    "vjp",
    "vmap",
]
