"""Transforms; see ``func``."""

from __future__ import annotations

from tensocket._functorch.vmap import chunk_vmap, vmap
from tensocket_operators.transforms import grad, grad_and_value

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]
