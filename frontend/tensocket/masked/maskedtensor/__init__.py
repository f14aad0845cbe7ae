"""Masked tensors and their rules."""

from __future__ import annotations

from . import binary, conversions, normalisation, passthrough, reductions, unary
from .core import MaskedTensor, is_masked_tensor
from .creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "binary", "conversions", "is_masked_tensor", "masked_tensor",
           "normalisation", "passthrough", "reductions", "unary"]
