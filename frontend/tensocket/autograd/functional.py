"""Derivatives of functions as functions."""

from __future__ import annotations

from tensocket_operators.differentiation.functional import hessian, hvp, jacobian, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
