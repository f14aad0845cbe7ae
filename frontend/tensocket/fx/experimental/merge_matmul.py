"""Products with the same right operand as one product."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from tensocket import cat, matmul, split
from tensocket.nn import Module
from tensocket_operators import Tensor

from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph


def split_result_tensors(result: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Split a product into the rows that belong to each left operand.

    Args:
        result: The product of all left operands, of shape ``(rows, columns)``.
        inputs: The left operands.
    """
    return split(result, [operand.shape[0] for operand in inputs])  # type: ignore[no-any-return, unused-ignore]


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether a node may be computed from another one; true if that is not found out within the depth."""
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(operand, b, search_depth - 1) for operand in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether no node is computed from another one."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: Module) -> GraphModule:
    """Record a module, and compute products with the same right operand as one product.

    Args:
        in_mod: The module, whose left operands are matrices.
    """
    gm: GraphModule = symbolic_trace(in_mod)
    by_operand: dict[Any, list[Node]] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is matmul:
            right = node.args[1]
            key = right.target if isinstance(right, Node) and right.op == "get_attr" else right
            by_operand.setdefault(key, []).append(node)
    for products in by_operand.values():
        if len(products) < 2 or not are_nodes_independent(products):
            continue
        _merge(gm, products)
    gm.graph.lint()
    gm.recompile()
    return gm


def _merge(gm: GraphModule, products: list[Node]) -> None:
    left: list[Any] = [node.args[0] for node in products]
    with gm.graph.inserting_before(products[0]):
        joined = gm.graph.call_function(cat, (left,), {})
        product = gm.graph.call_function(matmul, (joined, products[0].args[1]), {})
        parts = gm.graph.call_function(split_result_tensors, (product, left), {})
        items = [gm.graph.call_function(operator.getitem, (parts, at), {}) for at in range(len(products))]
    for node, item in zip(products, items, strict=True):
        node.replace_all_uses_with(item)
        gm.graph.erase_node(node)
    legalize_graph(gm)
