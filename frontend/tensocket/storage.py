"""The memory of tensors."""

from __future__ import annotations

from tensocket_core import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
