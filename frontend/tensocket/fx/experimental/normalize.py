"""Calls with all arguments by name, and Python's operators as functions of tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from tensocket import add, div, eq, ge, gt, le, lt, mul, ne, neg, sub

from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Argument, Node, map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module
from ..proxy import Proxy


class NormalizeArgs(Transformer):
    """Rewrites calls of functions and modules of ``nn`` so that arguments are passed by name, with defaults.

    Args:
        module: The module to rewrite.
        normalize_to_only_use_kwargs: Whether positional arguments become keyword arguments, too.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """Record a node with its arguments by name."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def kind_of(value: Any) -> Any:
            return value.meta.get("type") if isinstance(value, Node) else type(value)

        if n.op == "call_function":
            types = tuple(create_type_hint(map_aggregate(value, kind_of)) for value in n.args)
            made = self.call_function(n.target, args, kwargs, types, {})
        else:
            made = super().run_node(n)
        if n.op != "output" and isinstance(made, Proxy):
            self.node_map[made] = n
            made.node.meta = dict(n.meta)
            made.node.type = n.type
        return made

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any], arg_types: Any = None,
                      kwarg_types: Any = None) -> Any:
        """Record a call of a function with its arguments by name."""
        pair = normalize_function(target, args, kwargs, normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs)
        if pair is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, pair.args, pair.kwargs)

    def call_module(self, target: str, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a module with its arguments by name."""
        pair = normalize_module(self.module, target, args, kwargs,
                                normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs)
        return super().call_module(target, *((args, kwargs) if pair is None else pair))


#: Python's operators and methods, and the functions that do the same.
_FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    operator.add: add, operator.sub: sub, operator.mul: mul, operator.truediv: div, operator.eq: eq, operator.ne: ne,
    operator.lt: lt, operator.le: le, operator.gt: gt, operator.ge: ge, operator.neg: neg}



class NormalizeOperators(Transformer):
    """Rewrites Python's operators and methods of tensors as functions.

    Attributes:
        binary_magic_method_remap: Function to the one that takes its place.
    """

    binary_magic_method_remap: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = _FUNCTIONS

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call, of another function if the target is an operator of Python."""
        new = self.binary_magic_method_remap.get(target, target)
        if len(args) == 2 and not isinstance(args[0], Proxy):
            new = target  # a number on the left
        return self.tracer.create_proxy("call_function", new, args, kwargs)
