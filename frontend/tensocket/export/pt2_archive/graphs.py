"""Graphs from JSON."""

from __future__ import annotations

import operator
from typing import Any, Final

from tensocket._C import _set_grad_enabled
from tensocket.errors import SerializationError
from tensocket.fx.graph import Graph
from tensocket.fx.node import Node

from ..graph_signature import ConstantArgument, InputKind, InputSpec, SymIntArgument, TensorArgument
from ..guards import local_name
from ..symbols import Expression, text_of
from ..values import SymbolicSize
from .arguments import Json, entry_of, read_argument, read_float
from .input_sizes import InputSizes
from .names import identifier_of
from .targets import target_of_name
from .weights import read_form, read_size

#: PyTorch's name for a block with or without gradients: its nodes are a graph of their own in the file.
_GRAD_BLOCK: Final = "torch.ops.higher_order.wrap_with_set_grad_enabled"
_POSITIONAL, _KEYWORD = 1, 2
_NUMBERS: Final = ("sym_int_values", "sym_float_values", "sym_bool_values")


class GraphReader:
    """Reads the graph of a program.

    Args:
        text: The graph.
        sizes: The symbols of the program's sizes.

    Attributes:
        graph: The graph.
        sources: How messages call the arguments.
        expected: The value of each argument that is not a tensor, and the form of each other one.
        sizes: Expressions of the arguments' sizes, as ``InputGuards`` gets them.
    """

    def __init__(self, text: Json, sizes: InputSizes) -> None:
        self.graph = Graph()
        self.sources: list[str] = []
        self.expected: list[Any] = []
        self.sizes: dict[tuple[int, int | None], Expression] = {}
        self._text, self._symbols = text, sizes
        self._nodes: dict[str, Node] = {}
        #: Whether gradients are on, as far as the graph has said so.
        self._grad: bool | None = None

    def node(self, name: str) -> Node:
        """Return the node with a name.

        Raises:
            ValueError: There is none.
        """
        found = self._nodes.get(name)
        if found is None:
            raise ValueError(f"{str(name)[:80]!r} is used before it is made")
        return found

    def places(self) -> dict[str, Expression]:
        """Return the expressions of all sizes of arguments by ``L['x'].size()[0]``."""
        found = {f"{local_name(self.sources[at])}.size()[{k}]": e for (at, k), e in self.sizes.items()}
        for at, form in enumerate(self.expected):
            for k, size in enumerate(getattr(form, "shape", ())):
                found.setdefault(f"{local_name(self.sources[at])}.size()[{k}]", int(size))
        return found

    def read(self, specs: list[InputSpec], sources: list[str]) -> None:
        """Read inputs, calls and outputs.

        Args:
            specs: The inputs of the signature.
            sources: How messages call the arguments.

        Raises:
            ValueError: The text is not a graph.
            SerializationError: A call is not supported.
        """
        self.sources = sources
        if sum(x.kind is InputKind.USER_INPUT for x in specs) != len(sources):
            raise ValueError("the structure of the arguments has another number of inputs")
        for spec in specs:
            self._input(spec)
        self._calls(self._text, self._nodes)
        for node in self.graph.nodes:
            self._set_container(node)
        self.graph.output(tuple([read_argument(x, self.node) for x in self._text["outputs"]]))
        self.graph.lint()

    # ---- inputs

    def _input(self, spec: InputSpec) -> None:
        at = len(self.expected)
        is_user = spec.kind is InputKind.USER_INPUT
        if isinstance(spec.arg, ConstantArgument):
            spec.arg.name = spec.arg.name or f"arg_{at}"
        name = spec.arg.name
        node = self._nodes[name] = self._named("placeholder", name, name)
        node.target = node.name
        spec.arg.name = node.name
        if isinstance(spec.arg, ConstantArgument):
            node.meta["val"] = spec.arg.value
        elif isinstance(spec.arg, SymIntArgument):
            value = self._text["sym_int_values"][name]
            self.sizes[at, None] = expression = self._symbols.size(value)
            self._note_example(expression, read_size(value))
            node.meta["val"] = SymbolicSize(read_size(value), text_of(expression, str))
        elif isinstance(spec.arg, TensorArgument):
            node.meta["val"] = self._form(self._text["tensor_values"][name], at if is_user else None)
        else:
            raise SerializationError("export.load", f"an input {node.name} of floats or truth values",
                                     "inputs are tensors, integers and constants", "export the program without it")
        if is_user:
            self.expected.append(node.meta["val"])

    def _form(self, meta: Json, at: int | None) -> Any:
        """Return the form of a tensor; ``at`` is its number among the arguments."""
        shape = []
        for k, value in enumerate(meta["sizes"]):
            given = read_size(value)
            if entry_of(value)[0] == "as_int":
                shape.append(given)
                continue
            if at is not None:
                self.sizes[at, k] = expression = self._symbols.size(value)
                self._note_example(expression, given)
            shape.append(SymbolicSize(given, self._symbols.shown(value["as_expr"]["expr_str"])))
        return read_form(meta, shape)

    def _note_example(self, expression: Expression, size: int) -> None:
        """Note the example of a symbol that is a size itself."""
        for root in self._symbols.roots:
            if expression is root:
                root.given = size
                root.low = min(root.low, size)

    def _named(self, op: str, target: Any, name: str, args: Any = (), kwargs: Any = None) -> Node:
        """Make a node with a name, which generated code contains.

        Raises:
            ValueError: It is not an identifier, or taken.
        """
        name = identifier_of(name)
        node = self.graph.create_node(op, target, args, kwargs, name=name)
        if node.name != name and all(name != x.name for x in self.graph.nodes):
            node.name = name  # as in PyTorch, an argument may be called input
        return node

    # ---- calls

    def _calls(self, text: Json, nodes: dict[str, Node]) -> None:
        for call in text["nodes"]:
            if call["target"] == _GRAD_BLOCK:
                self._grad_block(call, nodes)
            else:
                self._call(call, text, nodes)

    def _call(self, call: Json, text: Json, nodes: dict[str, Node]) -> None:
        def node_of(name: str) -> Node:
            if name not in nodes:
                raise ValueError(f"{str(name)[:80]!r} is used before it is made")
            return nodes[name]

        args, kwargs = [], {}
        for given in call["inputs"]:
            value = read_argument(given["arg"], node_of)
            if given.get("kind") == _KEYWORD:
                kwargs[identifier_of(given["name"])] = value
            else:
                args.append(value)
        outputs = [entry_of(x) for x in call["outputs"]]
        is_single = len(outputs) == 1 and outputs[0][0] != "as_tensors"
        name = call.get("name") or (_name_of(outputs[0]) if is_single else "call")
        node = self._named("call_function", target_of_name(call["target"]), name, tuple(args), kwargs)
        node.meta.update(_metadata(call.get("metadata") or {}))
        if is_single:
            self._know(_name_of(outputs[0]), node, text, nodes)
            return
        parts = outputs[0][1] if len(outputs) == 1 else [x[1] for x in outputs]
        for k, part in enumerate(parts):
            if isinstance(part, dict) and "name" in part:
                item = self._named("call_function", operator.getitem, part["name"], (node, k))
                item.meta.update({key: x for key, x in node.meta.items() if key != "val"})
                self._know(part["name"], item, text, nodes)

    def _know(self, name: str, node: Node, text: Json, nodes: dict[str, Node]) -> None:
        """Let a name stand for a node, and note the form of its value."""
        nodes[name] = node
        if name in text["tensor_values"]:
            node.meta["val"] = self._form(text["tensor_values"][name], None)
        for kind in _NUMBERS:
            value = text.get(kind, {}).get(name)
            if value is not None:
                node.meta["val"] = self._number(value)

    def _number(self, value: Json) -> Any:
        kind, content = entry_of(value)
        if kind == "as_expr":
            hint = content.get("hint")
            example = entry_of(hint)[1] if hint else None
            if type(example) is int:
                return SymbolicSize(example, self._symbols.shown(content["expr_str"]))
            return example if isinstance(example, (bool, float)) else None
        return read_float(content) if kind == "as_float" else bool(content) if kind == "as_bool" else int(content)

    @staticmethod
    def _set_container(node: Node) -> None:
        """Note the values of the items that the graph takes out of a container."""
        items = {user.args[1]: user.meta.get("val") for user in node.users if user.target is operator.getitem}
        if "val" not in node.meta and items and all(type(k) is int and 0 <= k < 1000 for k in items):
            node.meta["val"] = tuple([items.get(k) for k in range(max(items) + 1)])

    # ---- blocks without gradients

    def _grad_block(self, call: Json, nodes: dict[str, Node]) -> None:
        """Read a block with or without gradients: its nodes, between calls that switch."""
        enabled, block, *given = [x["arg"] for x in call["inputs"]]
        wanted = entry_of(enabled)
        if wanted[0] != "as_bool" or entry_of(block)[0] != "as_graph":
            raise ValueError("a block of gradients without a mode or a graph")
        inner = entry_of(block)[1]["graph"]
        names = [entry_of(x)[1]["name"] for x in inner["inputs"]]
        scope = dict(zip(names, [read_argument(x, self.node if nodes is self._nodes else nodes.__getitem__)
                                 for x in given], strict=True))
        outer, self._grad = (not wanted[1] if self._grad is None else self._grad), bool(wanted[1])
        self._switch(self._grad)
        self._calls(inner, scope)
        self._switch(outer)
        self._grad = outer
        outputs = [entry_of(x) for x in call["outputs"]]
        found = [x["name"] for x in outputs[0][1]] if outputs and outputs[0][0] == "as_tensors" else [
            _name_of(x) for x in outputs]
        for name, result in zip(found, inner["outputs"], strict=True):
            nodes[name] = scope[_name_of(entry_of(result))]

    def _switch(self, enabled: bool) -> None:
        self.graph.create_node("call_function", _set_grad_enabled, (enabled,), {}, name="_set_grad_enabled")


def _name_of(output: tuple[str, Any]) -> str:
    kind, content = output
    name = content.get("name", content.get("as_name")) if isinstance(content, dict) else None
    if not isinstance(name, str):
        raise ValueError(f"a result of kind {kind} without a name")
    return name


def _metadata(text: Json) -> Json:
    """Return notes about a node as graphs hold them."""
    found: Json = {name: str(text[name]) for name in ("stack_trace",) if name in text}
    stack = [entry.split(",", 2) for entry in str(text.get("nn_module_stack", "")).split(";")]
    if all(len(x) == 3 for x in stack):
        found["nn_module_stack"] = {key: (path, kind) for key, path, kind in stack}
    if "torch_fn" in text:
        found["torch_fn"] = tuple(str(text["torch_fn"]).split(";"))
    return found
