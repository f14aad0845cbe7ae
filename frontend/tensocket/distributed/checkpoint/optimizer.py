"""State of optimizers in checkpoints."""

from __future__ import annotations

from .parts import load_sharded_optimizer_state_dict

__all__: list[str] = ["load_sharded_optimizer_state_dict"]
