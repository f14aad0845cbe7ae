"""Operators of Python functions by PyTorch's former interface; ``torch.library.custom_op`` is the present one."""

from __future__ import annotations

from . import impl as impl
