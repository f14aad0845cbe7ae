"""Gradients against differences."""

from __future__ import annotations

from tensocket_core.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
