"""Tensors, dispatch, autograd and operator records of tensocket."""

from __future__ import annotations

__version__ = "0.1.0"
