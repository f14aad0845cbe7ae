"""Where PyTorch's programs find the class of tensors."""

from __future__ import annotations

from tensocket_core import Tensor

__all__ = ["Tensor"]
