"""Compiled functions: a graph, a schema, and the Python function that computes the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tensocket.jit.frontend import Source
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Graph


class _Inlining:
    """Whether called functions are inlined when a function is compiled."""

    everything = False


INLINE: Final = _Inlining()
#: Marks an argument without a default.
MISSING: Final = object()


@dataclass(slots=True)
class Argument:
    """A parameter of a compiled function.

    Attributes:
        name: Its name.
        type: Its type.
        default: The default, or ``MISSING``.
        kwarg_only: Whether it is passed by name only.
    """

    name: str
    type: t.JitType
    default: Any = MISSING
    kwarg_only: bool = False

    def has_default_value(self) -> bool:
        """Whether there is a default."""
        return self.default is not MISSING

    @property
    def default_value(self) -> Any:
        """The default, None without one."""
        return None if self.default is MISSING else self.default

    def __str__(self) -> str:
        default = "" if self.default is MISSING else f"={self.default!r}"
        return f"{self.type} {self.name}{default}"


@dataclass(slots=True)
class FunctionSchema:
    """The signature of a compiled function.

    Attributes:
        name: Its name.
        arguments: The parameters.
        result: Type of the result.
    """

    name: str
    arguments: list[Argument]
    result: t.JitType

    @property
    def returns(self) -> list[Argument]:
        """The result, as an argument without a name."""
        return [Argument("", self.result)]

    def __str__(self) -> str:
        result = f"({self.result})" if isinstance(self.result, t.TupleType) else f"{self.result}"
        return f"{self.name}({', '.join(map(str, self.arguments))}) -> {result}"


@dataclass(eq=False)
class CompiledFunction:
    """A function that was compiled to a graph.

    Attributes:
        name: Its name.
        qualified: Its name in printed code.
        graph: The graph; None while it is compiled, and for methods of the library's layers.
        schema: The signature.
        source: The text that it was compiled from.
        owner: The class of which it is a method.
        python: The Python function that it was compiled from.
    """

    name: str
    qualified: str
    schema: FunctionSchema
    graph: Graph | None = None
    source: Source | None = None
    owner: t.ClassType | None = None
    python: Any = None
    is_static: bool = False
    _entry: Callable[..., Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():  # a lambda
            self.name = "_lambda"
            self.qualified = f"{self.qualified.rpartition('.')[0] or '__torch__'}._lambda"

    _checked: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def entry(self) -> Callable[..., Any]:
        """The Python function that computes the graph; it takes all arguments by position and checks none."""
        if self._entry is None:
            from tensocket.jit.graph.python_code import build_entry

            self._entry = build_entry(self)
        return self._entry

    @property
    def checked(self) -> Callable[..., Any]:
        """The Python function that Python calls: it checks and copies arguments as values enter a script."""
        if self._checked is None:
            from tensocket.jit.boundary import build_checked

            self._checked = build_checked(self)
        return self._checked

    def forget_code(self) -> None:
        """Drop the Python functions, because the graph changed."""
        self._entry = self._checked = None

    @property
    def inlined_graph(self) -> Graph:
        """The graph, with the graphs of the functions that it calls in their place."""
        from tensocket.jit.graph.passes import inlined

        assert self.graph is not None
        return inlined(self.graph)

    def __repr__(self) -> str:
        return f"<compiled function {self.qualified}>"
