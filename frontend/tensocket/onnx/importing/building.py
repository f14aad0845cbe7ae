"""Building graph modules from the graphs of a model."""

from __future__ import annotations

import inspect
import keyword
import operator
import re
from typing import Any, Final

from tensocket.fx._lazy_graph_module import _make_graph_module
from tensocket.fx.graph import Graph
from tensocket.fx.graph_module import GraphModule
from tensocket.fx.node import Node
from tensocket.nn import Module, Parameter
from tensocket_operators import Tensor

from ..operators import Entry, control, find, generation
from ..operators.values import text
from ..packages import OnnxModelError, UnsupportedOnnxOperators
from .files import Tensors

#: Attributes of versions before 6, which tell an executor whether it may overwrite inputs.
_IGNORED: Final = frozenset({"consumed_inputs"})
#: Elements of the largest constant that an operator gets as a list instead of a tensor.
_SMALL: Final = 64
_ADVICE: Final = "check the model with onnx.checker"


class Model:
    """The parts that all graphs of a model share.

    Args:
        opsets: Versions by domain.
        tensors: Conversion of tensors.

    Attributes:
        unsupported: Operators without a function, with the nodes that have them.
    """

    def __init__(self, opsets: dict[str, int], tensors: Tensors) -> None:
        self.opsets, self.tensors = opsets, tensors
        self.unsupported: dict[str, list[str]] = {}

    def entry(self, node: Any) -> Entry | None:
        """Return the function of a node; None, and a note, if there is none."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        found = find(domain, node.op_type, self.opsets.get(domain, 0))
        if found is None:
            label = f"{domain or 'ai.onnx'}::{node.op_type} of version {self.opsets.get(domain, 0)}"
            self.unsupported.setdefault(label, []).append(node.name or ", ".join(node.output))
        return found

    def check(self) -> None:
        """Refuse operators without a function.

        Raises:
            UnsupportedOnnxOperators: There are some; all are listed.
        """
        if not self.unsupported:
            return
        listed = "; ".join([f"{label} (at {', '.join(nodes[:3])}{', ...' if len(nodes) > 3 else ''})"
                            for label, nodes in sorted(self.unsupported.items())])
        error = UnsupportedOnnxOperators("load_graph_module", f"a model with {listed}", "operators are those of "
                                         "docs/onnx.md", "express the model with other operators")
        error.operators = tuple(sorted(self.unsupported))
        raise error


class GraphBuilder:
    """Builds the graph module of one graph.

    Args:
        model: The model.
        proto: The graph.
        captured: Names of values around the graph that it reads.
    """

    def __init__(self, model: Model, proto: Any, captured: list[str]) -> None:
        self._model, self._proto, self._captured = model, proto, captured
        self._graph = Graph()
        self._root = Module()
        self._nodes: dict[str, Any] = {}
        self._constants: dict[str, tuple[Any, bool]] = {}

    def build(self, *, name: str, single: bool) -> GraphModule:
        """Return the module; ``single`` returns a result alone instead of in a list of one.

        Raises:
            OnnxModelError: The graph is not in order.
        """
        self._initializers()
        for value in self._proto.input:
            if value.name not in self._constants:
                self._define(value.name, self._graph.placeholder(_word(value.name)))
        for outer in self._captured:
            self._define(outer, self._graph.placeholder(_word(outer)))
        for node in self._proto.node:
            self._node(node)
        results = [self._value(value.name, "an output") for value in self._proto.output]
        self._graph.output(results[0] if single and len(results) == 1 else tuple(results))
        made: GraphModule = _make_graph_module(self._root, self._graph, name)
        return made

    # ---- values

    def _define(self, name: str, node: Any) -> None:
        if name in self._nodes or name in self._constants:
            raise OnnxModelError("load_graph_module", f"the value {name!r}", "a value is defined once", _ADVICE)
        self._nodes[name] = node

    def _value(self, name: str, user: str) -> Any:
        """Return the node of a value; constants become attributes at their first use."""
        if name in self._nodes:
            return self._nodes[name]
        if name not in self._constants:
            raise OnnxModelError("load_graph_module", f"the value {name!r}, which {user} reads", "values are defined "
                                 "before they are read; the graph has a cycle, or lacks a node", _ADVICE)
        value, trained = self._constants[name]
        self._nodes[name] = self._attribute(name, value, trained)
        return self._nodes[name]

    def _initializers(self) -> None:
        tensors = self._model.tensors
        for proto in self._proto.initializer:
            self._hold(proto.name, tensors.value(proto), trained=True)
        for proto in self._proto.sparse_initializer:
            self._hold(proto.values.name, tensors.sparse(proto), trained=True)

    def _hold(self, name: str, value: Any, *, trained: bool) -> None:
        if name in self._constants:
            raise OnnxModelError("load_graph_module", f"the value {name!r}", "a value is defined once", _ADVICE)
        self._constants[name] = (value, trained)

    def _attribute(self, name: str, value: Any, trained: bool) -> Node:
        """Return a node that reads an attribute: a parameter, a buffer, or another object."""
        path = _path(name, self._root)
        *parents, own = path.split(".")
        place = self._root
        for part in parents:
            if part not in place._modules:
                place.add_module(part, Module())
            place = getattr(place, part)
        if not isinstance(value, Tensor):
            setattr(place, own, value)
        elif trained and value.dtype.is_floating_point:
            place.register_parameter(own, Parameter(value))
        else:
            place.register_buffer(own, value, persistent=trained)
        return self._graph.create_node("get_attr", path, name=_word(name))

    # ---- nodes

    def _node(self, proto: Any) -> None:
        entry = self._model.entry(proto)
        label = f"the node {proto.name or proto.op_type!r}"
        if entry is None:
            for name in filter(None, proto.output):
                self._define(name, None)
            return
        if proto.op_type == "Constant" and proto.domain in ("", "ai.onnx"):
            self._constant(proto)
            return
        args = [self._argument(name, label, k in entry.host) for k, name in enumerate(proto.input)]
        kwargs = self._attributes(proto, label)
        if entry.counts:
            kwargs["outputs"] = len(proto.output)
        try:
            inspect.signature(entry.function).bind(*args, **kwargs)
        except TypeError as error:
            raise OnnxModelError("load_graph_module", f"{label} of {proto.op_type} ({error})", "inputs and attributes "
                                 "are those of the operator in its version", _ADVICE) from None
        names = [_word(name) for name in proto.output if name] or [proto.op_type.lower()]
        made = self._graph.create_node("call_function", entry.function, tuple(args), kwargs,
                                       name=names[0] if len(proto.output) == 1 else proto.op_type.lower())
        made.meta["onnx_node"] = proto.name or proto.op_type
        if len(proto.output) == 1:
            self._define(proto.output[0], made)
            return
        for k, name in enumerate(proto.output):
            if name:
                self._define(name, self._graph.create_node("call_function", operator.getitem, (made, k),
                                                           name=_word(name)))

    def _constant(self, proto: Any) -> None:
        given = {}
        for attribute in proto.attribute:
            if attribute.name == "value":
                given["value"] = self._model.tensors.value(attribute.t)
            elif attribute.name == "sparse_value":
                given["value"] = self._model.tensors.sparse(attribute.sparse_tensor)
            else:
                given[attribute.name] = _plain(attribute)
        try:
            self._hold(proto.output[0], generation.constant(**given), trained=False)
        except TypeError as error:
            raise OnnxModelError("load_graph_module", f"the node {proto.name or 'Constant'!r} of Constant ({error})",
                                 "inputs and attributes are those of the operator in its version", _ADVICE) from None

    def _argument(self, name: str, label: str, host: bool) -> Any:
        """Return an argument; small integer constants of operators that read them on the host are lists."""
        if not name:
            return None
        if host and name not in self._nodes and name in self._constants:
            value = self._constants[name][0]
            if isinstance(value, Tensor) and not value.dtype.is_floating_point and value.numel() <= _SMALL:
                return value.reshape(-1).tolist()
        return self._value(name, label)

    def _attributes(self, proto: Any, label: str) -> dict[str, Any]:
        given = {}
        for attribute in proto.attribute:
            if attribute.name in _IGNORED:
                continue
            kind = attribute.type
            if kind == attribute.GRAPH:
                given[attribute.name] = self._subgraph(attribute, label)
            elif kind == attribute.TENSOR:
                word = _word(f"{proto.output[0] if proto.output else proto.op_type}_{attribute.name}")
                given[attribute.name] = self._attribute(word, self._model.tensors.value(attribute.t), False)
            elif kind == attribute.TYPE_PROTO:
                continue
            elif kind in (attribute.FLOAT, attribute.INT, attribute.STRING, attribute.FLOATS, attribute.INTS,
                          attribute.STRINGS):
                given[attribute.name] = _plain(attribute)
            else:
                raise OnnxModelError("load_graph_module", f"{label} with the attribute {attribute.name!r}",
                                     "attributes are numbers, strings, lists of these, tensors and graphs", _ADVICE)
        return given

    def _subgraph(self, attribute: Any, label: str) -> Node:
        """Return a node that makes a subgraph a function of its inputs alone."""
        captured = sorted(free_names(attribute.g))
        outer = [self._value(name, label) for name in captured]
        made = GraphBuilder(self._model, attribute.g, captured).build(name="Subgraph", single=False)
        path = _path(_word(attribute.name), self._root)
        self._root.add_module(path, made)
        body = self._graph.create_node("get_attr", path, name=path)
        return self._graph.create_node("call_function", control.bind, (body, *outer), name=f"{path}_of_values")


def free_names(proto: Any) -> set[str]:
    """Return the names of values around a graph that it reads."""
    own = {value.name for value in proto.input} | {t.name for t in proto.initializer} | {
        t.values.name for t in proto.sparse_initializer}
    used: set[str] = set()
    for node in proto.node:
        used |= {name for name in node.input if name and name not in own}
        for attribute in node.attribute:
            if attribute.HasField("g"):
                used |= free_names(attribute.g) - own
        own |= set(node.output)
    return used | {value.name for value in proto.output if value.name not in own}


def _plain(attribute: Any) -> Any:
    """Return an attribute that is a number, a string or a list of these."""
    kind = attribute.type
    try:
        return _value_of(attribute, kind)
    except UnicodeDecodeError as error:
        raise _not_utf8(f"the attribute {attribute.name!r}") from error


def _not_utf8(given: str) -> OnnxModelError:
    return OnnxModelError("load_graph_module", given, "names and strings are UTF-8", _ADVICE)


def _value_of(attribute: Any, kind: int) -> Any:
    if kind == attribute.FLOAT:
        return attribute.f
    if kind == attribute.INT:
        return attribute.i
    if kind == attribute.STRING:
        return text(attribute.s)
    if kind == attribute.STRINGS:
        return [text(s) for s in attribute.strings]
    return list(attribute.floats if kind == attribute.FLOATS else attribute.ints)


def _word(name: str) -> str:
    """Return a name as an identifier.

    Raises:
        OnnxModelError: It is not UTF-8.
    """
    if not isinstance(name, str):  # protobuf hands out other names as bytes
        raise _not_utf8(f"the name {name!r}")
    word = re.sub(r"\W", "_", name)
    return f"_{word}" if not word or word[0].isdigit() or keyword.iskeyword(word) else word


def _path(name: str, root: Module) -> str:
    """Return a path for an attribute: the name, if it is one, and free."""
    parts = name.split(".")
    fits = all(part.isdigit() or (part.isidentifier() and not keyword.iskeyword(part)) for part in parts)
    path = name if fits and not hasattr(GraphModule, parts[0]) else f"value_{_word(name)}"
    here: Any = root
    for k, part in enumerate(path.split(".")):
        last = k == path.count(".")
        if (last and hasattr(here, part)) or (not last and hasattr(here, part) and part not in here._modules):
            return _free(f"value_{_word(name)}", root)
        if not last:
            if part not in here._modules:
                break
            here = here._modules[part]
            if isinstance(here, GraphModule):
                return _free(f"value_{_word(name)}", root)
    return path


def _free(word: str, root: Module) -> str:
    number, path = 0, word
    while hasattr(root, path):
        number += 1
        path = f"{word}_{number}"
    return path
