"""Generated code: a graph as the source of a Python function, with the objects that it refers to."""

from __future__ import annotations

import enum
import math
import operator
import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.errors import ArgumentError

from .comments import Commenter
from .names import CUSTOM_BUILTINS, Identity, Namespace, identifier, is_from_torch, qualified_name, type_name
from .node import Node, nodes_in

if TYPE_CHECKING:
    from .graph import Graph

#: Python's operators: how a call of a function or method is written, from the texts of its arguments.
BINARY: Final = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
                 "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "getitem": "[]", "matmul": "@"}
COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
UNARY: Final = {"pos": "+", "neg": "-", "invert": "~"}
INPLACE: Final = {"iadd": "+=", "iand": "&=", "ifloordiv": "//=", "ilshift": "<<=", "imod": "%=", "imul": "*=",
                  "imatmul": "@=", "ior": "|=", "ipow": "**=", "irshift": ">>=", "isub": "-=", "itruediv": "/=",
                  "ixor": "^="}
FORMATS: Final[dict[Any, str]] = {
    **{getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in {**BINARY, **COMPARISONS}.items()
       if sign != "[]"},
    **{getattr(operator, name): f"{sign}{{}}" for name, sign in UNARY.items()}, operator.getitem: "{}[{}]",
}
SIGNS: Final = {getattr(operator, name): sign for name, sign in INPLACE.items()}


