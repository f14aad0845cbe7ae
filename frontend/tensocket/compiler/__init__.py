"""Compilation of functions and modules to graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tensocket.nn import Module
from tensocket_compiler.calls.function import reset
from tensocket_compiler.calls.intercept import run_disabled
from tensocket_compiler.calls.report import Report
from tensocket_compiler.calls.report import report as compiled_report

from .compiling import BACKENDS, OptimizedModule, compile, eager, wrapped

_Value = TypeVar("_Value")


def is_compiling() -> bool:
    """Return False: nothing is being compiled."""
    return False


is_dynamo_compiling = is_compiling
is_exporting = is_compiling


class _Disabled:
    """A function that runs as Python and nothing else."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return run_disabled(self.function, args, kwargs)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function or module that runs as Python, also inside of a compiled function; or return a decorator.

    A compiled function that calls it is no graph as a whole; its modules and optimizers' steps are.

    Args:
        fn: A function or a module; classes are returned unchanged.
        recursive: Whether nothing that it calls is compiled either.
        reason: The reason.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, type) or not callable(fn):
        return fn
    run = _Disabled(fn) if recursive else fn
    made = OptimizedModule(fn, run) if isinstance(fn, Module) else eager(fn) if run is fn else wrapped(fn, run)
    vars(made)["_torchdynamo_disable"] = True
    return made


def allow_in_graph(fn: _Value) -> _Value:
    """Return the function, or functions, unchanged."""
    return fn


def assume_constant_result(fn: _Value) -> _Value:
    """Return the function itself."""
    return fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[_Value], _Value]:
    """Return a decorator that leaves its function unchanged: functions are called, not captured."""
    return lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that calls ``fn`` with arrays and converts its arrays to tensors."""
    import numpy as np

    import tensocket
    from tensocket_core.pytree import tree_map

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        given, named = tree_map(lambda x: x.numpy() if isinstance(x, tensocket.Tensor) else x, (args, kwargs))
        return tree_map(lambda x: tensocket.as_tensor(x) if isinstance(x, np.ndarray) else x, fn(*given, **named))

    return call


def cudagraph_mark_step_begin() -> None:
    """Do nothing: no graphs of kernels are cached."""


def list_backends(exclude_tags: tuple[str, ...] = ("debug", "experimental")) -> list[str]:
    """Return the names of backends; those that call eagerly are for debugging."""
    return [name for name, makes_graphs in BACKENDS.items() if makes_graphs or "debug" not in exclude_tags]


def report(compiled: Callable[..., Any]) -> Report | None:
    """Return what became of the calls of a function that ``compile`` returned; None if none of them could be a graph.

    Args:
        compiled: The function, or the module.
    """
    run = vars(compiled).get("_compiled")
    return None if run is None else compiled_report(run)


class set_stance:
    """Accept a setting of how functions are compiled, permanently or for a block; they run eagerly."""

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
                 force_backend: Any = None) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Use it as a decorator."""
        return eager(function)


__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
           "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
           "substitute_in_graph", "wrap_numpy"]
