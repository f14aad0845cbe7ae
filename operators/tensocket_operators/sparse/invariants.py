"""Whether positions of new sparse tensors are checked where a call does not say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from tensocket_plugins.contract.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


class check_sparse_tensor_invariants:
    """Say whether positions of new sparse tensors are checked: for good, in a block, or in a function.

    Positions are checked unless a program says that they are right: wrong ones would be wrong reads.

    Args:
        enable: Whether to check in the block or function.
    """

    _enabled: ClassVar[bool | None] = None

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: list[bool | None] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether checks were asked for."""
        return bool(check_sparse_tensor_invariants._enabled)

    @staticmethod
    def enable() -> None:
        """Ask for checks."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Ask for none."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        if self.saved:
            raise ArgumentError("check_sparse_tensor_invariants", "This context manager instance is already "
                                "activated. Use a different context manager instance for context nesting",
                                "an instance is active once", "make another one")
        self.saved.append(check_sparse_tensor_invariants._enabled)
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(self, *error: object) -> None:
        check_sparse_tensor_invariants._enabled = self.saved.pop()

    def __call__(self, function: F) -> F:
        """Return the function with checks."""

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked  # type: ignore[return-value]


def wanted(given: bool | None) -> bool:
    """Whether a call checks: as it says, else as the program does, else always."""
    if given is not None:
        return given
    said = check_sparse_tensor_invariants._enabled
    return True if said is None else said
