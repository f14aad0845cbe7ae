"""Expressions of scripts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.compiler.conditions import Conditions
from tensocket.jit.compiler.scope import Condition, Loop, Scope
from tensocket.jit.compiler.sugared import Builtin, Sugared, SugaredTuple, TreeForm
from tensocket.jit.frontend import NotSupportedError, Place, ScriptError, UnsupportedNodeError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Value
from tensocket.jit.graph.operators import arithmetic_type, comparison_type, is_number

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler

_BINARY: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    ast.LShift: "__lshift__", ast.RShift: "__rshift__",
}
_DUNDER: Final = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__",
                  "floordiv": "__floordiv__", "remainder": "__mod__", "pow": "__pow__", "matmul": "__matmul__",
                  "eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
_COMPARE: Final[dict[type[ast.AST], str]] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le",
                                             ast.Gt: "gt", ast.GtE: "ge"}


class Expressions(Conditions):
    """The compiler's methods for expressions."""

    scope: Scope

    def expression(self: Compiler, node: ast.expr, hint: t.JitType | None = None) -> Any:
        """Return what an expression means.

        Args:
            node: The expression.
            hint: The type that its user wants, for literals without elements.

        Raises:
            UnsupportedNodeError: Scripts do not have it.
        """
        if isinstance(node, ast.Name):
            return self.lookup(node.id, self.place(node))
        if isinstance(node, (ast.List, ast.Dict, ast.ListComp, ast.DictComp, ast.Tuple)):
            return getattr(self, f"_{type(node).__name__}")(node, hint)
        if isinstance(node, ast.Call):
            return self.call(node, hint)
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise UnsupportedNodeError(f"{type(node).__name__} aren't supported", "scripts are a part of Python",
                                       "write it in another way", self.place(node))
        return method(node)

    def _Constant(self: Compiler, node: ast.Constant) -> Any:
        place = self.place(node)
        if node.value is ... or isinstance(node.value, bytes):
            raise NotSupportedError(f"{node.value!r} as a value", "constants are numbers, str, True, False and None",
                                    "use one of these", place)
        if isinstance(node.value, int) and not isinstance(node.value, bool) and not -2**63 <= node.value < 2**64:
            raise ScriptError(f"{node.value}", "integers of scripts have 64 bits", "use a float", place)
        return self.constant(node.value, None, place)

    def _Tuple(self: Compiler, node: ast.Tuple, hint: t.JitType | None) -> Any:
        hint = hint.without(t.NONE) if isinstance(hint, t.UnionType) and hint.is_optional else hint
        kinds = hint.items if isinstance(hint, t.TupleType) and len(hint.items) == len(node.elts) else None
        parts: list[Any] = []
        for k, each in enumerate(node.elts):
            parts += self._spread(each, None if kinds is None else kinds[k])
        if all(isinstance(part, Value) for part in parts):
            return self.tuple_of(parts, self.place(node))
        return SugaredTuple(parts)

    def _spread(self: Compiler, node: ast.expr, hint: t.JitType | None = None) -> list[Any]:
        """Return the parts that an element of a literal or an argument stands for."""
        if not isinstance(node, ast.Starred):
            return [self.expression(node, hint)]
        place = self.place(node)
        parts = self.items_of(self.expression(node.value), place)
        if parts is None:
            raise ScriptError(f"{ast.unparse(node)}", "cannot unpack a value whose length is not known", "use a tuple",
                              place)
        return parts

    def _List(self: Compiler, node: ast.List, hint: t.JitType | None) -> Value:
        place = self.place(node)
        element = _element(hint)
        parts = [self.value(each, place) for elt in node.elts for each in self._spread(elt, element)]
        if element is not None and element is not t.ANY:
            parts = [self.convert(part, element, place) for part in parts]
            if all(t.is_subtype(part.kind, element) for part in parts):
                return self.list_of(parts, place, element)
            wrong = next(part for part in parts if not t.is_subtype(part.kind, element))
            if t.is_subtype(t.ListType(wrong.kind), hint) if hint is not None else False:
                return self.list_of(parts, place)
            raise ScriptError(f"a list with an element of type {wrong.kind}", f"List type annotation `{hint}` did not "
                              "match the types of the given list elements", "correct one of them", place)
        return self.list_of(parts, place)

    def _Dict(self: Compiler, node: ast.Dict, hint: t.JitType | None) -> Value:
        place = self.place(node)
        wanted = next((k for k in _members(hint) if isinstance(k, t.DictType)), None)
        flat: list[Value] = []
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                raise NotSupportedError("** in a dict", "dict expansion is not supported", "use update()", place)
            flat.append(self.value(self.expression(key, wanted and wanted.key), place))
            flat.append(self.value(self.expression(item, wanted and wanted.value), place))
        return self.dict_of(flat, wanted, place)

    def dict_of(self: Compiler, flat: list[Value], wanted: t.DictType | None, place: Place) -> Value:
        """Add a dict of keys and values in turn.

        Raises:
            ScriptError: Keys or values are not of one type.
        """
        if wanted is None:
            keys = t.unify_all([v.kind for v in flat[::2]]) if flat else t.STRING
            values = t.unify_all([v.kind for v in flat[1::2]], to_union=True) if flat else t.TENSOR
            if keys is None or values is None:
                raise ScriptError("a dict with keys or values of several types", "all keys are of one type, and all "
                                  "values", "annotate the dict's type", place)
            wanted = t.DictType(keys, values)
        else:
            sides = (wanted.key, wanted.value)
            flat = [self.convert(v, sides[k % 2], place) for k, v in enumerate(flat)]
            for k, v in enumerate(flat):
                if not t.is_subtype(v.kind, sides[k % 2]):
                    raise ScriptError(f"a dict {('key', 'value')[k % 2]} of type {v.kind}", "Dict type annotation "
                                      f"`{wanted}` did not match the type of an actual {('key', 'value')[k % 2]} type",
                                      "correct one of them", place)
        return self.node("prim::DictConstruct", flat, wanted, place)

    # ---- operators

    def _BinOp(self: Compiler, node: ast.BinOp) -> Any:
        name = _BINARY[type(node.op)]
        left, right = self.expression(node.left), self.expression(node.right)
        return self.binary(name, left, right, self.place(node))

    def binary(self: Compiler, name: str, left: Any, right: Any, place: Place) -> Any:
        """Return the result of a binary operator.

        Raises:
            ScriptError: The operator is not defined for the types.
        """
        one, other = self.value(left, place), self.value(right, place)
        if isinstance(one.kind, t.ClassType):
            return self._overloaded(name, one, other, place)
        if name == "remainder" and one.kind is t.STRING:
            parts = self.items_of(other, place) if isinstance(other.kind, t.TupleType) else [other]
            return self.node("aten::percentFormat", [one, *(parts or [])], t.STRING, place)
        if name == "add" and isinstance(one.kind, t.ListType) != isinstance(other.kind, t.ListType):
            # ``size[:1] + (2,)``: where a list is wanted, a tuple is one
            one, other = self.convert(one, other.kind, place, False), self.convert(other, one.kind, place, False)
        kind = arithmetic_type(name, one.kind, other.kind)
        if kind is None or (name == "matmul" and not one.kind is other.kind is t.TENSOR):
            raise ScriptError(f"{name} of {one.kind} and {other.kind}: Arguments for call are not valid",
                              "operators take tensors, numbers, and lists or str of one type", "convert one of them",
                              place)
        return self.node(f"aten::{name}", [one, other], kind, place)

    def _overloaded(self: Compiler, name: str, one: Value, other: Value, place: Place) -> Any:
        kind, method = one.kind, _DUNDER.get(name, name)
        assert isinstance(kind, t.ClassType)
        if kind.method(method) is None:
            if name == "ne" and kind.method("__eq__") is not None:
                equal = self.call_method(one, "__eq__", [other], {}, place)
                return self.node("aten::__not__", [equal], t.BOOL, place)
            raise ScriptError(f"{method} of {kind.name}", f"Class {kind.name} does not have a method {method}",
                              "define the method", place)
        return self.call_method(one, method, [other], {}, place)

    def _UnaryOp(self: Compiler, node: ast.UnaryOp) -> Any:
        place = self.place(node)
        if isinstance(node.op, ast.Not):
            return self.truth_of(node, place)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and isinstance(
                node.operand.value, (int, float, complex)):
            return self.constant(-node.operand.value, None, place)
        value = self.value(self.expression(node.operand), place)
        if isinstance(value.kind, t.ClassType):
            name = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}[type(node.op)]
            return self.call_method(value, name, [], {}, place)
        if not (value.kind is t.TENSOR or is_number(value.kind)):
            raise ScriptError(f"{type(node.op).__name__} of {value.kind}", "it takes a tensor or a number", "convert "
                              "the operand", place)
        if isinstance(node.op, ast.UAdd):
            return value
        kind = t.INT if value.kind is t.BOOL else value.kind
        return self.node("aten::neg" if isinstance(node.op, ast.USub) else "aten::bitwise_not", [value], kind, place)

    def _BoolOp(self: Compiler, node: ast.BoolOp) -> Value:
        return self.truth_of(node, self.place(node))

    def truth_of(self: Compiler, node: ast.expr, place: Place) -> Value:
        """Return a condition as a value."""
        condition = self.condition(node)
        if condition.known is not None:
            return self.constant(condition.known, t.BOOL, place)
        assert condition.value is not None
        return condition.value

    def _Compare(self: Compiler, node: ast.Compare) -> Value:
        if len(node.ops) == 1:
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                return self.truth_of(node, self.place(node))
            return self.compare(node.ops[0], self.expression(node.left), self.expression(node.comparators[0]),
                                self.place(node))
        return self.truth_of(node, self.place(node))

    def compare(self: Compiler, op: ast.cmpop, left: Any, right: Any, place: Place) -> Value:
        """Return the result of a comparison.

        Raises:
            ScriptError: The types cannot be compared.
        """
        if isinstance(op, (ast.In, ast.NotIn)):
            found = self.contains(left, right, place)
            return self.node("aten::__not__", [found], t.BOOL, place) if isinstance(op, ast.NotIn) else found
        one, other = self.value(left, place), self.value(right, place)
        name = _COMPARE[type(op)]
        if isinstance(one.kind, t.ClassType):
            return self._overloaded(name, one, other, place)  # type: ignore[no-any-return]
        kind = comparison_type(name, one.kind, other.kind)
        if kind is None:
            raise ScriptError(f"{name} of {one.kind} and {other.kind}: Arguments for call are not valid",
                              "values of one type, and numbers and tensors, are compared", "convert one of them", place)
        return self.node(f"aten::{name}", [one, other], kind, place)

    def contains(self: Compiler, left: Any, right: Any, place: Place) -> Value:
        """Return whether a container has an element.

        Raises:
            ScriptError: The value is not a container of such elements.
        """
        from tensocket.jit.compiler.sugared import SugaredDict

        if isinstance(right, Value) and isinstance(right.kind, t.ClassType) and right.kind.details is not None:
            names = self.names_of(right)
            if names is not None:
                right = SugaredDict([self.constant(name, t.STRING, place) for name in names], names)
        if isinstance(right, SugaredDict):
            wanted = self.value(left, place).toIValue()
            return self.constant(wanted in [key.toIValue() for key in right.keys], t.BOOL, place)
        element, whole = self.value(left, place), self.value(right, place)
        if isinstance(whole.kind, t.ClassType):
            return self.call_method(whole, "__contains__", [element], {}, place)  # type: ignore[no-any-return]
        inside = {t.STRING: t.STRING, t.TENSOR: t.ANY}.get(whole.kind)
        if isinstance(whole.kind, t.ListType):
            inside = whole.kind.element
        elif isinstance(whole.kind, t.DictType):
            inside = whole.kind.key
        elif isinstance(whole.kind, t.TupleType):
            inside = t.ANY
        if inside is None or t.unify(element.kind, inside) is None:
            raise ScriptError(f"{element.kind} in {whole.kind}", "a container has elements of its own type", "convert "
                              "the element", place)
        return self.node("aten::__contains__", [whole, element], t.BOOL, place)

    def _IfExp(self: Compiler, node: ast.IfExp) -> Any:
        place = self.place(node)
        condition = self.condition(node.test)
        if condition.known is not None:
            self.refine(condition.true if condition.known else condition.false, place)
            return self.expression(node.body if condition.known else node.orelse)
        return self.choose(condition, lambda: self.value(self.expression(node.body), place),
                           lambda: self.value(self.expression(node.orelse), place), place)

    # ---- text

    def _JoinedStr(self: Compiler, node: ast.JoinedStr) -> Value:
        place = self.place(node)
        pieces, parts = "", []
        for each in node.values:
            if isinstance(each, ast.Constant):
                pieces += str(each.value).replace("{", "{{").replace("}", "}}")
                continue
            assert isinstance(each, ast.FormattedValue)
            if each.conversion not in (-1, 115):
                raise NotSupportedError("a conversion in an f-string", "Don't support conversion in JoinedStr",
                                        "use str() or format()", place)
            if each.format_spec is not None:
                raise NotSupportedError("a format in an f-string", "Don't support formatting in JoinedStr",
                                        "use str.format", place)
            pieces += "{}"
            parts.append(self.value(self.expression(each.value), place))
        template = self.constant(pieces, t.STRING, place)
        return self.node("aten::format", [template, *parts], t.STRING, place)

    # ---- comprehensions

    def _ListComp(self: Compiler, node: ast.ListComp, hint: t.JitType | None) -> Value:
        place, generator = self.place(node), self._generator(node)
        element = _element(hint)
        iterable = self.expression(generator.iter)
        known = self.known_items(iterable, place)
        if known is not None and not generator.ifs:
            parts = [self.value(self._with_target(generator.target, item, node.elt), place) for item in known]
            return self.list_of(parts, place, element if element is not t.ANY else None)
        result = self.node("prim::ListConstruct", [], t.ListType(element or t.TENSOR), place)

        def step() -> None:
            value = self.value(self.expression(node.elt, element), place)
            if element is None:
                result.kind = t.ListType(value.kind)
            self.add("aten::append", [result, value], place).add_output(t.NONE)

        self._comprehend(generator, iterable, step, place)
        return result

    def _DictComp(self: Compiler, node: ast.DictComp, hint: t.JitType | None) -> Value:
        place, generator = self.place(node), self._generator(node)
        wanted = hint if isinstance(hint, t.DictType) else None
        result = self.node("prim::DictConstruct", [], wanted or t.DictType(t.STRING, t.TENSOR), place)

        def step() -> None:
            key = self.value(self.expression(node.key), place)
            value = self.value(self.expression(node.value), place)
            if wanted is None:
                result.kind = t.DictType(key.kind, value.kind)
            self.add("aten::_set_item", [result, key, value], place)

        self._comprehend(generator, self.expression(generator.iter), step, place)
        return result

    def _generator(self: Compiler, node: ast.ListComp | ast.DictComp) -> ast.comprehension:
        if len(node.generators) != 1:
            raise NotSupportedError("several loops in a comprehension", "Only a single generator is currently "
                                    "supported", "use for loops", self.place(node))
        if node.generators[0].ifs:
            raise NotSupportedError("if in a comprehension", "Comprehension ifs are not supported yet", "use a for "
                                    "loop",
                                    self.place(node))
        return node.generators[0]

    def _with_target(self: Compiler, target: ast.expr, item: Any, element: ast.expr) -> Any:
        self.scope = Scope(self.scope.block, self.scope)
        try:
            self.bind_fresh(target, item)
            return self.expression(element)
        finally:
            assert self.scope.parent is not None
            self.scope = self.scope.parent

    def bind_fresh(self: Compiler, target: ast.expr, item: Any) -> None:
        """Give the names of a target values, whatever the names mean in blocks around this one."""
        if isinstance(target, ast.Name):
            self.scope.set(target.id, item)
            return
        place = self.place(target)
        assert isinstance(target, (ast.Tuple, ast.List))
        parts = self.items_of(item, place, len(target.elts))
        for each, part in zip(target.elts, parts or [], strict=True):
            self.bind_fresh(each, part)

    def _comprehend(self: Compiler, generator: ast.comprehension, iterable: Any, step: Any, place: Place
                    ) -> None:
        from tensocket.jit.compiler.control import truth

        count, element = self.iteration(iterable, place)
        made = self.add("prim::Loop", [count, self.constant(True, t.BOOL, place)], place)
        block = made.add_block()
        position = block.add_input(t.INT)

        def body() -> None:
            self.bind_fresh(generator.target, element(position))
            step()

        self._loop_body(block, Loop([], []), body, place)
        block.add_output(truth(self, block, True))

    def _GeneratorExp(self: Compiler, node: ast.GeneratorExp) -> Any:
        return self._ListComp(ast.copy_location(ast.ListComp(node.elt, node.generators), node), None)

    def collect(self: Compiler, thing: Any, place: Place) -> Value:
        """Return a list of the elements of a range, or of zipped values."""
        result = self.node("prim::ListConstruct", [], t.ListType(t.TENSOR), place)
        target = ast.Name("_element", ast.Store())
        generator = ast.comprehension(target, ast.Constant(None), [], 0)

        def step() -> None:
            value = self.value(self.scope.find("_element"), place)
            result.kind = t.ListType(value.kind)
            self.add("aten::append", [result, value], place).add_output(t.NONE)

        self._comprehend(generator, thing, step, place)
        return result

    # ---- attributes

    def _Attribute(self: Compiler, node: ast.Attribute) -> Any:
        place = self.place(node)
        owner = self.expression(node.value)
        if isinstance(owner, Sugared):
            return owner.attribute(self, place, node.attr)
        return self.attribute(owner, node.attr, place)

    def _Subscript(self: Compiler, node: ast.Subscript) -> Any:
        return self.subscript(node)


def _members(hint: t.JitType | None) -> list[t.JitType]:
    if hint is None:
        return []
    return list(hint.members) if isinstance(hint, t.UnionType) else [hint]


def _element(hint: t.JitType | None) -> t.JitType | None:
    lists = [k for k in _members(hint) if isinstance(k, t.ListType)]
    return lists[0].element if len(lists) == 1 else None


__all__ = ["Builtin", "Condition", "Expressions", "TreeForm"]
