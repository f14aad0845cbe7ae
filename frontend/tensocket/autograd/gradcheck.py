"""Comparison of gradients with finite differences."""

from __future__ import annotations

from tensocket_operators.differentiation.former_jacobians import get_analytical_jacobian, get_numerical_jacobian
from tensocket_operators.differentiation.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian", "gradcheck", "gradgradcheck"]
