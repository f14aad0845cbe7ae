"""Functions with a backward of their own."""

from __future__ import annotations

from tensocket_core.autograd.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
