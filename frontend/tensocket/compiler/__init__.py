"""Compilation of functions and modules to graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tensocket.nn import Module
from tensocket_compiler.calls.function import reset
from tensocket_compiler.calls.settings import Disabled, is_compiling
from tensocket_plugins.contract.value_observers import is_exporting

from . import config
from .backends import get_default_backend, list_backends, set_default_backend
from .compiling import OptimizedModule, compile, wrapped
from .handle import Handle, compiled
from .stance import set_stance

_Value = TypeVar("_Value")
is_dynamo_compiling = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """Return the function, kept out of graphs: a compiled function that calls it runs eagerly; or a decorator.

    Args:
        fn: A function or a module.
        recursive: Whether compiled functions that it calls run eagerly, too.
        reason: The reason, for readers of the program.
        wrapping: Accepted as in PyTorch.

    Raises:
        ArgumentTypeError: ``fn`` is not callable.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, Module):
        return OptimizedModule(fn, Disabled(fn, recursive, reason))
    call = wrapped(fn, Disabled(fn, recursive, reason) if callable(fn) else fn)
    if call is not fn:
        call._torchdynamo_disable = True  # type: ignore[attr-defined]
        call._torchdynamo_disable_recursive = recursive  # type: ignore[attr-defined]
    return call


def allow_in_graph(fn: _Value) -> _Value:
    """Return the function, or functions, unchanged."""
    return fn


def assume_constant_result(fn: _Value) -> _Value:
    """Return the function itself."""
    return fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False,
                        skip_signature_check: bool = False, is_embedded_type: bool = False
                        ) -> Callable[[_Value], _Value]:
    """Return a decorator that leaves its function unchanged: functions are called, not captured."""
    return lambda function: function


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """Return the function itself, or a decorator that does: calls of it are captured with those around."""
    return (lambda function: function) if fn is None else fn


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


__all__ = [
    "Handle",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compiled",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]
