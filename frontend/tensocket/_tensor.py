"""The module from which programs for PyTorch import the class of tensors."""

from __future__ import annotations

from tensocket._utils import _rebuild_from_type_v2
from tensocket_operators import Tensor

__all__ = ["Tensor", "_rebuild_from_type_v2"]
