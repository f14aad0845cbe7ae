"""Edges of the graph: their targets, fitting gradients to them, and reachability."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensocket_plugins.contract.errors import AutogradError

from ..device import BY_KEY
from ..keys import DEVICE_MASK, DTYPE_MASK, DTYPE_OF, OPTIONS
from .node import AccumulateGrad, MultiNode, Node, Output

#: Identity of the target of an edge: the node or leaf, and the output's index.
Target = tuple[int, int]


def sum_to(grad: Any, shape: tuple[int, ...]) -> Any:
    """Sum ``grad`` over the dimensions along which ``shape`` was broadcast."""
    given = grad._array.shape
    if given == shape:
        return grad
    lead = len(given) - len(shape)
    if lead > 0 and given[lead:] == shape:
        return grad.sum(tuple(range(lead)))
    axes = [*range(lead), *(k + lead for k, n in enumerate(shape) if n == 1 and grad.shape[k + lead] != 1)]
    return grad.sum(axes, True).reshape(shape) if axes else grad.reshape(shape)


def cast_to_shape(grad: Any, shape: tuple[int, ...], options: int) -> Any:
    """Return a gradient with the given shape, dtype and device."""
    if grad._array.shape != shape:
        grad = sum_to(grad, shape)
    if grad._key & OPTIONS != options:
        dtype = DTYPE_OF[options & DTYPE_MASK]
        if grad.dtype.kind == "complex" and dtype.kind == "float":
            grad = grad.real
        grad = grad.to(BY_KEY[options & DEVICE_MASK].device, dtype)
    return grad


def target_of(edge: Any) -> Target:
    """Return the identity of an edge's target."""
    return (id(edge.node), edge.index) if type(edge) is Output else (id(edge), 0)


def node_of(edge: Any) -> Node | None:
    """Return the node to which an edge leads; None for leaves."""
    if type(edge) is Output:
        return edge.node
    return edge if isinstance(edge, Node) else None


def place_of(edge: Any) -> tuple[tuple[int, ...], int]:
    """Return the shape and options of an edge's target."""
    node = node_of(edge)
    if node is None:
        return edge._array.shape, edge._key & OPTIONS
    if isinstance(node, MultiNode):
        place = node.outputs[target_of(edge)[1]]
        if place is not None:
            return place
    return node.shape, node.options


def fit_edge(edge: Any, grad: Any) -> Any:
    """Return a gradient that fits an edge's target; None stays None."""
    if edge is None or grad is None:
        return None
    return cast_to_shape(grad, *place_of(edge))

def edge_from_place(node: Any, index: int) -> Any:
    """Return the edge to an output of a node, as ``next_functions`` and gradient edges show it."""
    if isinstance(node, AccumulateGrad):
        return node.variable
    return Output(node, index) if index else node


def reachable(nodes: Iterable[Node]) -> dict[int, Node]:
    """Return all nodes that gradients of ``nodes`` reach, by sequence number."""
    found: dict[int, Node] = {}
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.sequence in found:
            continue
        found[node.sequence] = node
        for edge in node.edges:
            below = node_of(edge)
            if below is not None and below.sequence not in found:
                stack.append(below)
    return found


def all_lead_to(nodes: Iterable[Node], wanted: set[Target]) -> bool:
    """Whether all gradients of ``nodes`` end in leaves that are wanted targets."""
    stack = list(nodes)
    found: set[int] = set()
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            node = edge.node if type(edge) is Output else edge
            if isinstance(node, Node):
                if node.sequence not in found:
                    found.add(node.sequence)
                    stack.append(node)
            elif (id(edge), 0) not in wanted:
                return False
    return True


def edges_on_the_way(nodes: Iterable[Node], wanted: set[Target], inclusive: bool,
                     leaves: bool) -> dict[int, tuple[Any, ...]] | None:
    """Return the edges that lead to wanted targets, by the sequence number of their node; None for each other edge.

    Nodes without such edges are left out, unless ``inclusive`` adds those that are targets themselves. With ``leaves``,
    all targets are leaves; the result is None if all edges lead to them.
    """
    if leaves and all_lead_to(nodes, wanted):
        return None
    kept: dict[int, tuple[Any, ...]] = {}
    own = {identity for identity, _ in wanted} if inclusive else ()
    found = reachable(nodes)
    for sequence in sorted(found):
        node = found[sequence]
        edges: list[Any] = []
        for edge in node.edges:
            below, index = (edge.node, edge.index) if type(edge) is Output else (edge, 0)
            leads = (id(below), index) in wanted or (isinstance(below, Node) and below.sequence in kept)
            edges.append(edge if leads else None)
        if any(edge is not None for edge in edges) or id(node) in own:
            kept[sequence] = tuple(edges)
    return kept


def last_uses(nodes: Iterable[Node]) -> dict[int, list[int]]:
    """Return the identities of leaves with hooks, by the sequence number of the oldest node that uses each."""
    oldest: dict[int, int] = {}
    for sequence, node in reachable(nodes).items():
        for edge in node.edges:
            if edge is not None and node_of(edge) is None and edge._extras is not None:
                oldest[id(edge)] = min(sequence, oldest.get(id(edge), sequence))
    uses: dict[int, list[int]] = {}
    for identity, sequence in oldest.items():
        uses.setdefault(sequence, []).append(identity)
    return uses


def check_swapped(leaf: Any, roots: Iterable[Any]) -> None:
    """Raise for the gradient of a leaf with respect to values from before ``swap_tensors``.

    Args:
        leaf: A leaf with extras.
        roots: Edges from which the backward pass started.

    Raises:
        AutogradError: A node from before the swap leads to the leaf.
    """
    swapped = leaf._extras.swapped
    nodes = [node for node in map(node_of, roots) if node is not None]
    for sequence, node in reachable(nodes).items():
        if sequence < swapped and any(edge is leaf for edge in node.edges):
            raise AutogradError("backward", f"{node.name()}, recorded before swap_tensors exchanged its leaf",
                                "Trying to execute AccumulateGrad node that was poisoned by swap_tensors",
                                "change device and dtype of a module before forward() or after backward()")
