"""Whether operators record gradients."""

from __future__ import annotations

from tensocket_core import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
