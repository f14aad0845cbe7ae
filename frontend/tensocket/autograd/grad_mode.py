"""Modes that decide whether operators record gradients."""

from __future__ import annotations

from tensocket_operators import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensocket_operators.differentiation.multithreading import is_multithreading_enabled, set_multithreading_enabled

__all__ = ["enable_grad", "inference_mode", "is_multithreading_enabled", "no_grad", "set_grad_enabled",
           "set_multithreading_enabled"]
