"""The parts of the loader: collation, fetching, workers, pinning."""

from __future__ import annotations

from . import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]
