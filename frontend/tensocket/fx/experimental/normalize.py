"""Calls with all arguments by name, and functions of two tensors as Python's operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from tensocket import add, div, eq, floor_divide, ge, gt, le, lt, mul, ne, remainder, sub

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


#: Functions of tensors, and Python's operators that do the same.
_OPERATORS: Final[dict[Any, Callable[..., Any]]] = {
    add: operator.add, sub: operator.sub, mul: operator.mul, div: operator.truediv, floor_divide: operator.floordiv,
    remainder: operator.mod, eq: operator.eq, ne: operator.ne, lt: operator.lt, le: operator.le, gt: operator.gt,
    ge: operator.ge}


class NormalizeOperators(Transformer):
    """Rewrites functions of two tensors as Python's operators, so that a pass need look for these only.

    Attributes:
        binary_magic_method_remap: Function to the operator that takes its place.
    """

    binary_magic_method_remap: dict[Any, Callable[..., Any]] = _OPERATORS

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call, of an operator if the function has one."""
        if len(args) == 2 and not kwargs:
            target = self.binary_magic_method_remap.get(target, target)
        return self.tracer.create_proxy("call_function", target, args, kwargs)
