"""Names of PyTorch's tracer that programs use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensocket.compiler import (
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
from tensocket_compiler.calls.settings import graph_break

from . import backends, config, exc, testing, utils
from .backends.registry import lookup_backend, register_backend
from .decorators import (
    allow_in_graph,
    disallow_in_graph,
    error_on_graph_break,
    forbid_in_graph,
    mark_dynamic,
    mark_static,
    mark_static_address,
    maybe_mark_dynamic,
    run,
)
from .eval_frame import OptimizedModule

#: A function that need not be captured as Python; graphs contain the operators that it calls.
nonstrict_trace = allow_in_graph
skip = disable
#: Names of ``graph_break`` for smaller and larger parts of a function: it runs eagerly as a whole.
skip_frame = step_unsupported = graph_break


def patch_dynamo_config(*named: Any, **values: Any) -> Any:
    """Return ``config.patch`` with these settings: a block or decorator in which they hold."""
    return config.patch(*named, **values)


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that compiles ``f`` for its arguments and returns a report: graphs, guards and reasons.

    It calls ``f`` a few times. With further arguments here, it returns the report for these, as PyTorch's former form.
    """
    if extra_args or extra_kwargs:
        return compiled_report(f, *extra_args, **extra_kwargs)
    return functools.partial(compiled_report, f)


def optimize(backend: Any = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None,
             **ignored: Any) -> Callable[[Any], Any]:
    """Return ``compile`` as a decorator; ``nopython`` is its ``fullgraph``."""
    return lambda model: compile(model, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def optimize_assert(backend: Any = "inductor", **options: Any) -> Callable[[Any], Any]:
    """Return ``compile`` with ``fullgraph`` as a decorator."""
    return optimize(backend, nopython=True, **options)


__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "backends", "config", "disable",
           "disallow_in_graph", "error_on_graph_break", "exc", "explain", "forbid_in_graph", "graph_break",
           "is_compiling", "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address",
           "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert", "patch_dynamo_config",
           "register_backend", "reset", "run", "set_stance", "skip", "skip_frame", "step_unsupported",
           "substitute_in_graph", "testing", "utils"]
