"""Modules whose parameters are divided among processes; a single process has all of them."""

from __future__ import annotations

from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = ["FullyShardedDataParallel"]
