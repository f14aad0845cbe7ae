"""Gradients against differences."""

from __future__ import annotations

from tensocket_core.autograd.former_jacobians import get_analytical_jacobian, get_numerical_jacobian
from tensocket_core.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian", "gradcheck", "gradgradcheck"]
