"""Functions that make masked tensors."""

from __future__ import annotations

from typing import Any

from .core import MaskedTensor, as_masked_tensor


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> Any:
    """Return a masked tensor of copies of data and mask, which is a leaf; see ``MaskedTensor``."""
    return MaskedTensor(data, mask, requires_grad)


__all__ = ["as_masked_tensor", "masked_tensor"]
