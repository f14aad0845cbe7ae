"""Nodes of a graph, and functions of their arguments."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

from tensocket.overrides import _assert
from tensocket_compiler.graph import purity
from tensocket_compiler.graph.names import PUBLIC, qualified_name, type_name
from tensocket_compiler.graph.node import Argument, Node, Target, format_argument, map_aggregate, map_arg
from tensocket_compiler.graph.purity import has_side_effect
from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_core.formats import layout, memory_format
from tensocket_operators import Tensor
from tensocket_operators.namespaces import OpOverloadPacket, parts_of
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType

#: Constants that a node may have as arguments.
BaseArgumentTypes = (str | int | float | bool | complex | DType | Tensor | Device | memory_format | layout)
base_types: Final[tuple[type, ...]] = (*BaseArgumentTypes.__args__, type(None), type(...),
                                       types.BuiltinFunctionType)
_legal_ops: Final = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_side_effectful_functions: Final = purity.SIDE_EFFECTS

#: Modules whose functions generated code calls by these names; the first one that has a function counts.
NAMESPACES: Final = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn.init",
                     "torch.functional")
#: Functions that draw random numbers.
_RANDOM_NAMES: Final = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli",
                        "normal", "multinomial", "poisson", "dropout", "rrelu", "alpha_dropout", "feature_dropout")


def _own_module(name: str) -> Callable[[], Any]:
    return lambda: import_module("tensocket" + name.removeprefix("torch"))


def _operator_name(thing: Any) -> str | None:
    """Return the name of an operator's packet or record below ``torch.ops``; None for records that have none."""
    if isinstance(thing, OpOverloadPacket):
        return f"torch.ops.{thing}"
    if not isinstance(thing, AtenOverloads):
        return None
    space, own, overload = parts_of(thing.name)
    packet = getattr(getattr(import_module("tensocket").ops, space), own, None)
    return f"torch.ops.{thing}" if getattr(packet, overload, None) is thing else None


@cache
def public_equivalent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of ``nn.functional`` for an operator's function without a public name of its own.

    The key is the function; there are as many as operators. Functions whose parameters differ stay as they are.
    """
    if PUBLIC.name_of(function) is not None or not inspect.isfunction(function):
        return function
    other = inspect.unwrap(getattr(import_module("tensocket").nn.functional, function.__name__, function))
    names, wanted = ([name for name, parameter in inspect.signature(each).parameters.items()
                      if parameter.kind is not inspect.Parameter.KEYWORD_ONLY] for each in (function, other))
    shared = min(len(names), len(wanted))
    return other if names[:shared] == wanted[:shared] else function


def _describe_names() -> None:
    """Tell the generator of code the public names, and which functions have effects."""
    for name in NAMESPACES:
        PUBLIC.add(name, _own_module(name))
    PUBLIC.add("torch.Tensor", lambda: Tensor)
    purity.RANDOM.update(_RANDOM_NAMES)
    PUBLIC.add_rule(_operator_name)
    PUBLIC.add_name("torch._assert", has_side_effect(_assert))


_describe_names()


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """Return the name that generated code calls a function by."""
    return qualified_name(func)


def _type_repr(obj: Any) -> str:
    """Return the name of a type in annotations."""
    return type_name(obj)


def _find_module_of_method(orig_method: Callable[..., Any]) -> str:
    """Return the module in which generated code finds a function."""
    return qualified_name(orig_method).rpartition(".")[0]


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """Return an argument as listings of graphs show it."""
    return format_argument(arg, max_list_len)


__all__ = ["Argument", "BaseArgumentTypes", "Node", "Target", "base_types", "has_side_effect", "map_aggregate",
           "map_arg"]
