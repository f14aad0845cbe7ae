"""Helpers for training: data loading, hooks, progress bars."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensocket_operators.interop.swapping import swap_tensors

from . import _python_dispatch as _python_dispatch
from . import _pytree as _pytree
from . import checkpoint, deterministic, dlpack, hooks
from .progress import progress

if TYPE_CHECKING:
    from . import data


def __getattr__(name: str) -> Any:
    """Import ``data`` with its first use: programs that run saved models need no loaders."""
    if name == "data":
        return import_module(f"{__name__}.data")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["checkpoint", "data", "deterministic", "dlpack", "hooks", "progress", "swap_tensors"]
