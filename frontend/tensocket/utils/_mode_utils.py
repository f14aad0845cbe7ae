"""Helpers for modes, as programs for PyTorch import them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket._C import _DisableTorchDispatch as no_dispatch


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Whether all modes are the same object."""
    return all(mode == modes[0] for mode in modes)


__all__ = ["all_same_mode", "no_dispatch"]
