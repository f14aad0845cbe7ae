"""Checks programs against the rules of ``rules.py``. A broken rule is a bug in the code that built the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from .nodes import Assign, Atomic, Declare, Expr, For, If, IRError, Let, Program, Reduce, Stmt, Store
from .rules import RULES, Rule
from .scope import Scope, parts
from .text import format_statement
from .vector_access import LoadVector, StoreVector

#: Cache of rules by class of node, at most one entry per class, never cleared.
_RULES: Final[dict[type, tuple[Rule, ...]]] = {}


def verify(program: Program) -> None:
    """Check all rules of the IR.

    Raises:
        IRError: The first broken rule, with kernel, statement and the rule's name.
    """
    outside = Scope.of(program)
    _check(program, outside, partial(str, f"program {program.name}"))
    for temporary in program.temporaries:
        _expressions([temporary.size], outside, partial(str, f"program {program.name}, temporary {temporary.name}"))
    for kernel in program.kernels:
        scope = Scope.of(program, kernel)
        _check(kernel, scope, partial(str, f"kernel {kernel.name}"))
        _block(kernel.body, scope, kernel.name)


def _check(node: Any, scope: Scope, where: Callable[[], str]) -> None:
    kind = type(node)
    if (rules := _RULES.get(kind)) is None:
        rules = _RULES[kind] = tuple(rule for rule in RULES if issubclass(kind, rule.node))
    for rule in rules:
        message = rule.check(node, scope)
        if message is not None:
            raise IRError(f"{where()}: {message} ({rule.name})")


def _expressions(expressions: Sequence[Expr], scope: Scope, where: Callable[[], str]) -> None:
    for part in parts(*expressions):
        _check(part, scope, where)


def _block(statements: tuple[Stmt, ...], scope: Scope, kernel: str) -> None:
    for s in statements:
        here = replace(scope, alone=len(statements) == 1)
        where = partial(_where, kernel, s)
        _expressions(_own_expressions(s), here, where)
        _check(s, here, where)
        if isinstance(s, For):
            _block(s.body, scope.enter(s), kernel)
        elif isinstance(s, If):
            _block(s.body, replace(scope, conditional=True), kernel)
        elif isinstance(s, Reduce):
            _reduce(s, scope, where)
            scope = scope.define(s.results)
        elif isinstance(s, Let | Declare):
            scope = scope.define([s.var], mutable=isinstance(s, Declare))


def _reduce(s: Reduce, scope: Scope, where: Callable[[], str]) -> None:
    """Check the parts of a reduction, each in its scope."""
    inner = scope.define(var for var, _ in s.loops)
    for let in s.body:
        _expressions([let.value], inner, where)
        _check(let, inner, where)
        inner = inner.define([let.var])
    _expressions(s.values, inner, where)
    _expressions(s.combine.values, scope.define((*s.combine.left, *s.combine.right)), where)


def _where(kernel: str, statement: Stmt) -> str:
    return f"kernel {kernel}, `{format_statement(statement)}`"


def _own_expressions(s: Any) -> tuple[Expr, ...]:
    """Return the expressions of a statement that are evaluated in its own scope."""
    match s:
        case Let() | Declare() | Assign():
            return (s.value,)
        case Store() | Atomic():
            return (s.index, s.value)
        case LoadVector() | StoreVector():
            return (s.index, s.count)
        case For():
            return (s.start, s.stop, s.step)
        case If():
            return (s.condition,)
        case Reduce():
            return (*(extent for _, extent in s.loops), *s.identity)
    return ()
