"""Helpers for training: data loading, hooks, progress bars."""

from __future__ import annotations

from tensocket_operators.interop.swapping import swap_tensors

from . import _python_dispatch as _python_dispatch
from . import _pytree as _pytree
from . import checkpoint, data, deterministic, dlpack, hooks
from .progress import progress

__all__ = ["checkpoint", "data", "deterministic", "dlpack", "hooks", "progress", "swap_tensors"]
