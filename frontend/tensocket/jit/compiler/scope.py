"""Names and their values while a function is compiled."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Block, Value


@dataclass(eq=False)
class Scope:
    """The names of a block.

    Attributes:
        block: The block.
        parent: The scope around it.
        values: Values of names that the block assigns.
        types: Types that the program declared.
        problems: Why a name has no value here.
        refined: Names whose value differs from the parent's in its type only.
        exit: How the block ends before its end: ``return``, ``break``, ``continue``, ``raise``; "" if it does not.
    """

    block: Block
    parent: Scope | None = None
    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, t.JitType] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    refined: set[str] = field(default_factory=set)
    exit: str = ""

    def find(self, name: str) -> Any:
        """Return the value of a name, None if it has none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.problems:
                return None
            scope = scope.parent
        return None

    def problem(self, name: str) -> str:
        """Return why a name has no value, or ""."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return ""
            if name in scope.problems:
                return scope.problems[name]
            scope = scope.parent
        return ""

    def declared(self, name: str) -> t.JitType | None:
        """Return the type that the program declared for a name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.types:
                return scope.types[name]
            scope = scope.parent
        return None

    def set(self, name: str, value: Any, refines: bool = False) -> None:
        """Give a name a value."""
        own = name in self.values and name not in self.refined
        self.values[name] = value
        self.problems.pop(name, None)
        if refines and not own:
            self.refined.add(name)
        else:
            self.refined.discard(name)

    def assigned(self) -> list[str]:
        """Return the names that the block assigned."""
        return [name for name in self.values if name not in self.refined]


@dataclass(eq=False)
class Loop:
    """The loop that is compiled.

    Attributes:
        names: Names whose values go from one iteration to the next.
        kinds: Their types.
        condition: Syntax tree of the condition of a ``while``, None for ``for``.
    """

    names: list[str]
    kinds: list[t.JitType]
    condition: ast.expr | None = None


@dataclass(eq=False)
class Condition:
    """A compiled condition.

    Attributes:
        value: Its value in the graph; None if it is known.
        known: The truth value if the compiler knows it.
        true: Narrower types of names where it holds.
        false: Narrower types of names where it does not.
    """

    value: Value | None
    known: bool | None = None
    true: dict[str, t.JitType] = field(default_factory=dict)
    false: dict[str, t.JitType] = field(default_factory=dict)

    def opposite(self) -> tuple[dict[str, t.JitType], dict[str, t.JitType]]:
        """Return the refinements of the negation."""
        return self.false, self.true


class _Assigned(ast.NodeVisitor):
    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def visit_Name(self, node: ast.Name) -> None:
        """Note a name that is assigned."""
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self.names[node.id] = None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Note the function's name only."""
        self.names[node.name] = None

    def visit_ListComp(self, node: ast.ListComp) -> None:
        """Pass by: its names are its own."""

    def visit_DictComp(self, node: ast.DictComp) -> None:
        """Pass by: its names are its own."""


def assigned_names(statements: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, in order."""
    visitor = _Assigned()
    for statement in statements:
        visitor.visit(statement)
    return list(visitor.names)
