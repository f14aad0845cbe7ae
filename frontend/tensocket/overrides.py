"""``__torch_function__`` from outside: modes, duck-typed arguments, and which functions can be overridden."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from tensocket_core import Tensor
from tensocket_core.dispatch.catalogue import names_of_functions, overridable_functions
from tensocket_core.dispatch.overrides import BaseTorchFunctionMode, TorchFunctionMode, handle, overridden

F = TypeVar("F", bound=Callable[..., Any])


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a function mode is on or one of the arguments overrides functions."""
    return overridden(*relevant_args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any,
                          **kwargs: Any) -> Any:
    """Hand a call to the mode or argument that overrides it.

    Args:
        public_api: The function that the user called.
        relevant_args: The arguments that may override it.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.

    Raises:
        ArgumentTypeError: All answered NotImplemented.
    """
    return handle(public_api.__name__, public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[F], F]:
    """Make a Python function overridable.

    Args:
        dispatcher: Given the function's arguments, returns those that may override it.
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


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor or overrides functions."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def get_overridable_functions() -> dict[str, list[Callable[..., Any]]]:
    """Functions that can be overridden, by namespace: ``torch``, ``torch.Tensor``, ``torch.nn.functional``."""
    return overridable_functions()


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name of an overridable function, like ``torch.add``; None for other functions."""
    return names_of_functions().get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function handed to ``__torch_function__`` is a method of tensors."""
    return func in get_overridable_functions()["torch.Tensor"]


__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
