"""Compilation of functions and modules to graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tensocket_compiler.calls.function import reset

from .backends import list_backends
from .compiling import compile, eager

_Value = TypeVar("_Value")


def is_compiling() -> bool:
    """Return False: nothing is being compiled."""
    return False


is_dynamo_compiling = is_compiling
is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function itself, which is not compiled; without a function, return a decorator.

    Args:
        fn: A function.
        recursive: Accepted as in PyTorch.
        reason: The reason.
    """
    return (lambda function: function) if fn is None else fn


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
