"""The default for whether new sparse tensors check their positions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from tensocket_plugins.contract.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


class check_sparse_tensor_invariants:
    """Switch for the checks of positions of new sparse tensors: permanent, in a ``with`` block, or in a function.

    Positions are checked unless a program turns checks off: wrong positions would read out of bounds.

    Args:
        enable: Whether to check in the block or function.
    """

    _enabled: ClassVar[bool | None] = None

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: list[bool | None] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether a program turned checks on."""
        return bool(check_sparse_tensor_invariants._enabled)

    @staticmethod
    def enable() -> None:
        """Turn checks on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Turn checks off."""
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
        """Return the function with the switch set during its calls."""

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked  # type: ignore[return-value]


def should_check(given: bool | None) -> bool:
    """Whether a call checks: by its argument, else by the program's setting, else always."""
    if given is not None:
        return given
    said = check_sparse_tensor_invariants._enabled
    return True if said is None else said
