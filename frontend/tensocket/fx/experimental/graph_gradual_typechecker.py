"""Gradual type checking of graphs: sizes that annotations give are followed through operations, others stay unknown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentError, MissingPackage, UnsupportedOperator
from tensocket_operators import Tensor

from .._attributes import _get_attr
from ..graph_module import GraphModule
from ..node import Node, Target, map_arg
from ..tensor_type import Dyn, TensorType
from ._shape_rules import EXPRESSIONS, INFERENCE, REFINEMENT, Rule
from ._sizes import broadcast_types, calculate_out_dimension, expand_to_tensor_dim, get_greatest_upper_bound
from .refinement_types import Equality
from .unification import Var, isvar


class MissingRule(UnsupportedOperator, RuntimeError):
    """An operation whose types no rule tells."""


def _register(rules: dict[Any, Rule], call_target: Target | type, kind: str) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        if call_target in rules:
            raise ArgumentError("register_rule", f"a second rule for {call_target}", f"{kind} already registered for "
                                f"{call_target}!", "register rules of other operations")
        rules[call_target] = fn
        return fn
    return register


def register_inference_rule(call_target: Target | type) -> Callable[[Rule], Rule]:
    """Return a decorator for the function that sets the types of calls.

    Args:
        call_target: The function, whose rule gets the node, or the class of a module, whose rule gets the node and the
            module. The rule sets ``node.type``, returns it, and raises a ``TypeError`` if the operands do not fit.

    Raises:
        RuntimeError: There is a rule; the decorator raises it.
    """
    return _register(INFERENCE, call_target, "Inference rule")


def register_refinement_rule(call_target: Target | type) -> Callable[[Rule], Rule]:
    """Return a decorator for the function that gets a node and returns its ``Equality`` constraints.

    Args:
        call_target: The function or the class of a module.

    Raises:
        RuntimeError: There is a rule; the decorator raises it.
    """
    return _register(REFINEMENT, call_target, "Refinement rule")


def register_algebraic_expressions_inference_rule(call_target: Target | type) -> Callable[[Rule], Rule]:
    """Return a decorator for the function that writes unknown sizes as formulas of the operand's.

    Args:
        call_target: The function, whose rule gets the node, or the class of a module, whose rule gets the node and the
            module.

    Raises:
        RuntimeError: There is a rule; the decorator raises it.
    """
    return _register(EXPRESSIONS, call_target, "Rule")


def _find(rules: dict[Any, Rule], traced: GraphModule, n: Node) -> tuple[Rule | None, tuple[Any, ...]]:
    """Return the rule of a node, if there is one, and the rule's arguments: the node, and the module that it calls."""
    if n.op == "call_module":
        module = traced.get_submodule(str(n.target))
        return rules.get(type(module)), (n, module)
    return rules.get(n.target) if n.op == "call_function" else None, (n,)


class GraphTypeChecker:
    """Checks the types of a graph.

    Args:
        env: Accepted for programs.
        traced: The module; annotations of its nodes are ``TensorType((1, 3, Dyn))`` or ``Dyn``.
    """

    def __init__(self, env: dict[str, Any], traced: GraphModule) -> None:
        self.env = env
        self.traced = traced

    def type_check(self) -> bool:
        """Give every node the type that follows from the annotations.

        Raises:
            TypeError: Types contradict each other.
            RuntimeError: An operation has no rule.
        """
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Give one node its type and return it; its operands have theirs already.

        Raises:
            TypeError: Types contradict each other.
            RuntimeError: The operation has no rule.
        """
        if n.type is None:
            n.type = Dyn
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda node: node.type)
        elif n.op == "get_attr":
            value = _get_attr(self.traced, str(n.target))
            n.type = TensorType(tuple(value.shape)) if isinstance(value, Tensor) else n.type
        elif n.op != "placeholder":
            rule, args = _find(INFERENCE, self.traced, n)
            if rule is None:
                raise _missing(*args)
            return rule(*args)
        return n.type


def _missing(n: Node, module: Any = None) -> MissingRule:
    if n.op == "call_method":
        return MissingRule("type_check", f"node {n}, which calls the method {n.target}", f"Method {n.op} not yet "
                           "implemented", "call the function of this name instead of the method")
    what = f"target {n.target}" if module is None else f"class {type(module)}"
    return MissingRule("type_check", f"node {n}", f"No inference rule registered for {what}!",
                       "register one with register_inference_rule")


def map_sizes(change: Callable[[Any], Any], typ: Any) -> Any:
    """Return a type with changed sizes; what is unknown as a whole, and other types, are changed like one size."""
    if isinstance(typ, TensorType):
        return TensorType(tuple(map(change, typ.dims)))
    return type(typ)(map_sizes(change, each) for each in typ) if isinstance(typ, tuple | list) else change(typ)


class Refine:
    """Finds equations between the sizes of a checked graph.

    Args:
        traced: The module.

    Attributes:
        constraints: The equations that :meth:`refine` found.
    """

    def __init__(self, traced: GraphModule) -> None:
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count()

    def refine(self) -> bool:
        """Replace what is unknown by variables, and note the constraints of all nodes."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def refine_node(self, n: Node) -> Any:
        """Replace what is unknown in one type by variables, and note the node's constraints."""
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        rule, _ = _find(REFINEMENT, self.traced, n)
        if rule is not None:
            self.constraints += rule(n)
        return self._type_output(n)

    def symbolic_relations(self) -> bool:
        """Replace variables by symbols of sympy, and sizes by formulas where a rule gives one.

        Raises:
            MissingPackage: There are variables, and sympy is not installed.
        """
        for node in self.traced.graph.nodes:
            self.infer_symbolic_relations(node)
        return True

    def infer_symbolic_relations(self, n: Node) -> Any:
        """Replace variables in one type by symbols, and sizes by formulas where a rule gives one."""
        n.type = self.convert_to_sympy_symbols(n.type)
        rule, args = _find(EXPRESSIONS, self.traced, n)
        return self._type_output(n) if rule is None else rule(*args)

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """Return a type with a new variable for everything that is unknown."""
        return map_sizes(lambda size: Var(next(self.symbol_iter)) if size == Dyn else size, typ)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """Return a type with symbols of sympy for variables.

        Raises:
            MissingPackage: There are variables, and sympy is not installed.
        """
        return map_sizes(lambda size: _symbol(size) if isvar(size) else size, typ)

    @staticmethod
    def _type_output(n: Node) -> Any:
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda node: node.type)
        return n.type


def _symbol(variable: Var) -> Any:
    try:
        import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingPackage("infer_symbolic_types", "an environment without sympy", "unknown sizes are written as "
                             "symbols of sympy", "pip install sympy, or annotate the sizes") from error
    return sympy.Symbol(str(variable))


__all__ = ["GraphTypeChecker", "MissingRule", "Refine", "broadcast_types", "calculate_out_dimension",
           "expand_to_tensor_dim", "get_greatest_upper_bound", "map_sizes",
           "register_algebraic_expressions_inference_rule", "register_inference_rule", "register_refinement_rule"]
