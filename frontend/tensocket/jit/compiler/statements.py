"""Statements of scripts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.compiler.sugared import ExceptionClass, ExceptionValue, FunctionValue, Sugared
from tensocket.jit.frontend import FrontendError, NotSupportedError, Place, ScriptError, UnsupportedNodeError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Node, Value
from tensocket.jit.graph.operators import arithmetic_type

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler

#: Statements that scripts do not have, with their names in PyTorch's errors.
_UNSUPPORTED: Final[dict[type[ast.AST], str]] = {
    ast.Try: "try blocks", ast.Import: "import statements", ast.ImportFrom: "import statements",
    ast.Global: "global variables", ast.Nonlocal: "nonlocal variables", ast.ClassDef: "class definitions",
    ast.AsyncFunctionDef: "async function definitions", ast.AsyncFor: "async for loops",
    ast.AsyncWith: "async with statements", ast.Match: "match statements",
}
#: Statements that Python allows to change a variable, with the operators.
_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    ast.LShift: "__lshift__", ast.RShift: "__rshift__",
}
_INPLACE: Final = {"add": "add_", "sub": "sub_", "mul": "mul_", "div": "div_", "remainder": "remainder_",
                   "__and__": "__iand__", "__or__": "__ior__", "__xor__": "__ixor__", "__lshift__": "__ilshift__",
                   "__rshift__": "__irshift__", "floordiv": "floor_divide_", "pow": "pow_"}


class Statements:
    """The compiler's methods for statements."""

    def statements(self: Compiler, body: list[ast.stmt]) -> None:
        """Compile statements up to one that leaves the block."""
        for statement in body:
            if self.scope.exit:
                return
            self.statement(statement)

    def statement(self: Compiler, node: ast.stmt) -> None:
        """Compile one statement.

        Raises:
            UnsupportedNodeError: Scripts do not have it.
        """
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            label = _UNSUPPORTED.get(type(node), type(node).__name__)
            raise UnsupportedNodeError(f"{label} aren't supported", "scripts are a part of Python",
                                       "move it out of the script, or mark the function with @torch.jit.ignore",
                                       self.place(node))
        method(node)

    def _Pass(self: Compiler, node: ast.Pass) -> None:
        """Compile nothing."""

    def _Expr(self: Compiler, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, (str, type(...))):
            return
        self.expression(node.value)

    # ---- assignments

    def _Assign(self: Compiler, node: ast.Assign) -> None:
        declared = None
        if node.type_comment:
            declared = self.annotation(ast.copy_location(ast.Constant(node.type_comment), node))
        if len(node.targets) == 1:
            hint = declared or self._target_type(node.targets[0])
            self.bind(node.targets[0], self.expression(node.value, hint), declared)
            return
        value = self.expression(node.value)
        for target in node.targets:
            self.bind(target, value, declared)

    def _target_type(self: Compiler, target: ast.expr) -> t.JitType | None:
        """Return the type that a target has already, for literals whose own type is not known."""
        if isinstance(target, ast.Name):
            return self.scope.declared(target.id)
        if isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            if isinstance(owner, Value) and isinstance(owner.kind, t.ClassType):
                return owner.kind.attributes.get(target.attr)
        return None

    def _AnnAssign(self: Compiler, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise FrontendError(f"{ast.unparse(node)}", "Expected assignment: an annotated variable has a value",
                                "assign a value in the same line", self.place(node))
        declared = self.annotation(node.annotation)
        self.bind(node.target, self.expression(node.value, declared), declared)

    def _AugAssign(self: Compiler, node: ast.AugAssign) -> None:
        place, name = self.place(node), _OPERATORS.get(type(node.op), "")
        load = ast.copy_location(_loaded(node.target), node.target)
        if isinstance(node.target, ast.Subscript):
            self.augment_item(node, name, place)
            return
        before, other = self.expression(load), self.expression(node.value)
        if isinstance(before, Value) and before.kind is t.TENSOR:
            result = self.inplace(before, name, self.value(other, place), place)
        elif isinstance(before, Value) and isinstance(before.kind, t.ListType) and name == "add":
            self.call_method(before, "extend", [other], {}, place)
            return
        elif isinstance(before, Value) and isinstance(before.kind, t.ClassType):
            dunder = {"add": "__iadd__", "sub": "__isub__", "mul": "__imul__", "div": "__itruediv__"}.get(name, "")
            if dunder and before.kind.method(dunder) is not None:
                result = self.call_method(before, dunder, [other], {}, place)
            else:
                result = self.binary(name, before, other, place)
        else:
            result = self.binary(name, before, other, place)
        self.bind(node.target, result, None)

    def inplace(self: Compiler, before: Value, name: str, other: Value, place: Place) -> Value:
        """Add the in-place form of a binary operator."""
        if name == "matmul":
            return self.binary(name, before, other, place)  # type: ignore[no-any-return]
        if arithmetic_type(name, before.kind, other.kind) is None:
            self.binary(name, before, other, place)
        return self.node(f"aten::{_INPLACE[name]}", [before, other], t.TENSOR, place)

    def bind(self: Compiler, target: ast.expr, thing: Any, declared: t.JitType | None) -> None:
        """Assign a value to a target."""
        place = self.place(target)
        if isinstance(target, ast.Name):
            self.assign(target.id, thing, place, declared)
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, thing, declared, place)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, thing, place)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, thing, place)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, thing, declared)
        else:
            raise NotSupportedError(f"{ast.unparse(target)} as a target", "values are assigned to variables, "
                                    "attributes, elements and tuples of these", "use one of these", place)

    def _bind_attribute(self: Compiler, target: ast.Attribute, thing: Any, declared: Any,
                        place: Place) -> None:
        owner = self.expression(target.value)
        if not isinstance(owner, Value) or not isinstance(owner.kind, t.ClassType):
            what = owner.describe() if isinstance(owner, Sugared) else f"a value of type '{owner.kind}'"
            raise ScriptError(f"Tried to set an attribute: {target.attr} on a non-class: {what}", "only modules and "
                              "instances of scripted classes have attributes", "use a local variable", place)
        self.set_attribute(owner, target.attr, thing, declared, place)

    def _unpack(self: Compiler, target: ast.Tuple | ast.List, thing: Any, place: Place) -> None:
        stars = [k for k, each in enumerate(target.elts) if isinstance(each, ast.Starred)]
        if len(stars) > 1:
            raise ScriptError("several starred targets", "Only one starred expression is allowed on the lhs",
                              "keep one", place)
        count = len(target.elts)
        parts = self.items_of(thing, place, None if stars else count)
        if parts is None:
            raise ScriptError(f"{ast.unparse(target)}", "Provided values cannot be unpacked: their number is not known",
                              "index the value", place)
        if len(parts) != count and not stars:
            raise ScriptError(f"{len(parts)} values for {count} targets", f"need {count} values to unpack but found "
                              f"{len(parts)}", "give each value a target", place)
        if stars:
            if len(parts) < count - 1:
                raise ScriptError(f"{len(parts)} values for {count} targets", "need at least as many values to unpack "
                                  "as there are targets without a star", "remove targets", place)
            last = len(parts) - (count - stars[0] - 1)
            middle = self.tuple_of([self.value(p, place) for p in parts[stars[0]:last]], place)
            parts = [*parts[:stars[0]], middle, *parts[last:]]
        for each, part in zip(target.elts, parts, strict=True):
            self.bind(each, part, None)

    def _Delete(self: Compiler, node: ast.Delete) -> None:
        for target in node.targets:
            place = self.place(target)
            if isinstance(target, ast.Name):
                if self.scope.find(target.id) is None:
                    self.lookup(target.id, place)
                self.scope.values.pop(target.id, None)
                self.scope.problems[target.id] = f"undefined value {target.id}"
            elif isinstance(target, ast.Subscript):
                owner = self.value(self.expression(target.value), place)
                if isinstance(owner.kind, t.ClassType):
                    self.call_method(owner, "__delitem__", [self.expression(target.slice)], {}, place)
                else:
                    self.add("aten::Delete", [owner, self.value(self.expression(target.slice), place)], place)
            else:
                raise ScriptError(ast.unparse(node), "del statements are only supported for deleting list and dict "
                                  "items and variables", "delete one of these", place)

    # ---- leaving a block

    def _Return(self: Compiler, node: ast.Return) -> None:
        place = self.place(node)
        thing: Any = self.constant(None, t.NONE, place)
        if node.value is not None:
            thing = self.expression(node.value, self.result)
        value = self.value(thing, place)
        if self.result is not None:
            value = self.checked_result(value, place)
        self.returned.append((self.add("prim::ReturnStmt", [value], place), value))
        self.scope.exit = "return"

    def checked_result(self: Compiler, value: Value, place: Place) -> Value:
        """Return a result as the declared type.

        Raises:
            ScriptError: It is of another type.
        """
        assert self.result is not None
        value = self.convert(value, self.result, place)
        if not t.is_subtype(value.kind, self.result):
            raise ScriptError(f"Return value was annotated as having type {self.result.annotation_str} but is actually "
                              f"of type {value.kind.annotation_str}", "a function returns values of its declared type",
                              "correct the annotation or the value", place)
        return value

    def _Raise(self: Compiler, node: ast.Raise) -> None:
        place = self.place(node)
        if node.exc is None:
            raise ScriptError("raise without an exception", "a script raises a new exception", "name one", place)
        thing = self.expression(node.exc)
        if isinstance(thing, ExceptionClass):
            thing = ExceptionValue(thing.kind, [])
        if not isinstance(thing, ExceptionValue):
            if not (isinstance(thing, Value) and isinstance(thing.kind, t.ClassType)):
                raise ScriptError(ast.unparse(node), "exceptions must derive from BaseException", "raise an exception",
                                  place)
            thing = ExceptionValue(thing.kind.python or RuntimeError, [self.constant("", t.STRING, place)])
        message = self._message(thing, place)
        name = thing.kind.__name__ if thing.kind.__module__ == "builtins" else (
            f"{thing.kind.__module__}.{thing.kind.__qualname__}")
        self.add("prim::RaiseException", [message], place, cls=name)
        self.scope.exit = "raise"

    def _message(self: Compiler, thing: ExceptionValue, place: Place) -> Value:
        if not thing.arguments:
            return self.constant("", t.STRING, place)
        if len(thing.arguments) == 1:
            first = thing.arguments[0]
            return first if first.kind is t.STRING else self.node("aten::str", [first], t.STRING, place)
        whole = self.tuple_of(thing.arguments, place)
        return self.node("aten::str", [whole], t.STRING, place)

    def _Assert(self: Compiler, node: ast.Assert) -> None:
        place = self.place(node)
        raised = ast.Raise(ast.Call(ast.Name("AssertionError", ast.Load()), [] if node.msg is None else [node.msg], []),
                           None)
        made = ast.If(ast.UnaryOp(ast.Not(), node.test), [raised], [])
        for each in ast.walk(made):
            if not hasattr(each, "lineno"):
                ast.copy_location(each, node)
        del place
        self.statement(made)

    def _FunctionDef(self: Compiler, node: ast.FunctionDef) -> None:
        raise UnsupportedNodeError(f"function definition {node.name!r} inside of a script", "function definitions "
                                   "aren't "
                                   "supported inside of scripts", "define it outside", self.place(node))

    # ---- with

    def _With(self: Compiler, node: ast.With) -> None:
        self._managers(node.items, node)

    def _managers(self: Compiler, items: list[ast.withitem], node: ast.With) -> None:
        if not items:
            self.statements(node.body)
            return
        place = self.place(items[0].context_expr)
        manager = self.value(self.expression(items[0].context_expr), place)
        result = self.enter(manager, place)
        if items[0].optional_vars is not None:
            self.bind(items[0].optional_vars, result, None)
        made = self.add("prim::With", [manager], place)
        self.in_block(made, lambda: self._managers(items[1:], node), place)

    def enter(self: Compiler, manager: Value, place: Place) -> Value:
        """Return the value that ``as`` names.

        Raises:
            ScriptError: The value is not a context manager.
        """
        if manager.kind is t.ANY:
            return self.node("prim::Enter", [manager], t.ANY, place)
        if not isinstance(manager.kind, t.ClassType) or manager.kind.method("__enter__") is None \
                or manager.kind.method("__exit__") is None:
            raise ScriptError(f"with a value of type {manager.kind}", "with item expressions must be objects with "
                              "__enter__ and __exit__", "define both methods in a scripted class", place)
        ends = manager.kind.method("__exit__").schema.arguments
        if len(ends) != 4:
            raise ScriptError(f"__exit__ with {len(ends)} arguments", "__exit__ must have four arguments", "define "
                              "__exit__(self, type, value, tb)", place)
        return self.call_method(manager, "__enter__", [], {}, place)  # type: ignore[no-any-return]


def _loaded(target: ast.expr) -> ast.expr:
    """Return a target as an expression."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return target


__all__ = ["FunctionValue", "Node", "Statements"]
