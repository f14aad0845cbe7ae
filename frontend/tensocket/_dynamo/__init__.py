"""Names of PyTorch's tracer that programs use: nothing is traced, and what they set is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.compiler import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)

from . import config
from .eval_frame import OptimizedModule

#: Functions that may, must not or need not be captured, as they are.
disallow_in_graph = forbid_in_graph = nonstrict_trace = allow_in_graph
run = skip = disable


def optimize(backend: Any = "inductor", **options: Any) -> Callable[[Any], Any]:
    """Return a decorator with which functions and modules run eagerly, as ``compile`` says."""
    return lambda model: compile(model, backend=backend)


def graph_break(msg: str = "") -> None:
    """Do nothing: no graph exists that could break."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Do nothing: sizes may always change."""


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: code is not made for certain sizes."""


maybe_mark_dynamic = mark_dynamic
mark_static_address = mark_static

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
           "forbid_in_graph", "graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static",
           "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "reset", "run", "set_stance",
           "skip", "substitute_in_graph"]
