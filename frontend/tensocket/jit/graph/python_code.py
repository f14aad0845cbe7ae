"""Graphs as Python functions: each graph is compiled once, and runs as fast as a function that a programmer wrote."""

from __future__ import annotations

import ast
import builtins
import enum
import math
from collections.abc import Callable
from typing import Any, Final

from tensocket.jit.frontend import ScriptError
from tensocket.jit.graph import runtime
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.code_writer import CodeWriter
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.graph.ir import Block, Graph, Node, Value
from tensocket.jit.graph.operators import TEMPLATES, find

#: Names that generated code knows, besides those of the objects that it refers to.
_GLOBALS: Final[dict[str, Any]] = {"_runtime": runtime, "math": math}


class PythonWriter(CodeWriter):
    """Writer of the Python function of a graph.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.globals: dict[str, Any] = dict(_GLOBALS)
        self.objects: dict[int, str] = {}
        super().__init__(graph, {*dir(builtins), *_GLOBALS})

    def object(self, thing: Any, base: str = "_object") -> str:
        """Return the global name of an object."""
        if id(thing) not in self.objects:
            name = self.new_name("_" + getattr(thing, "__name__", base).lstrip("_<").rstrip(">"))
            self.objects[id(thing)] = name
            self.globals[name] = thing
        return self.objects[id(thing)]

    def constant(self, value: Value) -> str:
        """Return a constant as an expression."""
        return self.literal(value.owner.attributes["value"])

    def literal(self, thing: Any) -> str:
        """Return a Python value as an expression."""
        if isinstance(thing, enum.Enum):
            return self.object(thing, thing.name)
        if thing is None or isinstance(thing, (bool, int, str)):
            return repr(thing)
        if isinstance(thing, float):
            return repr(thing) if math.isfinite(thing) else f'float("{thing}")'
        if isinstance(thing, complex):
            return f"complex({self.literal(thing.real)}, {self.literal(thing.imag)})"
        if isinstance(thing, list):
            return "[" + ", ".join(map(self.literal, thing)) + "]"
        if type(thing) is tuple:
            return "(" + "".join(f"{self.literal(each)}, " for each in thing) + ")"
        if isinstance(thing, dict):
            return "{" + ", ".join(f"{self.literal(k)}: {self.literal(v)}" for k, v in thing.items()) + "}"
        if isinstance(thing, CompiledFunction):
            return self.object(thing.entry, thing.name)
        return self.object(thing, "constant")

    # ---- expressions

    def expression(self, node: Node) -> str:
        """Return a node with one output as an expression."""
        special = _EXPRESSIONS.get(node.op)
        if special is not None:
            text = special(self, node)
            if text is not None:
                return text  # type: ignore[no-any-return]
        arguments = [self.use(value) for value in node.inputs_]
        if node.op == "aten::len" and node.inputs_[0].kind is t.TENSOR:
            return f"_runtime.tensor_length({arguments[0]})"
        named = any(node.keywords)
        template = TEMPLATES.get((node.op, len(arguments)))
        if template is not None and not named:
            return template.format(*arguments)
        method = node.attributes.get("method")
        if method is not None:
            given = self.arguments(node.keywords[1:], arguments[1:])
            return f"{arguments[0]}.{method}({given})"
        callee = node.attributes.get("callee")
        if isinstance(callee, CompiledFunction):
            return f"{self.object(callee.entry, callee.name)}({', '.join(arguments)})"
        if callee is None:
            callee = find(node.op.rpartition("::")[2]) or getattr(runtime, node.op.rpartition("::")[2], None)
        if callee is None:
            raise ScriptError(node.op, "the operator is unknown here", "use another", node.place)
        return f"{self.object(callee)}({self.arguments(node.keywords, arguments)})"

    @staticmethod
    def arguments(names: list[str], values: list[str]) -> str:
        """Return the arguments of a call."""
        names = [*names, *[""] * (len(values) - len(names))]
        return ", ".join(f"{name}={value}" if name else value for name, value in zip(names, values, strict=True))

    # ---- statements

    def statement(self, node: Node, depth: int) -> bool:
        """Write a node that needs a statement of its own; return whether it did."""
        special = _STATEMENTS.get(node.op)
        if special is not None:
            special(self, node, depth)
        return special is not None

    def later(self, block: Block, depth: int, place: Any) -> tuple[str, list[str]]:
        """Write a block as a function; return its name and the variables that it takes."""
        name, free = self.new_name("_later"), self.free_values(block)
        self.line(depth, f"def {name}({', '.join(free)}):", place)
        self.block(block, depth + 1, ["_result"])
        self.line(depth + 1, "return _result", place)
        return name, free

    def free_values(self, block: Block) -> list[str]:
        """Return the variables of the values that a block takes from outside."""
        inner = set(block.head.outputs_)
        used: dict[str, None] = {}
        nodes = list(block.all_nodes())
        for node in nodes:
            inner.update(node.outputs_)
            for each in node.blocks_:
                inner.update(each.head.outputs_)
        tails = [each.tail for node in nodes for each in node.blocks_]
        for node in [*nodes, *tails, block.tail]:
            for value in node.inputs_:
                if value not in inner and (value.owner.op != "prim::Constant"):
                    used[self.use(value)] = None
        return list(used)


def _get_attribute(w: PythonWriter, node: Node) -> str:
    owner, name = node.inputs_[0], node.attributes["name"]
    kind, text = owner.kind, w.use(owner)
    assert isinstance(kind, t.ClassType)
    if not kind.is_module or kind.is_interface:
        return f"{text}.{name}"
    attribute = kind.attributes[name]
    if isinstance(attribute, t.ClassType) and attribute.is_module:
        return f"{text}._modules[{name!r}]"
    if name in kind.parameters:
        return f"{text}._parameters[{name!r}]"
    return f"{text}._buffers[{name!r}]" if name in kind.buffers else f"{text}.{name}"


def _set_attribute(w: PythonWriter, node: Node, depth: int) -> None:
    owner, name = node.inputs_[0], node.attributes["name"]
    kind = owner.kind
    assert isinstance(kind, t.ClassType)
    target = f"{w.use(owner)}.{name}"
    if kind.is_module:
        place = "_parameters" if name in kind.parameters else "_buffers" if name in kind.buffers else "__dict__"
        target = f"{w.use(owner)}.{place}[{name!r}]"
    w.line(depth, f"{target} = {w.use(node.inputs_[1])}", node.place)


def _call_method(w: PythonWriter, node: Node) -> str | None:
    kind = node.inputs_[0].kind
    arguments = [w.use(value) for value in node.inputs_]
    if isinstance(kind, t.InterfaceType):
        return f"_runtime.method_of({arguments[0]}, {node.attributes['name']!r})({', '.join(arguments)})"
    return None


def _tuple(w: PythonWriter, node: Node) -> str:
    kind = node.outputs_[0].kind
    parts = "".join(f"{w.use(value)}, " for value in node.inputs_)
    if isinstance(kind, t.TupleType) and kind.python is not None:
        return f"{w.object(kind.python)}({parts})"
    return f"({parts})"


def _list(w: PythonWriter, node: Node) -> str:
    return "[" + ", ".join(w.use(value) for value in node.inputs_) + "]"


def _dict(w: PythonWriter, node: Node) -> str:
    parts = [w.use(value) for value in node.inputs_]
    return "{" + ", ".join(f"{k}: {v}" for k, v in zip(parts[::2], parts[1::2], strict=True)) + "}"


def _unpack(w: PythonWriter, node: Node, depth: int) -> None:
    targets = "".join(f"{w.name(value)}, " for value in node.outputs_)
    w.line(depth, f"{targets or '[]'} = {w.use(node.inputs_[0])}", node.place)


def _slice(w: PythonWriter, node: Node) -> str:
    owner, *rest = node.inputs_
    if owner.kind is not t.TENSOR:
        bounds = [w.use(value) for value in rest]
        return f"{w.use(owner)}[{':'.join('' if bound == 'None' else bound for bound in bounds)}]"
    dim, *given = [w.use(value) for value in rest] + ["0", "None", "None", "1"][len(rest):]
    bounds = ["" if bound in ("None", "9223372036854775807") else bound for bound in given]
    if dim == "0":
        return f"{w.use(owner)}[{':'.join(bounds[:2] if bounds[2] == '1' else bounds)}]"
    return f"_runtime.slice_dim({w.use(owner)}, {dim}, {', '.join(given)})"


def _power(w: PythonWriter, node: Node) -> str | None:
    if any(node.keywords) or len(node.inputs_) != 2:
        return None
    text = f"({w.use(node.inputs_[0])} ** {w.use(node.inputs_[1])})"
    integers = all(value.kind in (t.INT, t.BOOL) for value in node.inputs_)
    return f"float{text}" if integers and node.outputs_[0].kind is t.FLOAT else text


def _raise(w: PythonWriter, node: Node, depth: int) -> None:
    w.line(depth, f"raise _runtime.raised({w.use(node.inputs_[0])}, {node.attributes['cls']!r})", node.place)


def _create(w: PythonWriter, node: Node, depth: int) -> None:
    kind = node.outputs_[0].kind
    assert isinstance(kind, t.ClassType)
    w.line(depth, f"{w.name(node.outputs_[0])} = _runtime.new_object({w.object(kind, 'type')})", node.place)


def _with(w: PythonWriter, node: Node, depth: int) -> None:
    manager = node.inputs_[0]
    kind = manager.kind
    text = f"_runtime.leaving({w.use(manager)})"
    if isinstance(kind, t.ClassType):
        text = f"_runtime.leaving({w.use(manager)}, {w.object(kind.method('__exit__').entry)})"
    w.line(depth, f"with {text}:", node.place)
    w.block(node.blocks_[0], depth + 1, [w.name(value) for value in node.outputs_])


def _is_instance(w: PythonWriter, node: Node) -> str:
    return f"_runtime.is_of({w.use(node.inputs_[0])}, {w.object(node.attributes['types'], 'types')})"


def _fork(w: PythonWriter, node: Node, depth: int) -> None:
    name, free = w.later(node.blocks_[0], depth, node.place)
    call = "fork" if node.op == "prim::fork" else "awaitable"
    w.line(depth, f"{w.name(node.outputs_[0])} = _runtime.{call}({', '.join([name, *free])})", node.place)


def _print(w: PythonWriter, node: Node, depth: int) -> None:
    w.line(depth, f"print({', '.join(w.use(value) for value in node.inputs_)})", node.place)
    for value in node.outputs_:
        if value.uses_:
            w.line(depth, f"{w.name(value)} = None", node.place)


def _attribute_of(w: PythonWriter, node: Node) -> str | None:
    name = node.op.removeprefix("prim::")
    return f"{w.use(node.inputs_[0])}.{name}"


_EXPRESSIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "prim::GetAttr": _get_attribute, "prim::TupleConstruct": _tuple, "prim::ListConstruct": _list,
    "prim::DictConstruct": _dict, "aten::slice": _slice, "aten::pow": _power, "prim::isinstance": _is_instance,
    "prim::CallMethod": _call_method,
    "prim::PlainAttr": lambda w, n: f"{w.use(n.inputs_[0])}.{n.attributes['name']}",
    "prim::Enumname": lambda w, n: f"{w.use(n.inputs_[0])}.name",
    "prim::EnumName": lambda w, n: f"{w.use(n.inputs_[0])}.name",
    "prim::EnumValue": lambda w, n: f"{w.use(n.inputs_[0])}.value",
    "prim::Enter": lambda w, n: f"{w.use(n.inputs_[0])}.__enter__()",
    "aten::format": lambda w, n: f"{w.use(n.inputs_[0])}.format({', '.join(map(w.use, n.inputs_[1:]))})",
    "prim::min": lambda w, n: f"min({', '.join(map(w.use, n.inputs_))})",
    "prim::max": lambda w, n: f"max({', '.join(map(w.use, n.inputs_))})",
    "prim::shape": lambda w, n: f"list({w.use(n.inputs_[0])}.shape)",
    **{f"prim::{name}": _attribute_of for name in
       ("T", "H", "mT", "mH", "real", "imag", "ndim", "is_cuda", "is_cpu", "is_sparse", "is_sparse_csr",
        "is_quantized", "is_mps", "is_meta", "is_nested", "is_leaf", "is_xpu", "is_mkldnn", "itemsize", "nbytes",
        "name",
        "is_vulkan", "is_ipu", "is_mtia")},
}
_STATEMENTS: Final[dict[str, Callable[[Any, Any, int], None]]] = {
    "prim::SetAttr": _set_attribute, "prim::ListUnpack": _unpack, "prim::TupleUnpack": _unpack,
    "prim::RaiseException": _raise, "prim::CreateObject": _create, "prim::With": _with, "prim::fork": _fork,
    "prim::awaitable": _fork, "prim::Print": _print,
}


def build_entry(function: CompiledFunction) -> Callable[..., Any]:
    """Return the Python function that computes a graph. Its lines have the places of the script's source."""
    if function.graph is None:
        return function.python  # type: ignore[no-any-return]
    return compile_graph(function.graph, function.name, function.source.file if function.source else "<script>")


