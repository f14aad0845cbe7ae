"""Reading of checkpoints."""

from __future__ import annotations

from .parts import _load_state_dict, load, load_state_dict

__all__: list[str] = ["_load_state_dict", "load", "load_state_dict"]
