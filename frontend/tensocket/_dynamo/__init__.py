"""Names of PyTorch's tracer that programs use; settings are stored."""

from __future__ import annotations

import functools
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
from tensocket_compiler.calls.report import explain as compiled_report

from . import config
from .eval_frame import OptimizedModule

#: Markers for functions that may, must not or need not be captured; they return the function.
disallow_in_graph = forbid_in_graph = nonstrict_trace = allow_in_graph
run = skip = disable


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that compiles ``f`` for its arguments and returns a report: graphs, guards and reasons.

    It calls ``f`` a few times. With further arguments here, it returns the report for these, as PyTorch's former form.
    """
    if extra_args or extra_kwargs:
        return compiled_report(f, *extra_args, **extra_kwargs)
    return functools.partial(compiled_report, f)


def optimize(backend: Any = "inductor", **options: Any) -> Callable[[Any], Any]:
    """Return ``compile`` as a decorator."""
    return lambda model: compile(model, backend=backend)


def graph_break(msg: str = "") -> None:
    """Do nothing: no graph exists."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Do nothing: all sizes may change."""


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: no code depends on sizes."""


maybe_mark_dynamic = mark_dynamic
mark_static_address = mark_static

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
           "explain", "forbid_in_graph", "graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static",
           "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "reset", "run", "set_stance",
           "skip", "substitute_in_graph"]
