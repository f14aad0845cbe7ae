"""The minimal core of tensocket: tensors, dispatch, autograd and the operator records."""

from __future__ import annotations

__version__ = "0.1.0"

from .tensor import Size, Tensor

__all__ = ["Size", "Tensor"]
