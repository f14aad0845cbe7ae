"""Writing of checkpoints."""

from __future__ import annotations

from .parts import async_save, save, save_state_dict

__all__: list[str] = ["async_save", "save", "save_state_dict"]
