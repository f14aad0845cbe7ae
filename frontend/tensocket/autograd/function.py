"""Functions with a custom backward."""

from __future__ import annotations

from tensocket_operators.differentiation.function import Function, FunctionCtx, once_differentiable

#: A name from before functions could declare which arguments they change.
InplaceFunction = Function

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
