"""Branches and loops of scripts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.compiler.scope import Condition, Loop, Scope, assigned_names
from tensocket.jit.compiler.sugared import Range, Sugared, Zipped
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Block, Node, Value

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler

#: The trip count of loops that only their condition ends.
ENDLESS: Final = 9223372036854775807


class Control:
    """The compiler's methods for branches and loops."""

    scope: Scope

    # ---- branches

    def _If(self: Compiler, node: ast.If) -> None:
        place = self.place(node.test)
        condition = self.condition(node.test)
        if condition.known is not None:
            self.refine(condition.true if condition.known else condition.false, place)
            self.statements(node.body if condition.known else node.orelse)
            return
        assert condition.value is not None
        made, (yes, no) = self.blocks_of("prim::If", [condition.value], 2, place)
        scopes = [self.branch(yes, condition.true, lambda: self.statements(node.body), place),
                  self.branch(no, condition.false, lambda: self.statements(node.orelse), place)]
        self.join(made, scopes, place)
        for scope, refinements in zip(scopes, (condition.false, condition.true), strict=True):
            if scope.exit and not self.scope.exit:
                changed = {name for each in scopes for name in each.assigned()}
                self.refine({n: k for n, k in refinements.items() if n not in changed}, place)

    def branch(self: Compiler, block: Block, refinements: dict[str, t.JitType],
               body: Callable[[], Any], place: Place | None) -> Scope:
        """Compile a block and return its scope."""
        outer = self.scope
        self.scope = Scope(block, outer)
        try:
            self.refine(refinements, place)
            body()
            return self.scope
        finally:
            self.scope = outer

    def join(self: Compiler, node: Node, scopes: list[Scope], place: Place) -> None:
        """Give the names that branches assign one value each, the node's output."""
        live = [scope for scope in scopes if not scope.exit]
        if not live:
            exits = {scope.exit for scope in scopes}
            self.scope.exit = "return" if exits <= {"return", "raise"} and "return" in exits else scopes[0].exit
            return
        names = dict.fromkeys(name for scope in live for name in [*scope.assigned(), *scope.problems])
        for name in names:
            self._join_name(node, name, scopes, live, place)

    def _join_name(self: Compiler, node: Node, name: str, scopes: list[Scope], live: list[Scope],
                   place: Place) -> None:
        found = [scope.find(name) for scope in live]
        sides = ["true", "false"] if len(scopes) == 2 else ["with"]
        if any(each is None for each in found):
            missing = sides[scopes.index(live[[each is None for each in found].index(True)])]
            problem = next((p for scope in live if (p := scope.problem(name))), "")
            self.scope.values.pop(name, None)
            self.scope.problems[name] = problem or f"{name} is not defined in the {missing} branch"
            return
        if len(live) == 1 and len(scopes) > 1 and isinstance(found[0], Sugared):
            self.scope.set(name, found[0])
            return
        if any(isinstance(each, Sugared) for each in found):
            if all(each is found[0] for each in found):
                self.scope.set(name, found[0])
            else:
                self.scope.problems[name] = f"{name} is not a value of one type in both branches"
            return
        declared = self.scope.declared(name) or next((k for s in live if (k := s.types.get(name))), None)
        # A branch may leave a narrower type than the declared one: `if x is None: x = 1`.
        kind = t.unify_all([each.kind for each in found]) or declared
        if kind is None:
            shown = " and ".join(f"type {each.kind.annotation_str} in the {side} branch"
                                 for each, side in zip(found, sides, strict=False))
            self.scope.values.pop(name, None)
            self.scope.problems[name] = f"Type mismatch: {name} is set to {shown}"
            return
        for scope in scopes:
            block = scope.block
            if scope.exit:
                block.add_output(self._uninitialized(block, kind))
            else:
                block.add_output(self._in_scope(scope, scope.find(name), kind, place))
        self.scope.set(name, node.add_output(kind, name))
        if declared is not None and self.scope.declared(name) is None:
            self.scope.types[name] = declared

    def _in_scope(self: Compiler, scope: Scope, value: Value, kind: t.JitType, place: Place) -> Value:
        outer, self.scope = self.scope, scope
        try:
            return self.convert(value, kind, place, conversions=False)
        finally:
            self.scope = outer

    def _uninitialized(self: Compiler, block: Block, kind: t.JitType) -> Value:
        return block.append(Node(self.graph, "prim::Uninitialized")).add_output(kind)

    def in_block(self: Compiler, node: Node, body: Callable[[], Any], place: Place) -> None:
        """Compile the one block of a node, which always runs."""
        scope = self.branch(node.add_block(), {}, body, place)
        if scope.exit:
            self.scope.exit = scope.exit
            return
        self.join(node, [scope], place)

    def choose(self: Compiler, condition: Condition, yes: Callable[[], Value], no: Callable[[], Value],
               place: Place, kind: t.JitType | None = None) -> Value:
        """Return one of two expressions' values."""
        if condition.known is not None:
            self.refine(condition.true if condition.known else condition.false, place)
            return (yes if condition.known else no)()
        assert condition.value is not None
        made, blocks = self.blocks_of("prim::If", [condition.value], 2, place)
        found: list[Value] = []
        scopes = [self.branch(block, refinements, _append(found, side), place)
                  for block, refinements, side in zip(blocks, (condition.true, condition.false), (yes, no),
                                                      strict=True)]
        kind = kind or t.unify(found[0].kind, found[1].kind)
        if kind is None:
            kind = t.union_of([each.kind for each in found])
            if not all(each.kind is t.NONE or t.is_subtype(each.kind, kind) for each in found):
                raise ScriptError(f"a conditional expression of {found[0].kind} and {found[1].kind}", "both sides "
                                  "are of "
                                  "one type", "convert one of them", place)
        for scope, value in zip(scopes, found, strict=True):
            scope.block.add_output(self._in_scope(scope, value, kind, place))
        return made.add_output(kind)

    # ---- loops

    def _carried(self: Compiler, body: list[ast.stmt], targets: list[str]) -> Loop:
        """Return the names that a body changes and that have values before it."""
        names, kinds = [], []
        for name in assigned_names(body):
            value = self.scope.find(name)
            if isinstance(value, Value) and name not in targets:
                names.append(name)
                kinds.append(value.kind)
        return Loop(names, kinds)

    def _While(self: Compiler, node: ast.While) -> None:
        if node.orelse:
            raise ScriptError("else after a loop", "else branches of while loops aren't supported", "use a flag",
                              self.place(node))
        place = self.place(node)
        loop = self._carried(node.body, [])
        loop.condition = node.test
        trip = self.constant(ENDLESS, t.INT, place)
        first = self._condition_value(node.test)
        made = self.add("prim::Loop", [trip, first], place)
        self._start(made, loop, place)
        block = made.add_block()
        block.add_input(t.INT)
        refinements: dict[str, t.JitType] = {}
        scope = self._loop_body(block, loop, lambda: self._refined_body(node.test, node.body), place)
        if not scope.exit:
            outer, self.scope = self.scope, scope
            try:
                block.add_output(self._condition_value(node.test))
            finally:
                self.scope = outer
        else:
            block.add_output(self._uninitialized(block, t.BOOL))
        self._finish(made, block, scope, loop, place)
        del refinements

    def _refined_body(self: Compiler, test: ast.expr, body: list[ast.stmt]) -> None:
        """Compile a body in which the loop's condition holds."""
        # The condition was computed before this block; only what it says of types counts here.
        before = len(self.scope.block.nodes_)
        true = self.condition(test).true
        for node in reversed(self.scope.block.nodes_[before:]):
            node.destroy()
        self.refine(true, self.place(test))
        self.statements(body)

    def _condition_value(self: Compiler, test: ast.expr) -> Value:
        condition = self.condition(test)
        if condition.known is not None:
            return self.constant(condition.known, t.BOOL, self.place(test))
        assert condition.value is not None
        return condition.value

    def _start(self: Compiler, node: Node, loop: Loop, place: Place) -> None:
        for name, kind in zip(loop.names, loop.kinds, strict=True):
            before = len(self.scope.block.nodes_)
            node.add_input(self.convert(self.scope.find(name), kind, place))
            made = self.scope.block.nodes_[before:]
            if made:  # a conversion goes before the loop
                self.scope.block.nodes_.remove(node)
                self.scope.block.nodes_.append(node)

    def _loop_body(self: Compiler, block: Block, loop: Loop, body: Callable[[], Any],
                   place: Place) -> Scope:
        outer = self.scope
        self.scope = Scope(block, outer)
        self.loops.append(loop)
        try:
            for name, kind in zip(loop.names, loop.kinds, strict=True):
                self.scope.set(name, block.add_input(kind, name))
            body()
            return self.scope
        finally:
            self.loops.pop()
            self.scope = outer

    def _finish(self: Compiler, node: Node, block: Block, scope: Scope, loop: Loop, place: Place) -> None:
        for name, kind in zip(loop.names, loop.kinds, strict=True):
            value = scope.find(name)
            if value is None and not scope.exit:
                raise ScriptError(scope.problem(name) or f"{name} has no value", "a loop keeps the variables that it "
                                  "found", "do not delete it", place)
            if not scope.exit:
                value = self._in_scope(scope, value, kind, place)
                self._check_carried(name, value, kind, place)
            block.add_output(self._uninitialized(block, kind) if scope.exit else value)
            self.scope.set(name, node.add_output(kind, name))
        for name in scope.assigned():
            if name not in loop.names and self.scope.find(name) is None:
                self.scope.problems[name] = f"{name} is not defined: only the body of a loop assigns it"

    def _check_carried(self: Compiler, name: str, value: Value, kind: t.JitType, place: Place) -> None:
        """Refuse a value of another type for the next iteration.

        Raises:
            ScriptError: It is of another type.
        """
        if not t.is_subtype(value.kind, kind):
            raise ScriptError(f"Variable '{name}' previously had type {kind.annotation_str} but is now being "
                              f"assigned to a "
                              f"value of type {value.kind.annotation_str}", "a variable keeps its type in a loop",
                              "assert its type at the end of the loop, or use another name", place)

    def _For(self: Compiler, node: ast.For) -> None:
        place = self.place(node.iter)
        if node.orelse:
            raise ScriptError("else after a loop", "else branches of for loops aren't supported", "use a flag",
                              self.place(node))
        iterable = self.expression(node.iter)
        known = self.known_items(iterable, place)
        if known is not None:
            self._unrolled(node, known)
            return
        count, element = self.iteration(iterable, place)
        self.loop(node, count, element, place)

    def known_items(self: Compiler, iterable: Any, place: Place) -> list[Any] | None:
        """Return the elements of an iterable whose loop is unrolled: modules, tuples, and zips with these."""
        if isinstance(iterable, Value) and not isinstance(iterable.kind, (t.TupleType, t.ClassType)):
            return None
        return self.items_of(iterable, place)

    def _unrolled(self: Compiler, node: ast.For, items: list[Any]) -> None:
        for statement in ast.walk(ast.Module(node.body, [])):
            if isinstance(statement, (ast.Break, ast.Continue)) and _loop_of(node, statement) is node:
                raise ScriptError(f"'{type(statement).__name__.lower()}' in a loop over modules or a tuple",
                                  "such loops are unrolled and have neither break nor continue", "use if",
                                  self.place(statement))
        for item in items:
            if self.scope.exit:
                return
            self.bind(node.target, item, None)
            self.statements(node.body)

    def iteration(self: Compiler, iterable: Any, place: Place) -> tuple[Value, Callable[[Value], Any]]:
        """Return the number of elements, and a function that returns the element at a position."""
        if isinstance(iterable, Range):
            return self._range(iterable, place)
        if isinstance(iterable, Zipped):
            return self._zipped(iterable, place)
        whole = self.value(iterable, place)
        if isinstance(whole.kind, t.DictType):
            whole = self.node("aten::keys", [whole], t.ListType(whole.kind.key), place)
        if not (whole.kind in (t.TENSOR, t.STRING) or isinstance(whole.kind, t.ListType)):
            if isinstance(whole.kind,
                          t.ClassType) and whole.kind.method("__getitem__") and whole.kind.method("__len__"):
                return (self.call_method(whole, "__len__", [], {}, place),
                        lambda k: self.call_method(whole, "__getitem__", [k], {}, place))
            raise ScriptError(f"'{whole.kind}' object is not iterable", "loops go over lists, tuples, dicts, tensors, "
                              "str and ranges", "loop over one of these", place)
        count = self.node("aten::len", [whole], t.INT, place)
        return count, lambda k: self.index(whole, k, place)

    def _range(self: Compiler, given: Range, place: Place) -> tuple[Value, Callable[[Value], Any]]:
        if given.only_stop:
            return given.stop, lambda k: k
        count = self.node("aten::__range_length", [given.start, given.stop, given.step], t.INT, place)
        return count, lambda k: self.node("aten::__derive_index", [k, given.start, given.step], t.INT, place)

    def _zipped(self: Compiler, given: Zipped, place: Place) -> tuple[Value, Callable[[Value], Any]]:
        parts = [self.iteration(part, place) for part in given.parts]
        counts = [count for count, _ in parts]
        count = counts[0] if len(counts) == 1 else self.node(
            "prim::min", [self.list_of(counts, place)], t.INT, place)

        def element(k: Value) -> Any:
            from tensocket.jit.compiler.sugared import SugaredTuple

            found = [get(k) for _, get in parts]
            if given.counts:
                found.insert(0, k if given.start is None else self.binary("add", k, given.start, place))
            return SugaredTuple(found)

        return count, element

    def loop(self: Compiler, node: ast.For, count: Value, element: Callable[[Value], Any], place: Place
             ) -> None:
        """Compile a loop over positions."""
        targets = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
        outer = [n for n in targets if isinstance(self.scope.find(n), Value)]
        loop = self._carried(node.body, [n for n in targets if n not in outer])
        for name in outer:
            if name not in loop.names:
                loop.names.append(name)
                loop.kinds.append(self.scope.find(name).kind)
        true = self.constant(True, t.BOOL, place)
        made = self.add("prim::Loop", [count, true], place)
        self._start(made, loop, place)
        block = made.add_block()
        position = block.add_input(t.INT, targets[0] if len(targets) == 1 else "")

        def body() -> None:
            self.bind(node.target, element(position), None)
            self.statements(node.body)

        scope = self._loop_body(block, loop, body, place)
        block.add_output(truth(self, block, True))
        self._finish(made, block, scope, loop, place)

    def _Break(self: Compiler, node: ast.Break) -> None:
        self._jump(node, "break")

    def _Continue(self: Compiler, node: ast.Continue) -> None:
        self._jump(node, "continue")

    def _jump(self: Compiler, node: ast.stmt, exit: str) -> None:
        place = self.place(node)
        if not self.loops:
            raise ScriptError(f"'{exit}' outside of a loop", f"{exit} belongs in a loop", "remove it", place)
        loop = self.loops[-1]
        values = [self.convert(self.scope.find(name), kind, place)
                  for name, kind in zip(loop.names, loop.kinds, strict=True)]
        for name, value, kind in zip(loop.names, values, loop.kinds, strict=True):
            self._check_carried(name, value, kind, place)
        if exit == "continue" and loop.condition is not None:
            values.insert(0, self._condition_value(loop.condition))
        self.add(f"prim::{exit.capitalize()}Stmt", values, place)
        self.scope.exit = exit


def _append(found: list[Value], make: Callable[[], Value]) -> Callable[[], None]:
    """Return a function that adds a value to a list."""
    return lambda: found.append(make())


def truth(compiler: Compiler, block: Block, value: bool) -> Value:
    """Add a constant truth value to a block."""
    return block.append(Node(compiler.graph, "prim::Constant", value=value)).add_output(t.BOOL)


def _loop_of(node: ast.For, statement: ast.AST) -> ast.AST:
    """Return the innermost loop around a statement."""
    for inner in ast.walk(ast.Module(node.body, [])):
        if isinstance(inner, (ast.For, ast.While)) and any(each is statement for each in ast.walk(inner)):
            return inner
    return node
