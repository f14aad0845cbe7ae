"""Custom operators by name, by PyTorch's old interface; ``torch.library`` is the current one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensocket_operators.library import get_ctx

from ._custom_op.checks import parse_qualname, validate_namespace
from ._custom_op.impl import CustomOp, define, find_custom_op
from ._custom_op.impl import custom_op as _from_function

Function = Callable[..., Any]


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Define an operator by a schema, or by a function with annotations (also a decorator); return the function.

    Raises:
        ArgumentError: The name, the function or the schema is not allowed.
    """
    validate_namespace(parse_qualname(qualname)[0])
    if isinstance(func_or_schema, str):
        define(qualname, func_or_schema.strip())
        return None

    def make(function: Function) -> Function:
        _from_function(qualname)(function)
        return function

    return make if func_or_schema is None else make(func_or_schema)


def _registering(register: Callable[[Function], Function], func: Function | None) -> Any:
    return register if func is None else register(func)


def impl(qualname: str, *, device_types: str | Iterable[str] = ("cpu", "cuda"), func: Function | None = None) -> Any:
    """Register the kernel of devices; also a decorator."""
    return _registering(_find(qualname).impl(device_types), func)


def impl_abstract(qualname: str, *, func: Function | None = None) -> Any:
    """Register the shape function; also a decorator."""
    return _registering(_find(qualname).impl_abstract(), func)


def impl_save_for_backward(qualname: str, *, func: Function | None = None) -> Any:
    """Register ``save(inputs, output)``, whose result is an argument of ``backward``; also a decorator."""
    return _registering(_find(qualname).impl_save_for_backward(), func)


def impl_backward(qualname: str, output_differentiability: Any = None, *, func: Function | None = None) -> Any:
    """Register ``backward(ctx, saved, *grads)``, which returns a dict of gradients by argument; also a decorator."""
    return _registering(_find(qualname).impl_backward(output_differentiability), func)


def _find(qualname: str) -> CustomOp:
    return find_custom_op(qualname, also_check_torch_library=True)


def _destroy(qualname: str) -> None:
    """Delete an operator."""
    find_custom_op(qualname)._destroy()


__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract", "impl_backward", "impl_save_for_backward"]
