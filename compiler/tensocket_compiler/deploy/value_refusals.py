"""Observers of values for C libraries, which make the same launches for all elements of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_plugins.contract.errors import CompileError


def reads_elements() -> CompileError:
    """Return the error for code that reads elements."""
    return CompileError("compile_c", "a program that reads elements of a tensor outside of kernels", "a C library "
                        "makes the same launches for all values", "leave out item(), bool(), tolist(), step counts of "
                        "optimizers, and operators that run on the host or check values other than indices")


class FixedNumbers:
    """The part of an observer that refuses numbers which follow from elements, and lets options be constants."""

    def number(self, tensor: Any) -> Any:
        """Refuse to compute with an element outside of kernels.

        Raises:
            CompileError: Always.
        """
        raise reads_elements()

    def number_at(self, table: dict[str, Any], key: str) -> Any:
        """Return an option, which the library then contains."""
        return table[key]

    def run_apart(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function that computes options."""
        return function(*args)
