"""The parts of a kernel's printer that the vector loops in it use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..nodes import Expr, For, Let, Local
from .llvm_writer import Writer


class ScalarPrinter(Protocol):
    """Printer of the vector loops in a kernel."""

    w: Writer
    pointers: dict[str, str]
    local_arrays: dict[str, Local]

    def value(self, e: Expr) -> str:
        """Return the value of an expression that is the same in all lanes."""

    def index(self, e: Expr) -> str:
        """Return the value of such an integer expression, in 64 bits."""

    def let(self, s: Let) -> None:
        """Define a name."""

    def alloca(self, kind: str) -> str:
        """Reserve memory on the stack."""

    def pointer(self, buffer: str) -> str:
        """Return the address of an array's first element."""

    def streaming(self, buffer: str) -> str:
        """Return the mark of stores that bypass the caches; empty for other stores."""

    def loop(self, s: For, print_body: Callable[[], None]) -> None:
        """Print a loop with the body that ``print_body`` prints."""

    def forget(self) -> None:
        """Forget values of expressions: a new statement begins."""
