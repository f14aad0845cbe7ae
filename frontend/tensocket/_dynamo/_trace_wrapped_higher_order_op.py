"""Modes under which functions of one example are mapped over batches."""

from __future__ import annotations

from typing import Any

from tensocket.overrides import TorchFunctionMode


class TransformGetItemToIndex(TorchFunctionMode):
    """A mode for ``x[i]`` with examples of indices; such an index is taken as a tensor anyway."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


__all__ = ["TransformGetItemToIndex"]