def _returned(texts: list[str]) -> str:
    """Return the expression for the results of a graph: none, one or a tuple."""
    return texts[0] if len(texts) == 1 else f"({''.join(text + ', ' for text in texts)})" if texts else "None"


def compile_graph(graph: Graph, name: str, file: str = "<script>") -> Callable[..., Any]:
    """Return the Python function that computes a graph; it takes the graph's inputs by position."""
    writer = PythonWriter(graph)
    arguments = ", ".join(writer.name(value) for value in graph.head.outputs_)
    writer.line(0, f"def _script({arguments}):", None)
    writer.body(graph, lambda outputs: _returned([writer.use(value) for value in outputs]))
    tree = ast.parse(writer.text())
    places = [place for _, _, place in writer.lines]
    for part in ast.walk(tree):
        if isinstance(part, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.excepthandler)):
            place = places[part.lineno - 1]
            part.lineno = part.end_lineno = 1 if place is None else place.file_line
            part.col_offset = 0 if place is None else place.column + place.source.indent
            part.end_col_offset = 0 if place is None else max(part.col_offset, place.end + place.source.indent)
    exec(compile(tree, file, "exec"), writer.globals)
    entry: Callable[..., Any] = writer.globals["_script"]
    entry.__name__ = entry.__qualname__ = name if name.isidentifier() else "script"
    entry._text = writer.text()  # type: ignore[attr-defined]
    return entry
