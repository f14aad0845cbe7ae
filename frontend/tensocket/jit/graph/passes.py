"""Passes over graphs: calls become the graphs of their functions, and unused nodes are removed."""

from __future__ import annotations

from typing import Any, Final

from tensocket.jit.frontend import ScriptError
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.graph.ir import Block, Graph, Node, Value

#: Nodes that change nothing but their outputs, besides operators whose name does not end in an underscore.
_EFFECTS: Final = frozenset({"prim::SetAttr", "prim::Print", "prim::RaiseException", "prim::ReturnStmt",
                             "prim::BreakStmt", "prim::ContinueStmt", "prim::PythonOp", "prim::With",
                             "prim::CallFunction",
                             "prim::CallMethod", "aten::append", "aten::_set_item", "aten::Delete", "aten::warn",
                             "prim::fork", "prim::awaitable", "prim::assign_view", "aten::wait", "aten::manual_seed",
                             "aten::extend", "aten::insert", "aten::pop", "aten::remove", "aten::clear",
                             "aten::reverse",
                             "aten::sort", "aten::update", "aten::setdefault", "aten::popitem", "prim::Enter",
                             "prim::Manager", "aten::backward"})


def has_effect(node: Node) -> bool:
    """Whether a node does more than to compute its outputs."""
    if node.op in _EFFECTS or (node.op.endswith("_") and not node.op.endswith("__")) or node.op.startswith("ops."):
        return not (node.op.endswith("_") and node.op in ("aten::any_", "aten::all_", "aten::sum_", "aten::round_"))
    if node.op.startswith(("aten::rand", "aten::normal", "aten::bernoulli", "aten::dropout", "aten::multinomial")):
        return False
    return any(has_effect(inner) for block in node.blocks_ for inner in block.nodes_) or (node.op == "prim::Loop"
                                                                                          and any(
        inner.op in _EFFECTS for inner in node.blocks_[0].all_nodes()))


def remove_dead(block: Block) -> None:
    """Remove the nodes of a block whose outputs nothing uses and that do nothing else."""
    for node in reversed(list(block.nodes_)):
        for inner in node.blocks_:
            remove_dead(inner)
        if not has_effect(node) and not any(value.uses_ for value in node.outputs_):
            node.destroy()


def lint(block: Block, known: set[Value] | None = None) -> None:
    """Check that every value of a block is defined before its use.

    Raises:
        ScriptError: One is not.
    """
    known = set(known or ()) | set(block.head.outputs_)
    for node in [*block.nodes_, block.tail]:
        for value in node.inputs_:
            if value not in known or node not in value.uses_:
                raise ScriptError(f"%{value.debugName()} in {node.op}", "a value is defined before its use", "add "
                                  "its node "
                                  "before this one", node.place)
        for inner in node.blocks_:
            lint(inner, known)
        known.update(node.outputs_)


def copy_into(source: Block, target: Block, known: dict[Value, Value], at: int | None = None) -> list[Value]:
    """Copy the nodes of a block to another, and return the copies of its outputs.

    Args:
        source: The block.
        target: The block that gets the copies.
        known: Values that stand for inputs; it gets those of all outputs.
        at: The position of the first copy; None for the end.
    """
    for node in source.nodes_:
        made = Node(target.graph, node.op, [known.get(v, v) for v in node.inputs_], node.keywords, node.place,
                    **node.attributes)
        made.owner = target
        if at is None:
            target.nodes_.append(made)
        else:
            target.nodes_.insert(at, made)
            at += 1
        for value in node.outputs_:
            known[value] = made.add_output(value.kind, value.name)
        for block in node.blocks_:
            inner = made.add_block()
            for value in block.head.outputs_:
                known[value] = inner.add_input(value.kind, value.name)
            for value in copy_into(block, inner, known):
                inner.add_output(value)
    return [known.get(value, value) for value in source.tail.inputs_]


def copied(graph: Graph) -> Graph:
    """Return a copy of a graph."""
    made = Graph()
    known = {value: made.add_input(value.kind, value.name) for value in graph.head.outputs_}
    for value in copy_into(graph, made, known):
        made.add_output(value)
    return made


def inlined(graph: Graph) -> Graph:
    """Return a copy of a graph in which called functions' graphs are in the place of the calls.

    A function that returns from inside of a branch or loop stays a call.
    """
    made = copied(graph)
    inline(made)
    return made


def inline(block: Block) -> None:
    """Put the graphs of called functions in the place of the calls of a block."""
    for node in list(block.nodes_):
        for inner in node.blocks_:
            inline(inner)
        callee: Any = node.attributes.get("callee")
        if not isinstance(callee, CompiledFunction) or callee.graph is None or _returns_early(callee.graph):
            continue
        body = inlined(callee.graph)
        known = dict(zip(body.head.outputs_, node.inputs_, strict=True))
        results = copy_into(body, block, known, block.nodes_.index(node))
        for value, result in zip(node.outputs_, results, strict=True):
            value.replaceAllUsesWith(result)
        node.destroy()


def _returns_early(graph: Graph) -> bool:
    return any(node.op == "prim::ReturnStmt" for node in graph.all_nodes())
