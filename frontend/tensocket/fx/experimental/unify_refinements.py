"""Inferring sizes: the constraints of a graph are solved, and the solution is written into its types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensocket.errors import ArgumentTypeError

from ..graph import Graph
from ..graph_module import GraphModule
from .graph_gradual_typechecker import Refine, map_sizes
from .refinement_types import Equality
from .unification import reify, unify


def infer_symbolic_types_single_pass(traced: GraphModule) -> None:
    """Solve for the unknown sizes in the types of a checked graph in one pass; those that stay are variables."""
    _refine(traced)


def infer_symbolic_types(traced: GraphModule) -> None:
    """Solve for the unknown sizes in the types of a checked graph; those that stay are symbols of sympy.

    Raises:
        TypeError: Two different sizes would have to be the same.
        MissingPackage: Sizes stay unknown, and sympy is not installed.
    """
    # A sum constrains its result only where its operands are known to agree, which the first pass finds out.
    _refine(traced)
    _refine(traced).symbolic_relations()


def _refine(traced: GraphModule) -> Refine:
    refined = Refine(traced)
    refined.refine()
    substitute_all_types(traced.graph, unify_eq(refined.constraints))
    return refined


def unify_eq(list_of_eq: Iterable[Equality]) -> dict[Any, Any]:
    """Return the values of variables that solve equations.

    Raises:
        TypeError: There are none.
    """
    solution: dict[Any, Any] = {}
    for equation in list_of_eq:
        found = unify(equation.lhs, equation.rhs, solution)
        if found is False:
            sizes = f"{reify(equation.lhs, solution)} and {reify(equation.rhs, solution)}"
            raise ArgumentTypeError("infer_symbolic_types", f"sizes {sizes}", f"{equation} must hold, where the "
                                    "operations before it fixed both", "correct the annotations of the graph")
        solution = found
    return solution


def substitute_all_types(graph: Graph, mapping: dict[Any, Any]) -> None:
    """Replace variables by their values in the types of all nodes."""
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def substitute_solution_one_type(mapping: dict[Any, Any], t: Any) -> Any:
    """Return a type with variables replaced by their values."""
    return map_sizes(lambda size: reify(size, mapping), t)


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Whether the nodes of two graphs have the same types."""
    return all(a.type == b.type for a, b in zip(g1.nodes, g2.nodes, strict=False))


__all__ = ["check_for_type_equality", "infer_symbolic_types", "infer_symbolic_types_single_pass",
           "substitute_all_types", "substitute_solution_one_type", "unify_eq"]
