"""Thread modes. ``ACTIVE`` is empty while no thread has any mode on, so that the common case costs one truth test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from .keys import NO_AUTOGRAD

F = TypeVar("F", bound=Callable[..., Any])


class _ThreadState(threading.local):
    grad_enabled = True


STATE: Final = _ThreadState()
#: One entry per mode that some thread has on.
ACTIVE: Final[list[object]] = []


def run_with_modes(operator: Any, key: int, args: tuple[Any, ...]) -> Any:
    """Run an operator while some thread has a mode on."""
    if not STATE.grad_enabled:
        key &= NO_AUTOGRAD
    kernel = operator.table.get(key)
    if kernel is None:
        kernel = operator.resolve(key)
    return kernel(*args)


class set_grad_enabled:
    """Whether operators record gradients, from the call on, or as a context manager or decorator."""

    __slots__ = ("_entered", "_previous", "mode")

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._previous = STATE.grad_enabled
        self._switch(mode)
        self._entered = False

    def _switch(self, enabled: bool) -> None:
        """Set the thread's mode; ``ACTIVE`` holds one entry per thread whose mode is not the default."""
        if STATE.grad_enabled and not enabled:
            ACTIVE.append(None)
        elif enabled and not STATE.grad_enabled:
            ACTIVE.pop()
        STATE.grad_enabled = enabled

    def __enter__(self) -> None:
        if self._entered:
            self._previous = STATE.grad_enabled
            self._switch(self.mode)
        self._entered = True

    def __exit__(self, *error: object) -> None:
        self._switch(self._previous)

    def __call__(self, function: F) -> F:
        """Decorate ``function``; the mode then holds in its calls only, not from now on."""
        self._switch(self._previous)
        mode = self.mode

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(mode):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class _Mode:
    """Context manager and decorator; does nothing until it is entered."""

    __slots__ = ("_inner",)
    mode: bool

    def __enter__(self) -> None:
        self._inner = set_grad_enabled(self.mode)

    def __exit__(self, *error: object) -> None:
        self._inner.__exit__()

    def __call__(self, function: F) -> F:
        """Decorate ``function``."""
        cls = type(self)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with cls():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """Operators record no gradients in this block or function."""

    __slots__ = ()
    mode = False


class enable_grad(_Mode):
    """Operators record gradients in this block or function, also within ``no_grad``."""

    __slots__ = ()
    mode = True


def is_grad_enabled() -> bool:
    """Whether operators of this thread record gradients."""
    return STATE.grad_enabled
