"""Custom operators by PyTorch's old interface; ``torch.library.custom_op`` is the current one."""

from __future__ import annotations

from . import impl as impl
