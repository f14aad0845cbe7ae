"""Conversion of checkpoints."""

from __future__ import annotations

from .parts import _EmptyStateDictLoadPlanner, dcp_to_torch_save, torch_save_to_dcp

__all__: list[str] = ["_EmptyStateDictLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]
