"""Graphs as text: control flow and the folding of values into expressions, for Python and for printed scripts."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import Any, Final

from tensocket.jit.compiler.control import ENDLESS
from tensocket.jit.graph.ir import Block, Graph, Node, Value

#: Nodes that are statements, or have several outputs: their values get a variable.
_STATEMENTS: Final = frozenset({"prim::Loop", "prim::ListUnpack", "prim::TupleUnpack", "prim::SetAttr", "prim::With",
                                "prim::fork", "prim::awaitable", "prim::RaiseException", "prim::ReturnStmt",
                                "prim::BreakStmt", "prim::ContinueStmt", "prim::CreateObject", "prim::Uninitialized",
                                "prim::Print"})
#: Nodes that are not written if nothing uses them.
_PURE: Final = frozenset({"prim::GetAttr", "prim::unchecked_cast", "prim::TupleConstruct", "prim::ListConstruct",
                          "prim::DictConstruct", "prim::TupleUnpack", "prim::CreateObject"})
_EXITS: Final = frozenset({"prim::ReturnStmt", "prim::BreakStmt", "prim::ContinueStmt", "prim::RaiseException"})


class CodeWriter:
    """Writer of one function.

    Args:
        graph: The graph.
        reserved: Names that variables must not have.
    """

    def __init__(self, graph: Graph, reserved: set[str]) -> None:
        self.graph = graph
        self.taken = set(reserved)
        self.names: dict[Value, str] = {}
        self.folded: set[Node] = set()
        self.lines: list[tuple[int, str, Any]] = []
        self.loops: list[tuple[list[str], str]] = []
        self.plan(graph)

    # ---- folding

    def plan(self, block: Block) -> bool:
        """Mark the nodes whose value is written where it is used; return whether all of the block's nodes are."""
        nodes = [node for node in block.nodes_ if node.op != "prim::Constant"]
        plans = {node: [self.plan(inner) for inner in node.blocks_] for node in nodes if node.blocks_}
        whole = {node: all(found) for node, found in plans.items()}

        def consume(user: Node, cursor: int) -> int:
            for value in reversed(user.inputs_):
                if cursor >= 0 and nodes[cursor] is value.owner and self.is_foldable(value, whole):
                    self.folded.add(value.owner)
                    cursor = consume(value.owner, cursor - 1)
            return cursor

        cursor = consume(block.tail, len(nodes) - 1)
        while cursor >= 0:
            cursor = consume(nodes[cursor], cursor - 1)
        return all(node in self.folded for node in nodes)

    def is_foldable(self, value: Value, whole: dict[Node, bool]) -> bool:
        """Whether a value can be written where it is used."""
        node = value.owner
        if len(node.outputs_) != 1 or len(value.uses_) != 1 or node.op in _STATEMENTS:
            return False
        if node.op == "prim::If":
            return whole[node] and all(len(block.tail.inputs_) == 1 for block in node.blocks_)
        return not node.blocks_

    # ---- names

    def new_name(self, base: str) -> str:
        """Return a variable's name that no other has."""
        base = re.sub(r"\W", "_", base) or "v"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"v{base}"
        name, count = base, 0
        while name in self.taken:
            name, count = f"{base}{count}" if not base[-1].isdigit() else f"{base}_{count}", count + 1
        self.taken.add(name)
        return name

    def name(self, value: Value) -> str:
        """Return the variable of a value."""
        if value not in self.names:
            self.names[value] = self.new_name(value.name or f"_{value.serial}")
        return self.names[value]

    def use(self, value: Value) -> str:
        """Return a value as an expression."""
        if value.owner.op == "prim::Constant" and value not in self.names:
            return self.constant(value)
        if value.owner in self.folded:
            return self.folded_text(value.owner)
        return self.name(value)

    def folded_text(self, node: Node) -> str:
        """Return the expression of a node that is written where it is used."""
        if node.op == "prim::If":
            yes, no = (self.use(block.tail.inputs_[0]) for block in node.blocks_)
            return f"({yes} if {self.use(node.inputs_[0])} else {no})"
        return self.expression(node)

    # ---- to be defined

    def constant(self, value: Value) -> str:
        """Return a constant as an expression."""
        raise NotImplementedError

    def expression(self, node: Node) -> str:
        """Return a node with one output as an expression."""
        raise NotImplementedError

    def statement(self, node: Node, depth: int) -> bool:
        """Write a node that needs a statement of its own; return whether it did."""
        raise NotImplementedError

    # ---- statements

    def line(self, depth: int, text: str, place: Any) -> None:
        """Write a line."""
        self.lines.append((depth, text, place))

    def block(self, block: Block, depth: int, results: list[str] | None = None) -> None:
        """Write a block, whose outputs are assigned to variables."""
        def assign() -> None:
            for target, value in zip(results or [], block.tail.inputs_, strict=True):
                if value.owner.op != "prim::Uninitialized" and (text := self.use(value)) != target:
                    self.line(depth, f"{target} = {text}", value.owner.place)

        self._sequence(block, depth, assign)

    def body(self, graph: Block, result: Callable[[list[Value]], str]) -> None:
        """Write the body of a function; ``result`` is the text that it returns, from the graph's outputs."""
        self._sequence(graph, 1, lambda: self.line(1, f"return {result(graph.tail.inputs_)}", None))

    def _sequence(self, block: Block, depth: int, end: Callable[[], None]) -> None:
        """Write the nodes of a block, and what follows them unless they leave it."""
        before = len(self.lines)
        for node in block.nodes_:
            if node.op not in ("prim::Constant", "prim::Uninitialized") and node not in self.folded:
                self.write(node, depth)
        if not _leaves(block):
            end()
        if len(self.lines) == before:
            self.line(depth, "pass", None)

    def write(self, node: Node, depth: int) -> None:
        """Write a node as statements."""
        if node.op == "prim::If":
            self.branches(node, depth)
        elif node.op == "prim::Loop":
            self.loop(node, depth)
        elif node.op == "prim::ReturnStmt":
            self.line(depth, f"return {self.use(node.inputs_[0])}", node.place)
        elif node.op in ("prim::BreakStmt", "prim::ContinueStmt"):
            self.jump(node, depth)
        elif node.op in _PURE and not any(value.uses_ for value in node.outputs_):
            return
        elif not self.statement(node, depth):
            text = self.expression(node)
            if node.outputs_ and node.outputs_[0].uses_:
                text = f"{self.name(node.outputs_[0])} = {text}"
            self.line(depth, text, node.place)

    def branches(self, node: Node, depth: int) -> None:
        """Write an ``if``."""
        results = [self.name(value) for value in node.outputs_]
        yes, no = node.blocks_
        self.line(depth, f"if {self.use(node.inputs_[0])}:", node.place)
        self.block(yes, depth + 1, results)
        if any(each.op not in ("prim::Constant", "prim::Uninitialized") for each in no.nodes_) or results:
            self.line(depth, "else:", node.place)
            self.block(no, depth + 1, results)

    def loop(self, node: Node, depth: int) -> None:
        """Write a loop. A variable holds each value that goes from one iteration to the next, and the final one."""
        (body,) = node.blocks_
        trip, first = node.inputs_[:2]
        carried = [self.name(value) for value in body.head.outputs_[1:]]
        for value, name in zip(node.outputs_, carried, strict=True):
            self.names[value] = name
        start = [f"{name} = {self.use(value)}" for name, value in zip(carried, node.inputs_[2:], strict=True)]
        endless = trip.toIValue() == ENDLESS
        always = first.toIValue() is True and (_leaves(body) or body.tail.inputs_[0].toIValue() is True) and not any(
            len(n.inputs_) > len(carried) for n in body.all_nodes() if n.op == "prim::ContinueStmt")
        condition = "" if always else self.new_name("_condition")
        count = "" if endless else self.use(trip)
        if condition:
            self.line(depth, f"{condition} = {self.use(first)}", node.place)
        for each in start:
            self.line(depth, each, node.place)
        if endless:
            self.line(depth, f"while {condition or 'True'}:", node.place)
        else:
            position = body.head.outputs_[0]
            self.line(depth, f"for {self.name(position)} in range({count}):", node.place)
            if condition:
                self.line(depth + 1, f"if not {condition}:", node.place)
                self.line(depth + 2, "break", node.place)
        self.loops.append((carried, condition))
        self.block_of_loop(body, depth + 1, carried, condition)
        self.loops.pop()

    def block_of_loop(self, body: Block, depth: int, carried: list[str], condition: str) -> None:
        """Write a loop's body and the values for the next iteration."""
        before = len(self.lines)
        for node in body.nodes_:
            if node.op not in ("prim::Constant", "prim::Uninitialized") and node not in self.folded:
                self.write(node, depth)
        if not _leaves(body):
            targets = [condition, *carried] if condition else carried
            values = body.tail.inputs_ if condition else body.tail.inputs_[1:]
            self.assign_all(targets, list(values), depth, None)
        if len(self.lines) == before:
            self.line(depth, "pass", None)

    def assign_all(self, targets: list[str], values: list[Value], depth: int, place: Any) -> None:
        """Write an assignment of several variables at once."""
        pairs = [(target, self.use(value)) for target, value in zip(targets, values, strict=True)]
        pairs = [(target, text) for target, text in pairs if target != text]
        if pairs:
            left, right = (", ".join(side) for side in zip(*pairs, strict=True))
            self.line(depth, f"{left} = {right}", place)

    def jump(self, node: Node, depth: int) -> None:
        """Write ``break`` or ``continue``."""
        carried, condition = self.loops[-1]
        values, targets = list(node.inputs_), list(carried)
        if len(values) > len(targets):
            targets.insert(0, condition)
        self.assign_all(targets, values, depth, node.place)
        self.line(depth, "break" if node.op == "prim::BreakStmt" else "continue", node.place)

    def text(self) -> str:
        """Return the lines as text."""
        return "\n".join("  " * depth + text for depth, text, _ in self.lines) + "\n"


def _leaves(block: Block) -> bool:
    """Whether a block ends before its end."""
    for node in reversed(block.nodes_):
        if node.op in ("prim::Constant", "prim::Uninitialized"):
            continue
        if node.op in _EXITS:
            return True
        if node.op in ("prim::If", "prim::With"):
            return bool(node.blocks_) and all(_leaves(inner) for inner in node.blocks_)
        return False
    return False
