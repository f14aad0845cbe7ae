"""Reverse-mode automatic differentiation, with PyTorch's module paths."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensocket_core.autograd.inspection import SavedTensor
from tensocket_operators.autograd import Function, backward, detect_anomaly, grad, set_detect_anomaly

from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, variable
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable


def __getattr__(name: str) -> Any:
    """Import a module that few programs need, at its first use."""
    if name in ("profiler", "profiler_util"):
        return import_module(f"tensocket.autograd.{name}")
    if name in ("kineto_available", "_profiler_enabled"):
        return getattr(import_module("tensocket.profiler"), name)
    raise AttributeError(f"module 'tensocket.autograd' has no attribute {name!r}")


__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]
