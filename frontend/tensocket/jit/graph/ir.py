"""The graph of a script: nodes in blocks, values with types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tensocket.jit.graph.script_types import FunctionType, JitType, NoneType, TensorType

_Text = str


class Value:
    """An input or output of a node or block.

    Attributes:
        kind: Its type.
        owner: The node whose output it is; for inputs of a block, the block's own ``prim::Param``.
        uses_: The nodes that take it as an input, once for each place.
        name: A name from the source, or "".
    """

    __slots__ = ("kind", "name", "owner", "serial", "uses_")

    def __init__(self, owner: Node, kind: JitType, name: str = "") -> None:
        self.owner = owner
        self.kind = kind
        self.name = name
        self.uses_: list[Node] = []
        self.serial = owner.graph.number() if not name else 0

    def debugName(self) -> str:  # noqa: N802  PyTorch's name
        """Return the name in the graph's text."""
        return self.owner.graph.name_of(self)

    def setDebugName(self, name: str) -> Value:  # noqa: N802  PyTorch's name
        """Give the value a name."""
        self.name = name
        return self

    def type(self) -> JitType:
        """Return the type."""
        return self.kind

    def setType(self, kind: JitType) -> Value:  # noqa: N802  PyTorch's name
        """Set the type."""
        self.kind = kind
        return self

    def node(self) -> Node:
        """Return the node whose output this is."""
        return self.owner

    def uses(self) -> list[Node]:
        """Return the nodes that use it."""
        return list(self.uses_)

    def unique(self) -> int:
        """Return a number that no other value of the graph has."""
        return id(self)

    def toIValue(self) -> Any:  # noqa: N802  PyTorch's name
        """Return the Python value of a constant, None for others."""
        return self.owner.attributes.get("value") if self.owner.op == "prim::Constant" else None

    def replaceAllUsesWith(self, other: Value) -> None:  # noqa: N802  PyTorch's name
        """Let every use take another value."""
        for user in list(dict.fromkeys(self.uses_)):
            user.inputs_ = [other if given is self else given for given in user.inputs_]
        other.uses_ += self.uses_
        self.uses_ = []

    def __repr__(self) -> str:
        return f"{self.debugName()} defined in ({self.owner!r})"


class Node:
    """An operation.

    Attributes:
        op: Its kind: ``aten::add``, ``prim::If``.
        graph: The graph.
        attributes: Values that are known when the script is compiled.
        keywords: For each input the name that it is passed by, "" for positional ones.
        place: Where the source has it, or None.
    """

    __slots__ = ("attributes", "blocks_", "graph", "inputs_", "keywords", "op", "outputs_", "owner", "place")

    def __init__(self, graph: Graph, op: str, inputs: Sequence[Value] = (), keywords: Sequence[str] = (),
                 place: Any = None, **attributes: Any) -> None:
        self.graph = graph
        self.op = op
        self.inputs_: list[Value] = []
        self.outputs_: list[Value] = []
        self.blocks_: list[Block] = []
        self.attributes = attributes
        self.keywords = list(keywords)
        self.place = place
        self.owner: Block | None = None
        for value in inputs:
            self.add_input(value)

    def add_input(self, value: Value) -> Value:
        """Add an input."""
        self.inputs_.append(value)
        value.uses_.append(self)
        return value

    addInput = add_input  # noqa: N815  PyTorch's name

    def set_input(self, position: int, value: Value) -> None:
        """Replace an input."""
        self.inputs_[position].uses_.remove(self)
        self.inputs_[position] = value
        value.uses_.append(self)

    replaceInput = set_input  # noqa: N815  PyTorch's name

    def add_output(self, kind: JitType, name: str = "") -> Value:
        """Add an output."""
        value = Value(self, kind, name)
        self.outputs_.append(value)
        return value

    def add_block(self) -> Block:
        """Add a block."""
        block = Block(self.graph, self)
        self.blocks_.append(block)
        return block

    def kind(self) -> str:
        """Return the kind."""
        return self.op

    def inputs(self) -> Iterator[Value]:
        """Return the inputs."""
        return iter(list(self.inputs_))

    def outputs(self) -> Iterator[Value]:
        """Return the outputs."""
        return iter(list(self.outputs_))

    def input(self, name: str | None = None) -> Value:
        """Return the only input, or the one that is passed by a name."""
        if name is not None:
            return self.inputs_[self.keywords.index(name)]
        (value,) = self.inputs_
        return value

    def output(self) -> Value:
        """Return the only output."""
        (value,) = self.outputs_
        return value

    def inputsAt(self, position: int) -> Value:  # noqa: N802  PyTorch's name
        """Return an input."""
        return self.inputs_[position]

    def outputsAt(self, position: int) -> Value:  # noqa: N802  PyTorch's name
        """Return an output."""
        return self.outputs_[position]

    def inputsSize(self) -> int:  # noqa: N802  PyTorch's name
        """Return the number of inputs."""
        return len(self.inputs_)

    def outputsSize(self) -> int:  # noqa: N802  PyTorch's name
        """Return the number of outputs."""
        return len(self.outputs_)

    def blocks(self) -> Iterator[Block]:
        """Return the blocks."""
        return iter(list(self.blocks_))

    def owningBlock(self) -> Block | None:  # noqa: N802  PyTorch's name
        """Return the block that holds the node."""
        return self.owner

    def hasAttribute(self, name: str) -> bool:  # noqa: N802  PyTorch's name
        """Whether there is an attribute of a name."""
        return name in self.attributes

    def attributeNames(self) -> list[str]:  # noqa: N802  PyTorch's name
        """Return the names of the attributes."""
        return list(self.attributes)

    def _attribute(self, name: str) -> Any:
        return self.attributes[name]

    s = i = f = t = g = ss = ival = _attribute

    def sourceRange(self) -> str:  # noqa: N802  PyTorch's name
        """Return the place in the source as text."""
        return "" if self.place is None else str(self.place)

    def destroy(self) -> None:
        """Remove the node from its block; its outputs have no uses."""
        for block in self.blocks_:
            for node in list(reversed(block.nodes_)):
                node.destroy()
            block.tail.drop_inputs()
        self.drop_inputs()
        if self.owner is not None:
            self.owner.nodes_.remove(self)

    def drop_inputs(self) -> None:
        """Remove all inputs."""
        for value in self.inputs_:
            value.uses_.remove(self)
        self.inputs_ = []

    removeAllInputs = drop_inputs  # noqa: N815  PyTorch's name

    def __str__(self) -> str:
        return "".join(_lines(self, 0))

    def __repr__(self) -> str:
        return str(self).rstrip("\n")


