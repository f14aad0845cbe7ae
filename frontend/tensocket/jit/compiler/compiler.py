"""The compiler of scripts: a function's syntax tree becomes a graph."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tensocket.jit.annotations import from_tree, from_value
from tensocket.jit.compiler.calls import Calls
from tensocket.jit.compiler.control import Control
from tensocket.jit.compiler.expressions import Expressions
from tensocket.jit.compiler.indexing import Indexing
from tensocket.jit.compiler.scope import Loop, Scope
from tensocket.jit.compiler.statements import Statements
from tensocket.jit.compiler.sugared import Sugared
from tensocket.jit.compiler.wrapping import wrap
from tensocket.jit.frontend import Place, ScriptError, Source, place_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction
from tensocket.jit.graph.ir import Block, Graph, Node, Value


class Compiler(Statements, Control, Expressions, Indexing, Calls):
    """The state of the compilation of one function.

    Args:
        source: The text.
        resolve: Returns the Python object of a name that is not local.
        function: The function, whose graph is made.
        from_file: Whether the text comes from a file: then names mean operators only, never Python objects.
    """

    def __init__(self, source: Source, resolve: Callable[[str], Any], function: CompiledFunction,
                 from_file: bool = False) -> None:
        self.source = source
        self.resolve = resolve
        self.function = function
        self.from_file = from_file
        self.graph = Graph()
        self.scope = Scope(self.graph)
        self.loops: list[Loop] = []
        self.returned: list[tuple[Node, Value]] = []
        self.result: t.JitType | None = None
        self.self_name = ""

    # ---- places and types

    def place(self, node: ast.AST) -> Place:
        """Return the place of a syntax tree."""
        return place_of(self.source, node)

    def annotation(self, node: ast.AST) -> t.JitType:
        """Return the type that an annotation states."""
        return from_tree(node, self.lookup_python, self.place(node))

    def lookup_python(self, name: str) -> Any:
        """Return the Python object of a name."""
        return self.resolve(name)

    # ---- nodes

    def node(self, op: str, inputs: Sequence[Value], kind: t.JitType | None, place: Place | None, label: str = "",
             keywords: Sequence[str] = (), **attributes: Any) -> Value:
        """Add a node with one output and return the output."""
        made = self.add(op, inputs, place, keywords, **attributes)
        return made.add_output(t.NONE if kind is None else kind, label)

    def add(self, op: str, inputs: Sequence[Value], place: Place | None, keywords: Sequence[str] = (),
            **attributes: Any) -> Node:
        """Add a node without outputs."""
        return self.scope.block.append(Node(self.graph, op, inputs, keywords, place, **attributes))

    def constant(self, value: Any, kind: t.JitType | None, place: Place | None) -> Value:
        """Add a constant.

        Raises:
            ScriptError: The value is of no type of scripts.
        """
        kind = from_value(value) if kind is None else kind
        if kind is None and isinstance(value, (list, tuple, dict)):
            parts = [self.constant(each, None, place) for each in value]
            return self.list_of(parts, place) if isinstance(value, list) else self.tuple_of(parts, place)
        if kind is None:
            raise ScriptError(f"python value of type '{type(value).__name__}'", "constants are numbers, str, tensors "
                              "and containers of these", "pass it as an argument", place)
        return self.node("prim::Constant", [], kind, place, value=value)

    def tuple_of(self, parts: Sequence[Value], place: Place | None) -> Value:
        """Add a tuple."""
        return self.node("prim::TupleConstruct", parts, t.TupleType([p.kind for p in parts]), place)

    def list_of(self, parts: Sequence[Value], place: Place | None, element: t.JitType | None = None) -> Value:
        """Add a list.

        Raises:
            ScriptError: The elements are not of one type.
        """
        if element is None:
            element = t.unify_all([p.kind for p in parts], to_union=True) if parts else t.TENSOR
            if element is None:
                raise ScriptError(f"a list of {sorted({str(p.kind) for p in parts})}", "all elements of a list are of "
                                  "one type", "use a tuple", place)
        return self.node("prim::ListConstruct", parts, t.ListType(element), place)

    def blocks_of(self, op: str, inputs: Sequence[Value], count: int, place: Place | None) -> tuple[Node, list[Block]]:
        """Add a node with blocks."""
        made = self.add(op, inputs, place)
        return made, [made.add_block() for _ in range(count)]

    # ---- values

    def value(self, thing: Any, place: Place) -> Value:
        """Return something that an expression means as a value of the graph."""
        return thing if isinstance(thing, Value) else thing.value(self, place)

    def wrap(self, thing: Any, place: Place, path: str = "", constant: bool = True) -> Any:
        """Return a Python object as a value of the compiler."""
        return wrap(self, thing, place, path, constant)

    def lookup(self, name: str, place: Place) -> Any:
        """Return the value of a name.

        Raises:
            ScriptError: The name has no value here.
        """
        found = self.scope.find(name)
        if found is not None:
            return found
        problem = self.scope.problem(name)
        if problem:
            raise ScriptError(problem, "a variable has a value of one type on all paths", "assign it on every path, "
                              "before it is used", place)
        try:
            thing = self.resolve(name)
        except KeyError:
            thing = self.builtin_name(name, place)
            if thing is None:
                raise ScriptError(f"undefined value {name}", "names are arguments, local variables, or globals of the "
                                  "function's file", "define it before the function is scripted", place) from None
            return thing
        return self.wrap(thing, place, name, constant=self.from_file)

    def builtin_name(self, name: str, place: Place) -> Any:
        """Return the meaning of one of Python's own functions, None if scripts have no such name."""
        from tensocket.jit.compiler.python_builtins import builtin

        return builtin(self, name, place)

    def convert(self, value: Value, kind: t.JitType, place: Place | None, conversions: bool = True) -> Value:
        """Return the value as one of another type if it has a conversion, else the value itself."""
        if t.is_subtype(value.kind, kind):
            if value.owner.op == "prim::Constant" and value.kind is t.NONE and kind is not t.NONE:
                return self.node("prim::Constant", [], kind if kind is not t.ANY else t.NONE, place, value=None)
            return value
        inner = kind.without(t.NONE) if isinstance(kind, t.UnionType) and kind.is_optional else kind
        if isinstance(inner, t.ListType) and isinstance(value.kind, t.TupleType) and all(
                t.is_subtype(item, inner.element) for item in value.kind.items):
            return self.node("aten::list", [value], inner, place)
        if isinstance(inner, t.ListType) and value.owner.op == "prim::ListConstruct" and not value.uses_ and all(
                t.is_subtype(part.kind, inner.element) for part in value.owner.inputs_):
            return value.setType(inner)
        if isinstance(inner, t.DictType) and value.owner.op == "prim::DictConstruct" and not value.uses_ and all(
                t.is_subtype(part.kind, side) for k, part in enumerate(value.owner.inputs_)
                for side in [(inner.key, inner.value)[k % 2]]):
            return value.setType(inner)
        if isinstance(inner, t.TupleType) and value.owner.op == "prim::TupleConstruct" and \
                isinstance(value.kind, t.TupleType) and len(inner.items) == len(value.kind.items):
            parts = [self.convert(p, k, place, conversions)
                     for p, k in zip(value.owner.inputs_, inner.items, strict=True)]
            if all(t.is_subtype(p.kind, k) for p, k in zip(parts, inner.items, strict=True)):
                return self.node("prim::TupleConstruct", parts, inner, place)
        if isinstance(inner, t.ListType) and inner.copies and t.is_subtype(value.kind, inner.element):
            return self.list_of([value] * inner.copies, place, inner.element)
        if inner is t.NUMBER and value.kind is t.BOOL:
            return value
        return self._number(value, inner, place) if conversions else value

    def _number(self, value: Value, kind: t.JitType, place: Place | None) -> Value:
        implicit = {t.INT: "aten::IntImplicit", t.FLOAT: "aten::FloatImplicit", t.COMPLEX: "aten::ComplexImplicit",
                    t.NUMBER: "aten::ScalarImplicit"}
        if value.kind is t.TENSOR and kind in implicit:
            return self.node(implicit[kind], [value], kind, place)
        explicit = {t.INT: "aten::Int", t.FLOAT: "aten::Float", t.COMPLEX: "aten::Complex"}
        if value.kind is t.NUMBER and kind in explicit:
            return self.node(explicit[kind], [value], kind, place)
        if value.kind is t.STRING and kind is t.DEVICE:
            return self.node("aten::device", [value], t.DEVICE, place)
        if value.kind is t.INT and kind is t.DTYPE:
            return self.node("prim::dtype_of_number", [value], t.DTYPE, place)
        return value

    def assign(self, name: str, thing: Any, place: Place, declared: t.JitType | None = None) -> None:
        """Give a name a value.

        Raises:
            ScriptError: The name has another type in a block around this one.
        """
        outer = None if self.scope.parent is None else self.scope.parent.find(name)
        if declared is not None:
            if outer is not None:
                raise ScriptError(f"Attempting to declare and annotate the type of variable '{name}' that is already "
                                  "defined in an outer block", "a variable is declared once", "leave the type out",
                                  place)
            self.scope.types[name] = declared
        wanted = declared or self.scope.declared(name)
        if declared is None and outer is None and wanted is not None and isinstance(thing, Value) and (
                not t.is_subtype(thing.kind, wanted)):
            self.scope.types.pop(name, None)  # only variables of blocks around this one keep their types
            wanted = None
        if isinstance(thing, Sugared) and (wanted is not None or outer is not None):
            thing = self._first_class(name, thing, place)
        if isinstance(thing, Value):
            if outer is not None and wanted is None:
                if isinstance(outer, Sugared):
                    raise ScriptError(f"Cannot re-assign '{name}' because it has type {outer.describe()} and {name} is "
                                      "not a first-class value. Only reassignments to first-class values are allowed",
                                      "a block changes values only", "use another name", place)
                wanted = outer.kind
            thing = self._typed(name, thing, wanted, place)
            if not thing.name:
                thing.name = name
                thing.serial = 0
        self.scope.set(name, thing)

    def _first_class(self, name: str, thing: Sugared, place: Place) -> Value:
        try:
            return thing.value(self, place)
        except ScriptError as error:
            raise ScriptError(f"Cannot re-assign '{name}' to a value of type {thing.describe()} because {name} is "
                              f"not a "
                              "first-class value. Only reassignments to first-class values are allowed",
                              "a block changes values only", "use another name", place) from error

    def _typed(self, name: str, value: Value, wanted: t.JitType | None, place: Place) -> Value:
        if wanted is None:
            return value
        value = self.convert(value, wanted, place)
        if not t.is_subtype(value.kind, wanted):
            raise ScriptError(f"Variable '{name}' previously had type {wanted.annotation_str} but is now being "
                              f"assigned "
                              f"to a value of type {value.kind.annotation_str}", "a variable keeps its type",
                              "use another name, or annotate a type for both", place)
        if value.kind != wanted and value.owner.op == "prim::Constant" and value.kind is t.NONE:
            return value.setType(wanted)
        return value

    def refine(self, refinements: dict[str, t.JitType], place: Place | None) -> None:
        """Give names narrower types in this block."""
        for name, kind in refinements.items():
            value = self.scope.find(name)
            if isinstance(value, Value) and value.kind != kind:
                if kind is t.NONE:
                    narrow = self.node("prim::Constant", [], t.NONE, place, name, value=None)
                else:
                    narrow = self.node("prim::unchecked_cast", [value], kind, place, name)
                self.scope.set(name, narrow, refines=True)
