"""Where PyTorch's programs find the class of tensors."""

from __future__ import annotations

from tensocket_operators import Tensor

__all__ = ["Tensor"]