@dataclass
class PythonCode:
    """Generated source.

    Attributes:
        src: The source of a function ``forward``.
        globals: Objects that it refers to, by name.
        _lineno_map: Line of the function's body, counted from 1, to the number of the node in the graph.
        _prologue_start: First line of the function's body.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


@dataclass
class _Writer:
    """Writes one graph: statements, the globals they need, and where each value is used last."""

    codegen: CodeGen
    root: str
    names: Namespace
    commenter: Commenter
    globals: dict[str, Any] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)
    free_vars: list[str] = field(default_factory=list)
    wrapped: dict[str, None] = field(default_factory=dict)
    result_type: list[str] = field(default_factory=lambda: [""])
    last_uses: dict[Node, list[Node]] = field(default_factory=dict)

    # ---- names of objects

    def add_global(self, hint: str, obj: Any) -> str:
        """Return the name of an object in the source, and note the object."""
        if is_from_torch(obj) and not any(obj is known.obj for known in CUSTOM_BUILTINS.values()):
            return qualified_name(obj)
        name = identifier(hint)
        if name in self.globals and self.globals[name] is obj:
            return name
        name = self.names.create_name(name, None if name in CUSTOM_BUILTINS else Identity(obj))
        self.globals[name] = obj
        return name

    def type_of(self, kind: Any) -> str:
        """Return an annotation as text."""
        if kind == () or isinstance(kind, str):
            return repr(kind)  # a text stays one: its names are those of another module
        typename = type_name(kind)
        origin = getattr(kind, "__origin__", None)
        if origin is not None and getattr(kind, "__args__", None) is not None:
            origin = getattr(typing, kind._name, origin) if getattr(kind, "_name", None) else origin
            if typing.get_origin(kind) is typing.Union:
                origin = typing.Union
            base = self.add_global(type_name(origin), origin)
            if not kind.__args__:
                return f"{base}[()]"
            arguments = [self.type_of(argument) for argument in kind.__args__]
            if origin is typing.Callable:
                *given, result = arguments
                return f"{base}[[{', '.join(given)}],{result}]"
            return f"{base}[{','.join(arguments)}]"
        return self.add_global(typename, kind)

    def argument(self, value: Any) -> str:
        """Return an argument as text."""
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                return self.add_global(type_name(type(value)), type(value)) + self.argument(tuple(value))
            if type(value) is not tuple and is_from_torch(type(value)):
                return f"{qualified_name(type(value))}({self.argument(list(value))})"  # torch.Size
            return f"({', '.join(map(self.argument, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.argument, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.argument(key)}: {self.argument(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.argument(value.start)}, {self.argument(value.stop)}, {self.argument(value.step)})"
        if isinstance(value, enum.Enum):
            return f"{self.add_global(qualified_name(type(value)), type(value))}.{value.name}"
        if isinstance(value, Node):
            return repr(value)
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        if isinstance(value, float) and not math.isfinite(value):
            name = "nan" if math.isnan(value) else "inf"
            return ("-" if value < 0 else "") + self.add_global(name, CUSTOM_BUILTINS[name].obj)
        if value is type(None):
            return "NoneType"
        if callable(value) and hasattr(value, "__name__"):
            return self.add_global(qualified_name(value), value)
        module = type(value).__module__
        if module.partition(".")[0].startswith(("tensocket", "torch")):
            text = repr(value)
            return re.sub(r"^tensocket\.", "torch.", text)
        return repr(value)

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """Return the arguments of a call as text."""
        return ", ".join([*map(self.argument, args),
                          *(f"{name} = {self.argument(value)}" for name, value in kwargs.items())])

    # ---- statements

    def free_after(self, node: Node) -> str:
        """Return the statement that drops the values which a node used last."""
        if node.op == "output":
            return "\n"
        unused = [repr(used) for used in self.last_uses.get(node, ())]
        if not node.users:
            unused.append(repr(node))
        return f";  {' = '.join(unused)} = None\n" if unused else "\n"

    def write(self, node: Node) -> None:
        """Add a node's statement."""
        typed = f" : {self.type_of(node.type)}" if node.type is not None else ""
        comment = self.commenter.shape_of(node)
        if node.op == "placeholder":
            self._placeholder(node, typed)
        elif node.op == "output":
            if node.type is not None:
                self.result_type[0] = f" -> {self.type_of(node.type)}"
            self.body.append(self.codegen.generate_output(node.args[0]))
        elif node.op == "call_function" and node.target in SIGNS and not node.kwargs and len(node.args) == 2:
            # The statement changes the operand's variable, so the result is that variable.
            left, right = map(self.argument, node.args)
            self.body.append(f"{left} {SIGNS[node.target]} {right};  {node!r}{typed} = {left}{comment}")
        else:
            self.body.append(f"{node!r}{typed} = {self._value(node)}{comment}")

    def _placeholder(self, node: Node, typed: str) -> None:
        default = f" = {self.argument(node.args[0])}" if node.args else ""
        comment = self.commenter.shape_of(node).strip()
        self.free_vars.append(f"{node.target}{typed}{default}{'  ' + comment if comment else ''}")
        name = node.target.replace("*", "")
        if name != repr(node):
            self.body.append(f"{node!r} = {name}\n")

    def _value(self, node: Node) -> str:
        if node.op == "call_method":
            given = self.arguments(node.args[1:], node.kwargs)
            return f"{_receiver(self.argument(node.args[0]))}.{node.target}({given})"
        if node.op == "call_module":
            return f"{dotted(self.root, node.target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return dotted(self.root, node.target)
        if node.op != "call_function":
            raise ArgumentError("Graph.python_code", f"node {node} with op {node.op}",
                                f"node: {node.op} {node.target} is not implemented", "use one of the opcodes of Node")
        return self._call(node)

    def _call(self, node: Node) -> str:
        target = node.target
        form = FORMATS.get(target) if not node.kwargs and getattr(target, "__module__", "") == "_operator" else None
        if form is not None and form.count("{}") == len(node.args):
            return form.format(*map(self.argument, node.args))
        name = qualified_name(target)
        called = self.add_global(name, target)
        if called == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and _is_attribute(node):
            return f"{self.argument(node.args[0])}.{node.args[1]}"
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)
        return f"{called}({self.arguments(node.args, node.kwargs)})"


def _receiver(text: str) -> str:
    """Return the text of a method's object; numbers need brackets."""
    return f"({text})" if text[:1].isdigit() else text


def _is_attribute(node: Node) -> bool:
    name = node.args[1]
    return isinstance(node.args[0], Node) and name.isidentifier()


