"""Helpers for ``__torch_function__``: modes, duck-typed arguments, and the list of overridable functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from inspect import signature
from typing import Any, TypeVar

from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.overrides import (
    NOWRAP,
    BaseTorchFunctionMode,
    TorchFunctionMode,
    call_torch_function,
    overridden,
)
from tensocket_core.keys import AUTOGRAD
from tensocket_operators import Tensor
from tensocket_operators.catalogue import names_of_functions
from tensocket_plugins.contract.errors import ArgumentTypeError

F = TypeVar("F", bound=Callable[..., Any])


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a function mode is active or one of the arguments overrides functions.

    Raises:
        ArgumentTypeError: ``relevant_args`` is not a sequence.
    """
    if not isinstance(relevant_args, Iterable):
        raise ArgumentTypeError("has_torch_function", f"a {type(relevant_args).__name__}", "expected a sequence of "
                                "arguments", "pass a tuple")
    return overridden(*relevant_args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any,
                          **kwargs: Any) -> Any:
    """Pass a call to the mode or argument that overrides it.

    Args:
        public_api: The function that the user called.
        relevant_args: The arguments that may override it.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.

    Raises:
        ArgumentTypeError: All of them returned NotImplemented.
    """
    return call_torch_function(public_api.__name__, public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[F], F]:
    """Make a Python function overridable.

    Args:
        dispatcher: A function from the arguments to those that may override the call.
    """
    def decorate(function: F) -> F:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate


def has_torch_function_unary(obj: Any) -> bool:
    """Whether a value overrides functions."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs: Any) -> bool:
    """Whether one of the values overrides functions."""
    return has_torch_function(objs)


def _assert(condition: Any, message: Any) -> None:
    """Assert as a function, which classes with ``__torch_function__`` can override.

    Raises:
        AssertionError: ``condition`` is false.
    """
    if type(condition) is not Tensor and has_torch_function((condition,)):
        handle_torch_function(_assert, (condition,), condition, message)
    elif not condition:
        raise AssertionError(message)


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor or overrides functions."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def _namespaces() -> dict[str, Any]:
    """Return the namespaces of overridable functions by name; the first one that contains a function determines its
    name.
    """
    import tensocket as torch

    return {"torch": torch, "torch.functional": torch.functional, "torch.nn.functional": torch.nn.functional,
            "torch.linalg": torch.linalg, "torch.fft": torch.fft, "torch.special": torch.special,
            "torch.Tensor": Tensor}


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:  # also of views and tuples of such values, whose classes have a hash
        return False
    return True


@cache
def _catalogue() -> tuple[dict[str, list[Callable[..., Any]]], dict[Any, str]]:
    """Return the overridable functions by the name of their namespace, and their own names."""
    known = names_of_functions()
    listed: dict[str, list[Callable[..., Any]]] = {}
    names: dict[Any, str] = {}
    for space, owner in _namespaces().items():
        for name in dir(owner):
            function: Any = getattr(owner, name, None)
            if _hashable(function) and function in known:
                listed.setdefault(space, []).append(function)
                names.setdefault(function, f"{space}.{name}")
    return listed, {**known, **names}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the overridable functions by namespace: the modules ``torch``, ``torch.fft`` ..., and ``Tensor``."""
    owners = _namespaces()
    return {owners[space]: list(functions) for space, functions in _catalogue()[0].items()}


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the public functions of these namespaces that cannot be overridden."""
    found: set[Callable[..., Any]] = set()
    for owner in _namespaces().values():
        for name in dir(owner):
            value: Any = getattr(owner, name, None)
            if callable(value) and _hashable(value) and value not in _catalogue()[1]:
                found.add(value)
    return found


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return, for every overridable function, a function with the same signature that returns -1."""
    return {function: _minus_one(function) for functions in _catalogue()[0].values() for function in functions}


def _minus_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def override(*args: Any, **kwargs: Any) -> int:
        return -1

    override.__signature__ = signature(function)  # type: ignore[attr-defined]
    return override


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose results ``Tensor.__torch_function__`` does not wrap."""
    return NOWRAP


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the name of an overridable function, like ``torch.add``; None for other functions."""
    return _catalogue()[1].get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function passed to ``__torch_function__`` is a method of tensors and not of a module."""
    return str(resolve_name(func)).startswith("torch.Tensor.")


def _get_current_function_mode() -> Any:
    """Return the innermost function mode, or None."""
    return STATE.function_modes[-1] if STATE.function_modes else None


def _get_current_function_mode_stack() -> list[Any]:
    """Return the active function modes, innermost last."""
    return list(STATE.function_modes)


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Enable the recording of gradients within ``__torch_dispatch__``, as in the caller."""
    before = STATE.exclude if STATE.before_dispatch is None else STATE.before_dispatch
    with thread_state(exclude=STATE.exclude & ~AUTOGRAD | before & AUTOGRAD):
        yield


__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
