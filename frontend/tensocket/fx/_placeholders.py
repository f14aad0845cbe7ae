"""Placeholders of a recorded function: its arguments, and the parts of structures that are given as examples."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from tensocket.overrides import _assert
from tensocket_core.pytree import tree_map
from tensocket_operators import Tensor

from .node import base_types

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer

HAS_VARSTUFF: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """A placeholder in the structure of a concrete argument."""

    def __repr__(self) -> str:
        return "PH"


PH: Final = PHBase()


class PHWithMeta(PHBase):
    """A placeholder whose attributes the node gets as metadata.

    Args:
        ph_key: Entry of ``node.meta["ph_key"]``.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def _transfer_attrs(fr: Any, to: Any) -> None:
    """Copy public attributes to an object that does not have them."""
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and name not in to.__dict__:
            setattr(to, name, value)


def _assert_is_none(value: Any, msg: str) -> None:
    """Assert that an argument has the value None, for which a program was recorded.

    Raises:
        AssertionError: It does not.
    """
    if value is not None:
        raise AssertionError(msg)


def make_placeholder(tracer: Tracer, name: str, concrete: dict[str, Any], signature: inspect.Signature,
                     function: Callable[..., Any]) -> Any:
    """Record one argument.

    Args:
        tracer: The tracer.
        name: The argument, with its stars.
        concrete: Values and structures of some arguments.
        signature: The function's signature, for defaults.
        function: The function, for annotations.

    Returns:
        A proxy, or for a concrete argument its value with proxies for ``PH``.
    """
    if name in concrete:
        return _concrete(tracer, name, concrete[name], signature)
    default: tuple[Any, ...] = ()
    if not name.startswith("*"):
        parameter = signature.parameters[name]
        default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
    return tracer.create_proxy("placeholder", name, default, {},
                               type_expr=getattr(function, "__annotations__", {}).get(name))


def _concrete(tracer: Tracer, name: str, value: Any, signature: inspect.Signature) -> Any:
    """Record one placeholder per leaf of a concrete argument; those that are values are checked in each call."""
    count = 0

    def record(leaf: Any) -> Any:
        nonlocal count
        count += 1
        parameter = signature.parameters[name]
        default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        proxy = tracer.create_proxy("placeholder", f"{name}_{count}", default, {})
        if isinstance(leaf, PHBase):
            if isinstance(leaf, PHWithMeta):
                _transfer_attrs(leaf, proxy.node)
            return proxy
        given = f"{name} has been specialized to have value {leaf} but got another value"
        if leaf is None:
            tracer.create_proxy("call_function", _assert_is_none, (proxy, given), {})
        elif isinstance(leaf, base_types) and not isinstance(leaf, Tensor):
            tracer.create_proxy("call_function", _assert, (proxy == leaf, given), {})
        else:
            warnings.warn(f"Was not able to add assertion to guarantee correct input {name} to specialized function. "
                          "It is up to the user to make sure that your inputs match the inputs you specialized the "
                          "function with.", stacklevel=2)
        return leaf

    return tree_map(record, value)


def _patch_function(fn: Callable[..., Any], nargs: int) -> Callable[..., Any]:
    """Return a function whose collecting and keyword-only parameters are passed as ordinary ones.

    Args:
        fn: The function.
        nargs: Number of all its parameters.
    """
    original: Any = inspect.unwrap(fn)
    code = original.__code__.replace(co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0,
                                     co_flags=original.__code__.co_flags & ~HAS_VARSTUFF)
    patched = FunctionType(code, original.__globals__, original.__name__, None, original.__closure__)
    patched.__annotations__ = dict(original.__annotations__)
    return patched
