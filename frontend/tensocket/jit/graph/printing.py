"""Graphs as printed scripts: Python code that ``torch.jit`` reads back."""

from __future__ import annotations

import enum
import math
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.code_writer import CodeWriter
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.graph.ir import Graph, Node, Value
from tensocket.jit.graph.operators import TEMPLATES
from tensocket_operators import Tensor

_RESERVED: Final = frozenset({"torch", "ops", "CONSTANTS", "__torch__", "annotate", "unchecked_cast", "uninitialized",
                              "fork", "awaitable", "isinstance", "print", "range", "len", "int", "float", "bool", "str",
                              "list", "dict", "tuple", "complex", "min", "max", "inf", "nan"})


class Constants:
    """The constants of printed code that have no literal: tensors.

    Attributes:
        values: The constants, in order.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []

    def name(self, value: Any) -> str:
        """Return the name of a constant."""
        for k, known in enumerate(self.values):
            if known is value:
                return f"CONSTANTS.c{k}"
        self.values.append(value)
        return f"CONSTANTS.c{len(self.values) - 1}"

    @property
    def const_mapping(self) -> dict[str, Any]:
        """The constants by name."""
        return {f"c{k}": value for k, value in enumerate(self.values)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("c") and name[1:].isdigit():
            return self.values[int(name[1:])]
        raise AttributeError(name)


class ScriptWriter(CodeWriter):
    """Writer of the printed code of a graph.

    Args:
        graph: The graph.
        constants: The constants of the file.
        used: Collects the types and functions that the code names.
    """

    def __init__(self, graph: Graph, constants: Constants, used: list[Any]) -> None:
        self.constants = constants
        self.used = used
        super().__init__(graph, set(_RESERVED))

    def type_name(self, kind: t.JitType) -> str:
        """Return a type as an annotation."""
        note_types(kind, self.used)
        return kind.annotation_str

    def constant(self, value: Value) -> str:
        """Return a constant as an expression."""
        text = self.literal(value.owner.attributes["value"])
        kind = value.kind
        if kind is not t.NONE and value.owner.attributes["value"] is None and kind is not t.ANY:
            return f"annotate({self.type_name(kind)}, None)"
        if isinstance(kind, (t.ListType, t.DictType)) and not value.owner.attributes["value"]:
            return f"annotate({self.type_name(kind)}, {text})"
        return text

    def literal(self, thing: Any) -> str:
        """Return a Python value as an expression.

        Raises:
            ExportError: Printed code has no form for it.
        """
        import tensocket

        if isinstance(thing, enum.Enum):
            from tensocket.jit.annotations import enum_type

            kind = enum_type(type(thing))
            self.used.append(kind)
            return f"{kind.name}.{thing.name}"
        if thing is None or isinstance(thing, (bool, int, str)):
            return repr(thing) if not isinstance(thing, str) else _quoted(thing)
        if isinstance(thing, float):
            return repr(thing) if math.isfinite(thing) else f'float("{thing}")'
        if isinstance(thing, complex):
            return f"complex({self.literal(thing.real)}, {self.literal(thing.imag)})"
        if isinstance(thing, Tensor):
            return self.constants.name(thing)
        if isinstance(thing, (list, tuple)):
            inside = "".join(f"{self.literal(each)}, " for each in thing)
            return f"[{inside}]" if isinstance(thing, list) else f"({inside})"
        if isinstance(thing, dict):
            return "{" + "".join(f"{self.literal(k)}: {self.literal(v)}, " for k, v in thing.items()) + "}"
        if isinstance(thing, tensocket.device):
            return f"torch.device({_quoted(str(thing))})"
        if isinstance(thing, (tensocket.dtype, tensocket.layout, tensocket.memory_format)):
            return str(thing).replace("tensocket.", "torch.")
        if isinstance(thing, CompiledFunction):
            self.used.append(thing)
            return thing.qualified
        raise ExportError("jit.save", f"a constant of type {type(thing).__name__}", "printed code has no form for it",
                          "pass it as an argument")

    # ---- expressions

    def expression(self, node: Node) -> str:
        """Return a node with one output as an expression."""
        special = _EXPRESSIONS.get(node.op)
        if special is not None:
            return special(self, node)  # type: ignore[no-any-return]
        arguments = [self.use(value) for value in node.inputs_]
        names = [*node.keywords, *[""] * (len(arguments) - len(node.keywords))]
        given = ", ".join(f"{n}={v}" if n else v for n, v in zip(names, arguments, strict=True))
        callee = node.attributes.get("callee")
        if isinstance(callee, CompiledFunction):
            self.used.append(callee)
            if callee.owner is not None and not callee.is_static:
                return f"{_operand(arguments[0])}.{callee.name}({', '.join(arguments[1:])})"
            return f"{callee.qualified}({given})"
        space, _, name = node.op.partition("::")
        if space == "prim":
            return f"ops.prim.{name}({given})"
        return f"torch.{name}({given})" if space == "aten" else f"torch.{space}.{name}({given})"

    # ---- statements

    def statement(self, node: Node, depth: int) -> bool:
        """Write a node that needs a statement of its own; return whether it did."""
        if node.op == "prim::SetAttr":
            self.line(depth, f"{_operand(self.use(node.inputs_[0]))}.{node.attributes['name']} = "
                      f"{self.use(node.inputs_[1])}", node.place)
        elif node.op in ("prim::ListUnpack", "prim::TupleUnpack"):
            targets = "".join(f"{self.name(value)}, " for value in node.outputs_)
            self.line(depth, f"{targets or '[]'} = {self.use(node.inputs_[0])}", node.place)
        elif node.op == "prim::RaiseException":
            self.line(depth, f"ops.prim.RaiseException({self.use(node.inputs_[0])}, "
                      f"{_quoted(node.attributes['cls'])})", node.place)
        elif node.op == "prim::CreateObject":
            kind = node.outputs_[0].kind
            self.line(depth, f"{self.name(node.outputs_[0])} = {self.type_name(kind)}.__new__({self.type_name(kind)})",
                      node.place)
        elif node.op == "prim::With":
            self.line(depth, f"with {self.use(node.inputs_[0])}:", node.place)
            self.block(node.blocks_[0], depth + 1, [self.name(value) for value in node.outputs_])
        elif node.op == "prim::Print":
            self.line(depth, f"print({', '.join(self.use(v) for v in node.inputs_)})", node.place)
        elif node.op in ("prim::fork", "prim::awaitable"):
            self.later(node, depth)
        else:
            return False
        return True

    def later(self, node: Node, depth: int) -> None:
        """Write a call that runs later; its block holds one call.

        Raises:
            ExportError: The block holds more.
        """
        calls = [n for n in node.blocks_[0].nodes_ if n.op in ("prim::CallFunction", "prim::CallMethod")]
        rest = [n for n in node.blocks_[0].nodes_ if n not in calls and n.op not in ("prim::Constant", "prim::GetAttr")]
        if len(calls) != 1 or any(n not in self.folded for n in rest):
            raise ExportError("jit.save", f"{node.op} of an operator", "printed code forks functions and methods",
                              "fork a function that calls it")
        call = calls[0]
        arguments = [self.use(value) for value in call.inputs_]
        callee = call.attributes["callee"]
        self.used.append(callee)
        target = callee.qualified
        if call.op == "prim::CallMethod":
            target, arguments = f"{_operand(arguments[0])}.{callee.name}", arguments[1:]
        name = "fork" if node.op == "prim::fork" else "awaitable"
        self.line(depth, f"{self.name(node.outputs_[0])} = {name}({', '.join([target, *arguments])})", node.place)


def note_types(kind: t.JitType, used: list[Any]) -> None:
    """Collect the classes that a type names."""
    if isinstance(kind, (t.ClassType, t.EnumType)) or (isinstance(kind, t.TupleType) and kind.qualified):
        used.append(kind)
    for inner in kind.containedTypes():
        note_types(inner, used)


def _quoted(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\0",
                                                                                                              "\\0")
    return f'"{inside}"'


def _operand(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _get_attribute(w: ScriptWriter, node: Node) -> str:
    owner, name = w.use(node.inputs_[0]), node.attributes["name"]
    return f"{_operand(owner)}.{name}" if name.isidentifier() else f'getattr({owner}, "{name}")'


def _list(w: ScriptWriter, node: Node) -> str:
    inside = ", ".join(w.use(value) for value in node.inputs_)
    kind = node.outputs_[0].kind
    kinds = {value.kind for value in node.inputs_}
    plain = len(kinds) == 1 and isinstance(kind, t.ListType) and kind.element in kinds
    return f"[{inside}]" if plain else f"annotate({w.type_name(kind)}, [{inside}])"


def _dict(w: ScriptWriter, node: Node) -> str:
    parts = [w.use(value) for value in node.inputs_]
    inside = ", ".join(f"{k}: {v}" for k, v in zip(parts[::2], parts[1::2], strict=True))
    return f"annotate({w.type_name(node.outputs_[0].kind)}, {{{inside}}})"


def _tuple(w: ScriptWriter, node: Node) -> str:
    kind = node.outputs_[0].kind
    parts = [w.use(value) for value in node.inputs_]
    if isinstance(kind, t.TupleType) and kind.qualified:
        return f"{w.type_name(kind)}({', '.join(parts)})"
    inside = f"({''.join(p + ', ' for p in parts)})"
    exact = isinstance(kind, t.TupleType) and all(v.kind == k for v, k in zip(node.inputs_, kind.items, strict=True))
    return inside if exact else f"annotate({w.type_name(kind)}, {inside})"


def _lists_of_tensor(w: ScriptWriter, node: Node) -> str:
    return f"annotate({w.type_name(node.outputs_[0].kind)}, {_operand(w.use(node.inputs_[0]))}.tolist())"


def _python(w: ScriptWriter, node: Node) -> str:
    return f"^{node.attributes['name']}({', '.join(w.use(value) for value in node.inputs_)})"


_EXPRESSIONS: Final[dict[str, Any]] = {
    "prim::GetAttr": _get_attribute, "prim::ListConstruct": _list, "prim::DictConstruct": _dict,
    "prim::TupleConstruct": _tuple, "prim::PythonOp": _python, "aten::tolist": _lists_of_tensor,
    "prim::unchecked_cast": lambda w, n: f"unchecked_cast({w.type_name(n.outputs_[0].kind)}, {w.use(n.inputs_[0])})",
    "prim::TupleIndex": lambda w, n: f"{_operand(w.use(n.inputs_[0]))}[{w.use(n.inputs_[1])}]",
    "prim::PlainAttr": lambda w, n: f"{_operand(w.use(n.inputs_[0]))}.{n.attributes['name']}",
    "prim::EnumName": lambda w, n: f"{_operand(w.use(n.inputs_[0]))}.name",
    "prim::EnumValue": lambda w, n: f"{_operand(w.use(n.inputs_[0]))}.value",
    "prim::ModuleContainerIndex": lambda w, n: f"{_operand(w.use(n.inputs_[0]))}[{w.use(n.inputs_[1])}]",
    "prim::Manager": lambda w, n: f"{n.attributes['name']}({', '.join(map(w.use, n.inputs_))})",
    "prim::isinstance": lambda w, n: (f"isinstance({w.use(n.inputs_[0])}, "
                                      f"({''.join(w.type_name(k) + ', ' for k in n.attributes['types'])}))"),
    "aten::Bool": lambda w, n: f"bool({w.use(n.inputs_[0])})", "aten::Int": lambda w, n: f"int({w.use(n.inputs_[0])})",
    "aten::Float": lambda w, n: f"float({w.use(n.inputs_[0])})", "aten::str": lambda w,
    n: f"str({w.use(n.inputs_[0])})",
    "aten::Complex": lambda w, n: f"complex({', '.join(map(w.use, n.inputs_))})",
}


def code_of(function: CompiledFunction, constants: Constants | None = None, used: list[Any] | None = None,
            depth: int = 0) -> str:
    """Return the printed code of a function.

    Args:
        function: The function.
        constants: The constants of the file.
        used: Collects the types and functions that the code names.
        depth: Levels of indentation.
    """
    if function.graph is None:
        return ""
    writer = ScriptWriter(function.graph, constants or Constants(), [] if used is None else used)
    arguments: list[str] = []
    for argument, value in zip(function.schema.arguments, function.graph.head.outputs_, strict=True):
        name = writer.name(value)
        is_self = function.owner is not None and argument.type is function.owner and not arguments
        kind = "" if is_self and used is None else f": {writer.type_name(argument.type)}"
        default = f"={writer.literal(argument.default)}" if argument.has_default_value() else ""
        arguments.append(f"{name}{kind}{default}")
    result = writer.type_name(function.schema.result)
    writer.line(0, f"def {function.name}({(',' + chr(10) + '    ' + '  ' * depth).join(arguments)}) -> {result}:", None)
    writer.body(function.graph, lambda outputs: writer.use(outputs[0]) if len(outputs) == 1 else "None")
    return "\n".join("  " * (depth + level) + text for level, text, _ in writer.lines) + "\n"


__all__ = ["TEMPLATES", "Constants", "ScriptWriter", "code_of", "note_types"]
