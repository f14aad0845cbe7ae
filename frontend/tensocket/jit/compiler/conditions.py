"""Conditions of scripts, and what they say about the types of names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tensocket.jit.annotations import from_tree
from tensocket.jit.compiler.scope import Condition
from tensocket.jit.compiler.sugared import PythonClass, SugaredTuple, TreeForm
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Value
from tensocket.jit.graph.operators import is_number

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler


class Conditions:
    """The compiler's methods for conditions."""

    def condition(self: Compiler, node: ast.expr) -> Condition:
        """Compile a condition."""
        if isinstance(node, ast.BoolOp):
            return self._chain(node.values, isinstance(node.op, ast.And), self.place(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._negation(self.condition(node.operand), self.place(node))
        if isinstance(node, ast.Compare):
            if len(node.ops) > 1:
                terms = [node.left, *node.comparators]
                parts: list[ast.expr] = [ast.copy_location(ast.Compare(terms[k], [op], [terms[k + 1]]), node)
                                         for k, op in enumerate(node.ops)]
                return self._chain(parts, True, self.place(node))
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                return self._identity(node)
        if isinstance(node, ast.Call):
            known = self._call_condition(node)
            if known is not None:
                return known
        place = self.place(node)
        return self._of_value(self.expression(node), place)

    def _of_value(self: Compiler, thing: Any, place: Place) -> Condition:
        if not isinstance(thing, Value):
            known = thing.boolean()
            if known is not None:
                return Condition(None, known)
            if isinstance(thing, SugaredTuple):
                return Condition(None, bool(thing.parts))
        value = self.value(thing, place)
        if value.owner.op == "prim::Constant" and not isinstance(value.kind, t.ClassType):
            constant = value.toIValue()
            if constant is None or isinstance(constant, (bool, int, float, str)):
                if constant is None and value.kind is not t.NONE:
                    constant = False
                return Condition(None, bool(constant))
        return Condition(self.boolean(value, place))

    def boolean(self: Compiler, value: Value, place: Place) -> Value:
        """Return a value as a truth value.

        Raises:
            ScriptError: It has none.
        """
        if value.kind is t.BOOL:
            return value
        if value.kind is t.TENSOR or is_number(value.kind) or value.kind is t.ANY:
            return self.node("aten::Bool", [value], t.BOOL, place)
        if isinstance(value.kind, t.ClassType):
            if value.kind.method("__bool__") is not None:
                return self.call_method(value, "__bool__", [], {}, place)  # type: ignore[no-any-return]
            if value.kind.method("__len__") is not None:
                count = self.call_method(value, "__len__", [], {}, place)
                return self.node("aten::Bool", [count], t.BOOL, place)
        if isinstance(value.kind, (t.ListType, t.DictType)) or value.kind is t.STRING:
            raise ScriptError(f"a condition of type {value.kind}", f"Could not cast value of type {value.kind} to bool",
                              "compare its length with 0", place)
        raise ScriptError(f"a condition of type {value.kind}", f"Could not cast value of type {value.kind} to bool",
                          "compare it, with `is not None` for example", place)

    def _negation(self: Compiler, inner: Condition, place: Place) -> Condition:
        if inner.known is not None:
            return Condition(None, not inner.known, inner.false, inner.true)
        assert inner.value is not None
        value = self.node("aten::__not__", [inner.value], t.BOOL, place)
        return Condition(value, None, inner.false, inner.true)

    def _chain(self: Compiler, parts: list[ast.expr], conjunction: bool, place: Place) -> Condition:
        first = self.condition(parts[0])
        if len(parts) == 1:
            return first
        if first.known is not None:
            if first.known is not conjunction:
                return first
            self.refine(first.true if conjunction else first.false, place)
            rest = self._chain(parts[1:], conjunction, place)
            if conjunction:
                rest.true = {**first.true, **rest.true}
            else:
                rest.false = {**first.false, **rest.false}
            return rest
        assert first.value is not None
        return self._unknown_chain(first, parts, conjunction, place)

    def _unknown_chain(self: Compiler, first: Condition, parts: list[ast.expr], conjunction: bool,
                       place: Place) -> Condition:
        assert first.value is not None
        made, (yes, no) = self.blocks_of("prim::If", [first.value], 2, place)
        rest: list[Condition] = []

        def compile_rest() -> None:
            found = self._chain(parts[1:], conjunction, place)
            if found.value is None:
                found.value = self.constant(found.known, t.BOOL, place)
            rest.append(found)

        block, other = (yes, no) if conjunction else (no, yes)
        self.branch(block, first.true if conjunction else first.false, compile_rest, place)
        last = rest[0]
        assert last.value is not None
        block.add_output(last.value)
        short: list[Value] = []
        self.branch(other, {}, lambda: short.append(self.constant(not conjunction, t.BOOL, place)), place)
        other.add_output(short[0])
        value = made.add_output(t.BOOL)
        both = {**(first.true if conjunction else first.false), **(last.true if conjunction else last.false)}
        sides = (first.false, last.false) if conjunction else (first.true, last.true)
        either = {name: t.union_of([sides[0][name], sides[1][name]]) for name in sides[0] if name in sides[1]}
        if last.known is not None and last.known is not conjunction:  # `a and False`
            free = all(node.op in ("prim::Constant", "prim::unchecked_cast") for node in block.nodes_)
            return Condition(None, not conjunction, {}, {}) if free else Condition(value)
        return Condition(value, None, both, either) if conjunction else Condition(value, None, either, both)

    # ---- None

    def _identity(self: Compiler, node: ast.Compare) -> Condition:
        """Compile ``is`` and ``is not``."""
        place, negated = self.place(node), isinstance(node.ops[0], ast.IsNot)
        left, right = node.left, node.comparators[0]
        one, other = (self._operand(each) for each in (left, right))
        condition = self._is(left, one, right, other, place)
        return self._flip(condition) if negated and condition.known is not None else condition if not negated else (
            self._negated_is(condition, place))

    def _operand(self: Compiler, node: ast.expr) -> Any:
        return self.expression(node)

    def _flip(self: Compiler, condition: Condition) -> Condition:
        return Condition(None, not condition.known, condition.false, condition.true)

    def _negated_is(self: Compiler, condition: Condition, place: Place) -> Condition:
        assert condition.value is not None
        node = condition.value.owner
        node.op = "aten::__isnot__"
        return Condition(condition.value, None, condition.false, condition.true)

    def _is(self: Compiler, left: ast.expr, one: Any, right: ast.expr, other: Any, place: Place) -> Condition:
        for name_node, thing, none in ((left, one, other), (right, other, one)):
            if not (isinstance(none, Value) and none.kind is t.NONE):
                continue
            kind = thing.kind if isinstance(thing, Value) else None
            if kind is t.NONE:
                return Condition(None, True)
            if kind is None or not (t.is_optional(kind) or kind is t.ANY):
                return Condition(None, False)
            value = self.node("aten::__is__", [thing, none], t.BOOL, place)
            if not isinstance(name_node, ast.Name) or kind is t.ANY:
                return Condition(value)
            assert isinstance(kind, t.UnionType)
            return Condition(value, None, {name_node.id: t.NONE}, {name_node.id: kind.without(t.NONE)})
        first, second = self.value(one, place), self.value(other, place)
        for value in (first, second):
            if value.kind in (t.TENSOR, t.ANY) or isinstance(value.kind, (t.ClassType, t.UnionType)):
                break
        else:
            if first.kind != second.kind:
                return Condition(None, False)
        return Condition(self.node("aten::__is__", [first, second], t.BOOL, place))

    # ---- isinstance, hasattr

    def _call_condition(self: Compiler, node: ast.Call) -> Condition | None:
        """Return the condition of a call that the compiler may know, None for other calls."""
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        if isinstance(node.func, ast.Name) and self.scope.find(node.func.id) is not None:
            return None
        base: ast.AST = node.func
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(node.func, ast.Attribute) and (
                not isinstance(base, ast.Name) or self.scope.find(base.id) is not None):
            return None
        function = self.expression(node.func)
        if not isinstance(function, TreeForm):
            return None
        result = function.function(self, node, self.place(node))
        return result if isinstance(result, Condition) else self._of_value(result, self.place(node))

    def is_instance(self: Compiler, node: ast.Call, place: Place) -> Condition:
        """Compile ``isinstance``.

        Raises:
            ScriptError: It does not have two arguments.
        """
        if len(node.args) != 2 or node.keywords:
            raise ScriptError(f"isinstance with {len(node.args)} arguments", "it takes a value and a type", "pass both",
                              place)
        thing = self.expression(node.args[0])
        kinds = self._classes(node.args[1], place)
        if not isinstance(thing, Value):
            return Condition(None, t.ANY_TUPLE in kinds and isinstance(thing, SugaredTuple))
        members = list(thing.kind.members) if isinstance(thing.kind, t.UnionType) else [thing.kind]
        inside = [m for m in members if any(_is_instance(m, kind) for kind in kinds)]
        outside = [m for m in members if m not in inside]
        if thing.kind is t.ANY or any(isinstance(m, t.InterfaceType) for m in members):
            value = self.node("prim::isinstance", [thing], t.BOOL, place, types=tuple(kinds))
            if isinstance(node.args[0], ast.Name) and len(kinds) == 1:
                return Condition(value, None, {node.args[0].id: kinds[0]})
            return Condition(value)
        if not outside or not inside:
            return Condition(None, not outside)
        value = self.node("prim::isinstance", [thing], t.BOOL, place, types=tuple(kinds))
        if not isinstance(node.args[0], ast.Name):
            return Condition(value)
        name = node.args[0].id
        return Condition(value, None, {name: t.union_of(inside)}, {name: t.union_of(outside)})

    def _classes(self: Compiler, node: ast.expr, place: Place) -> list[t.JitType]:
        """Return the types that the second argument of ``isinstance`` names."""
        if isinstance(node, ast.Tuple):
            return [kind for each in node.elts for kind in self._classes(each, place)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [*self._classes(node.left, place), *self._classes(node.right, place)]
        try:
            kind = from_tree(node, self.lookup_python, place)
        except ScriptError:
            named = self.expression(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if isinstance(named, SugaredTuple):
                return [k for part in named.parts for k in self._classes_of(part, place)]
            if isinstance(named, PythonClass):
                return [t.NEVER]
            raise
        return list(kind.members) if isinstance(kind, t.UnionType) else [kind]

    def _classes_of(self: Compiler, part: Any, place: Place) -> list[t.JitType]:
        from tensocket.jit.annotations import from_python

        return [from_python(part.kind, place)] if isinstance(part, PythonClass) else [t.NEVER]


def _is_instance(one: t.JitType, other: t.JitType) -> bool:
    if other is t.NEVER:
        return False
    if one in (t.DTYPE, t.LAYOUT, t.MEMORY_FORMAT):
        return other is one or other is t.ANY
    if isinstance(one, t.TupleType) and isinstance(other, t.TupleType) and other.qualified:
        return one.qualified == other.qualified
    return t.is_subtype(one, other)
