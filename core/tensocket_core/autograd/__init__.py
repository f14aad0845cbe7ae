"""Reverse-mode automatic differentiation."""

from __future__ import annotations

from . import functional, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .differentiate import backward, grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function",
    "backward",
    "detect_anomaly",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "set_detect_anomaly",
]
