"""Transforms; see ``func``."""

from __future__ import annotations

from tensocket_operators.transforms import chunk_vmap, grad, grad_and_value, vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]