class Block:
    """A sequence of nodes with inputs and outputs.

    Attributes:
        head: Node whose outputs are the block's inputs.
        tail: Node whose inputs are the block's outputs.
    """

    __slots__ = ("graph", "head", "nodes_", "owner", "tail")

    def __init__(self, graph: Graph, owner: Node | None = None) -> None:
        self.graph = graph
        self.owner = owner
        self.nodes_: list[Node] = []
        self.head = Node(graph, "prim::Param")
        self.tail = Node(graph, "prim::Return")
        self.head.owner = self.tail.owner = self

    def append(self, node: Node) -> Node:
        """Add a node at the end."""
        node.owner = self
        self.nodes_.append(node)
        return node

    def add_input(self, kind: JitType, name: str = "") -> Value:
        """Add an input."""
        return self.head.add_output(kind, name)

    def add_output(self, value: Value) -> None:
        """Add an output."""
        self.tail.add_input(value)

    def nodes(self) -> Iterator[Node]:
        """Return the nodes."""
        return iter(list(self.nodes_))

    def inputs(self) -> Iterator[Value]:
        """Return the inputs."""
        return iter(list(self.head.outputs_))

    def outputs(self) -> Iterator[Value]:
        """Return the outputs."""
        return iter(list(self.tail.inputs_))

    def inputsSize(self) -> int:  # noqa: N802
        """Return the number of inputs."""
        return len(self.head.outputs_)

    def paramNode(self) -> Node:  # noqa: N802  PyTorch's name
        """Return the node whose outputs are the inputs."""
        return self.head

    def returnNode(self) -> Node:  # noqa: N802  PyTorch's name
        """Return the node whose inputs are the outputs."""
        return self.tail

    def owningNode(self) -> Node | None:  # noqa: N802  PyTorch's name
        """Return the node that holds the block."""
        return self.owner

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:  # noqa: N802  PyTorch's name
        """Return the first node of a kind."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:  # noqa: N802  PyTorch's name
        """Return all nodes of a kind."""
        return [node for node in self.all_nodes(recurse) if node.op == kind]

    def all_nodes(self, recurse: bool = True) -> Iterator[Node]:
        """Return the nodes, each followed by those of its blocks."""
        for node in list(self.nodes_):
            yield node
            for block in node.blocks_ if recurse else ():
                yield from block.all_nodes()


class Graph(Block):
    """The graph of a function: its outermost block."""

    __slots__ = ("_count", "_names")

    def __init__(self) -> None:
        self._count = 0
        self._names: dict[Value, str] = {}
        super().__init__(self)

    def number(self) -> int:
        """Return the next number for a value without a name."""
        self._count += 1
        return self._count

    def create(self, op: str, inputs: Sequence[Value] = (), outputs: int = 1, **attributes: Any) -> Node:
        """Return a node that is in no block yet, with outputs that are tensors."""
        node = Node(self, op, inputs, **attributes)
        for _ in range(outputs):
            node.add_output(TensorType())
        return node

    def appendNode(self, node: Node) -> Node:  # noqa: N802  PyTorch's name
        """Add a node at the end."""
        return self.append(node)

    def addInput(self, name: str = "") -> Value:  # noqa: N802  PyTorch's name
        """Add an input that is a tensor."""
        return self.add_input(TensorType(), name)

    def registerOutput(self, value: Value) -> int:  # noqa: N802  PyTorch's name
        """Add an output and return its position."""
        self.add_output(value)
        return len(self.tail.inputs_) - 1

    def name_of(self, value: Value) -> str:
        """Return the name of a value in the text."""
        names = _names(self)
        return names.get(value, value.name or str(value.serial))

    def str(self, print_source_ranges: bool = True) -> _Text:
        """Return the text, with places in the source on request."""
        names = _names(self)
        inputs = ",\n      ".join(f"%{names[v]} : {v.kind}" for v in self.head.outputs_)
        body = "".join(line for node in self.nodes_ for line in _lines(node, 1, names, print_source_ranges))
        results = ", ".join("%" + names[v] for v in self.tail.inputs_)
        return f"graph({inputs}):\n{body}  return ({results})\n"

    def __str__(self) -> _Text:
        return self.str()

    def __repr__(self) -> _Text:
        return self.str()


def _names(graph: Graph) -> dict[Value, str]:
    """Return a unique name for each value: numbers, and names from the source that carry a number from their second."""
    names: dict[Value, str] = {}
    taken: set[str] = set()
    counts: dict[str, int] = {}

    def add(value: Value) -> None:
        if not value.name:
            names[value] = str(value.serial)
            return
        base = value.name
        name = f"{base}.1" if value.owner.op != "prim::Param" else base
        while name in taken:
            counts[base] = counts.get(base, 1) + 1
            name = f"{base}.{counts[base]}"
        taken.add(name)
        names[value] = name

    for value in graph.head.outputs_:
        add(value)
    for node in graph.all_nodes():
        for value in node.outputs_:
            add(value)
        for block in node.blocks_:
            for value in block.head.outputs_:
                add(value)
    return names


_HIDDEN: Final = frozenset({"callee", "signature", "type"})


def _attribute_text(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, bool):
        return str(int(value))
    if hasattr(value, "shape"):
        return "<Tensor>" if len(value.shape) else "{" + f"{value.item()}" + "}"
    return str(value)


def _lines(node: Node, depth: int, names: dict[Value, str] | None = None, places: bool = True) -> Iterator[str]:
    names = _names(node.graph) if names is None else names
    shown = [(n, v) for n, v in node.attributes.items() if n not in _HIDDEN and v is not None]
    attributes = "[" + ", ".join(f"{n}={_attribute_text(v)}" for n, v in shown) + "]" if shown else ""
    outputs = ", ".join(f"%{names[v]} : {v.kind}" for v in node.outputs_)
    inputs = ", ".join("%" + names.get(v, "?") for v in node.inputs_)
    place = f" # {node.place.short()}" if places and node.place is not None else ""
    if node.op == "prim::Constant" and isinstance(node.outputs_[0].kind, (NoneType, FunctionType)):
        attributes = f'[name="{node.attributes["value"].name}"]' if node.attributes["value"] is not None else ""
    inputs = f"({inputs})"
    yield f"{'  ' * depth}{outputs}{' = ' if outputs else ''}{node.op}{attributes}{inputs}{place}\n"
    for number, block in enumerate(node.blocks_):
        given = ", ".join(f"%{names[v]} : {v.kind}" for v in block.head.outputs_)
        yield f"{'  ' * (depth + 1)}block{number}({given}):\n"
        for inner in block.nodes_:
            yield from _lines(inner, depth + 2, names, places)
        results = ", ".join("%" + names.get(v, "?") for v in block.tail.inputs_)
        yield f"{'  ' * (depth + 2)}-> ({results})\n"
