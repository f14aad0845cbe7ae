"""Computing the same value once (common subexpression elimination)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

from tensocket_compiler.graph.names import qualified_name
from tensocket_compiler.graph.purity import is_random
from tensocket_core.pytree import tree_flatten

from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

#: Functions of uninitialized values, which differ from call to call as random ones do.
_EMPTY: Final = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "rand_like", "rand", "randn",
                 "randn_like", "randint", "randint_like", "randperm", "bernoulli", "normal", "multinomial")


def get_CSE_banned_ops() -> set[Any]:  # noqa: N802  PyTorch's name
    """Return the packets of operators whose calls differ although their arguments are equal."""
    aten = import_module("tensocket").ops.aten
    return {packet for name in _EMPTY if (packet := getattr(aten, name, None)) is not None}


class CSEPass(PassBase):
    """Replaces calls of functions with equal arguments by the first one.

    Args:
        banned_ops: Functions that are left alone; packets of operators stand for their overloads.
    """

    def __init__(self, banned_ops: Iterable[Any] | None = None) -> None:
        self.banned_ops = set(banned_ops) if banned_ops is not None else set()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Run the pass; the result is a new module."""
        def replaced(node: Node) -> Node:
            return env[node]

        new_graph = Graph()
        new_graph._codegen = graph_module.graph._codegen
        env: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        modified = False
        for node in graph_module.graph.nodes:
            key = self._key(node, replaced)
            earlier = known.get(key) if key is not None else None
            if earlier is not None:
                modified = True
                env[node] = earlier
                continue
            env[node] = new_graph.node_copy(node, replaced)
            if key is not None:
                known[key] = env[node]
        return PassResult(GraphModule(graph_module, new_graph), modified)

    def _key(self, node: Node, replaced: Callable[[Node], Node]) -> Any:
        """Return a key that equal calls share; None if a call is unlike all others."""
        if node.op == "get_attr":
            return node.op, node.target
        if node.op != "call_function" or node.is_impure():
            return None
        if not self.banned_ops.isdisjoint((node.target, getattr(node.target, "overloadpacket", node.target))):
            return None
        if _is_different_each_time(node.target):
            return None
        leaves, spec = tree_flatten((node.args, node.kwargs))
        parts = tuple((type(leaf), replaced(leaf) if isinstance(leaf, Node) else _plain(leaf)) for leaf in leaves)
        key = (node.target, parts, str(spec))
        try:
            hash(key)
        except TypeError:
            return None
        return key


def _is_different_each_time(target: Any) -> bool:
    return is_random(target) or qualified_name(target).removeprefix("torch.") in _EMPTY


def _plain(value: Any) -> Any:
    return ("slice", value.start, value.stop, value.step) if isinstance(value, slice) else value
