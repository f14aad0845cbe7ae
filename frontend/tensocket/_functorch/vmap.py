"""Batches of examples; see ``func``."""

from __future__ import annotations

from tensocket_operators.transforms import chunk_vmap, restore_vmap, vmap

__all__ = ["chunk_vmap", "restore_vmap", "vmap"]