def dotted(base: str, target: str) -> str:
    """Return the expression for an attribute's path; parts that are not identifiers need ``getattr``."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return, for each node, the nodes that it is the last one to use."""
    found: dict[Node, list[Node]] = {}
    freed: set[Node] = set()
    for user in reversed(list(nodes)):
        for used in nodes_in(user.args, user.kwargs):
            if used not in freed:
                freed.add(used)
                found.setdefault(user, []).append(used)
    return found


class CodeGen:
    """Generates the source of a graph's function; subclasses change its signature, inputs and outputs."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"
        self._writer: _Writer | None = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the first lines of the function.

        Args:
            free_vars: The parameters as text.
            maybe_return_annotation: The annotation of the result with its arrow, or "".
            expanded_def: Whether each parameter is on a line of its own.
        """
        parameters = free_vars if free_vars[:1] == ["self"] else ["self", *free_vars]
        if expanded_def:
            text = "\n" + "".join(f"    {parameter},\n" for parameter in parameters)
        else:
            text = ", ".join(parameters)
        return f"def {self._func_name}({text}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Return the statement that returns the result."""
        return f"return {self._text_of(output_args)}"

    def _text_of(self, value: Any) -> str:
        return self._writer.argument(value) if self._writer is not None else repr(value)

    def process_inputs(self, *args: Any) -> Any:
        """Return arguments of the function as the placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the value of the output as the function returns it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return further objects that the source refers to, with their names."""
        return []

    def _gen_python_code(self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *,
                         verbose: bool = False, include_stride: bool = False, include_device: bool = False,
                         colored: bool = False, expanded_def: bool = False,
                         additional_meta: list[str] | None = None) -> PythonCode:
        listed = list(nodes)
        commenter = Commenter(verbose, include_stride, include_device, colored, tuple(additional_meta or ()))
        writer = _Writer(self, root_module, namespace, commenter, last_uses=last_uses(listed))
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        self._writer = writer
        try:
            return self._assemble(writer, listed, expanded_def)
        finally:
            self._writer = None

    def _assemble(self, writer: _Writer, listed: list[Node], expanded_def: bool) -> PythonCode:
        for name, builtin in CUSTOM_BUILTINS.items():
            writer.names._used_names.add(name)
            writer.globals.setdefault(name, builtin.obj)
        body = writer.body
        for at, node in enumerate(listed):
            writer.commenter.before(node, body)
            body.append(f"# COUNTER: {at}\n")
            writer.write(node)
            body.append(writer.free_after(node) if node.op != "placeholder" else "")
        if all(node.op == "placeholder" for node in listed):
            body.append("pass\n")
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        wraps = "\n".join(f'torch.fx.wrap("{name}")' for name in writer.wrapped)
        parameters = [_parameter(text) for text in writer.free_vars]
        head = self.gen_fn_def(writer.free_vars if expanded_def else parameters, writer.result_type[0],
                               **({"expanded_def": True} if expanded_def else {}))
        code, numbers = _numbered("".join(body).lstrip("\n"))
        code = "\n".join("    " + line for line in code.split("\n"))
        source = f"{wraps}\n\n{head}\n{code}" if wraps else f"\n\n\n{head}\n{code}"
        start = source.count("\n", 0, source.index(head)) + head.count("\n") + 1
        return PythonCode(source, writer.globals, numbers, start)


def _parameter(text: str) -> str:
    """Return a parameter without the comment of a verbose listing."""
    return text.partition("  #")[0]


def _numbered(text: str) -> tuple[str, dict[int, int | None]]:
    """Take the marks out of a body; return it, and the node's number for each line, counted from 1."""
    lines: list[str] = []
    numbers: dict[int, int | None] = {}
    current: int | None = None
    for line in text.split("\n"):
        if line.startswith("# COUNTER: "):
            current = int(line.removeprefix("# COUNTER: "))
            continue
        lines.append(line)
        numbers[len(lines)] = current
    return "\n".join(lines), numbers


def code_of(graph: Graph, root: str = "self") -> str:
    """Return the source of a graph."""
    return graph.python_code(root).src
