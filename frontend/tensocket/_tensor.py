"""The module from which programs for PyTorch import the class of tensors."""

from __future__ import annotations

from tensocket_operators import Tensor

__all__ = ["Tensor"]
