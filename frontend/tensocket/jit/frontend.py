"""Sources of scripts: text, syntax trees, places, and the errors that show a place."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, field
from typing import Any, Final

from tensocket_plugins.contract.errors import TensocketError

#: Lines that an error shows before the marked one.
_CONTEXT: Final = 3


class ScriptError(TensocketError, RuntimeError):
    """A program that is not a script: of the wrong types, or with unknown names.

    Args:
        given: The construct of the program.
        rule: The rule that it breaks.
        advice: The next step for the user.
        place: Where it says so, or None.
    """

    def __init__(self, given: str, rule: str, advice: str, place: Place | None = None) -> None:
        shown = "" if place is None else f":\n{place.highlight()}"
        super().__init__("jit.script", given, rule, f"{advice}{shown}")
        self.place = place
        self.parts = (given, rule, advice, place)

    def __reduce__(self) -> Any:
        return type(self), (*self.parts[:3], None)


class FrontendError(TensocketError):
    """Syntax that is not part of the language of scripts.

    Args:
        given: The construct.
        rule: The rule that it breaks.
        advice: The next step for the user.
        place: Where it is, or None.
    """

    def __init__(self, given: str, rule: str, advice: str, place: Place | None = None) -> None:
        shown = "" if place is None else f":\n{place.highlight()}"
        super().__init__("jit.script", given, rule, f"{advice}{shown}")
        self.source_range = place
        self.parts = (given, rule, advice, place)

    def __reduce__(self) -> Any:
        return type(self), (*self.parts[:3], None)


class NotSupportedError(FrontendError):
    """A construct of Python that scripts do not have."""


class UnsupportedNodeError(NotSupportedError):
    """A kind of statement or expression that scripts do not have."""


class Error(RuntimeError):
    """An exception that a script raised."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The text of a function or class.

    Attributes:
        text: The text, without common indentation.
        file: The file's name.
        first: Number of its first line there.
        indent: The number of columns that were removed.
        name: Name of the function.
    """

    text: str
    file: str = "<string>"
    first: int = 1
    indent: int = 0
    name: str = ""
    lines: list[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", self.text.split("\n"))


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A part of a source.

    Attributes:
        source: The source.
        line: The line, from 1 for the first of the source.
        column: Its first column.
        end: The column after its last one in that line.
    """

    source: Source
    line: int
    column: int
    end: int

    @property
    def file_line(self) -> int:
        """The number of the line in the file."""
        return self.source.first + self.line - 1

    def short(self) -> str:
        """Return file, line and column."""
        return f"{self.source.file}:{self.file_line}:{self.column + self.source.indent}"

    def highlight(self) -> str:
        """Return the lines around the place, and marks under it."""
        lines = self.source.lines
        shown = lines[max(0, self.line - 1 - _CONTEXT):self.line]
        marks = " " * self.column + "~" * max(1, self.end - self.column) + " <--- HERE"
        after = [line for line in lines[self.line:self.line + 1] if line.strip()]
        return "\n".join([f'  File "{self.source.file}", line {self.file_line}', *shown, marks, *after, ""])

    def __str__(self) -> str:
        return self.highlight()


def place_of(source: Source, node: ast.AST) -> Place:
    """Return the place of a node of a syntax tree."""
    line = getattr(node, "lineno", 1)
    column = getattr(node, "col_offset", 0)
    end = getattr(node, "end_col_offset", None) if getattr(node, "end_lineno", line) == line else None
    text = source.lines[line - 1] if line <= len(source.lines) else ""
    # The tree counts bytes; marks go under characters.
    width = len(text.encode()[:column].decode(errors="ignore"))
    last = len(text) if end is None else len(text.encode()[:end].decode(errors="ignore"))
    return Place(source, line, width, last)


def source_of(thing: Any) -> Source:
    """Return the source of a Python function or class.

    Raises:
        ScriptError: Python has no source of it.
    """
    name = getattr(thing, "__name__", type(thing).__name__)
    try:
        lines, first = inspect.getsourcelines(thing)
        file = inspect.getsourcefile(thing) or "<string>"
    except (OSError, TypeError) as error:
        raise ScriptError(f"{name!r}", f"Can't get source for {thing}: TorchScript requires source access",
                          "define it in a file") from error
    text = "".join(lines)
    return Source(textwrap.dedent(text), file, first, len(text) - len(text.lstrip()), name)


def parse(source: Source) -> ast.Module:
    """Return the syntax tree, with the types that comments state if they are well formed.

    Raises:
        FrontendError: The text is not Python.
    """
    try:
        return ast.parse(source.text, type_comments=True)
    except SyntaxError:
        pass
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        raise FrontendError(f"{source.name}: {error.msg}", "a script is Python", "correct the syntax",
                            Place(source, error.lineno or 1, max(0, (error.offset or 1) - 1), error.offset or 1)
                            ) from error


def definition(source: Source) -> ast.FunctionDef:
    """Return the one function that a source defines.

    Raises:
        FrontendError: The source defines no function, or another number of things.
    """
    body = parse(source).body
    if len(body) == 1 and isinstance(body[0], ast.FunctionDef):
        return body[0]
    lambdas = [node for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.Lambda)]
    if len(lambdas) == 1:
        return _from_lambda(lambdas[0])
    if len(body) == 1 and isinstance(body[0], ast.AsyncFunctionDef):
        raise UnsupportedNodeError("async def", "scripts have no coroutines", "use torch.jit.fork",
                                   place_of(source, body[0]))
    raise FrontendError(f"the source of {source.name!r}", "Expected a single top-level function",
                        "write a function with def", place_of(source, body[0]) if body else None)


def _from_lambda(node: ast.Lambda) -> ast.FunctionDef:
    made = ast.FunctionDef("<lambda>", node.args, [ast.copy_location(ast.Return(node.body), node.body)], [], None)
    ast.copy_location(made, node)
    return made


def get_jit_def(fn: Any, def_name: str = "", self_name: str | None = None, is_classmethod: bool = False
                ) -> ast.FunctionDef:
    """Return the syntax tree of a function."""
    return definition(source_of(fn))


__all__ = ["Error", "FrontendError", "NotSupportedError", "Place", "ScriptError", "Source", "UnsupportedNodeError",
           "definition", "get_jit_def", "parse", "place_of", "source_of"]
