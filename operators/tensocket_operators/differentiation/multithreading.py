"""PyTorch's switch for threads of the autograd engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_core.dispatch.decorate import decorate

F = TypeVar("F", bound=Callable[..., Any])


class _Thread(threading.local):
    enabled = True


_THREAD: Final = _Thread()


def is_multithreading_enabled() -> bool:
    """Whether the last ``set_multithreading_enabled`` turned multithreading on in this thread."""
    return _THREAD.enabled


class set_multithreading_enabled:
    """Setting that lets backward use its own threads, from the call on, or as a context manager or decorator.

    The engine runs every backward pass in the calling thread, so that the setting changes nothing.

    Args:
        mode: The setting.
    """

    __slots__ = ("_before", "mode")

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = _THREAD.enabled
        _THREAD.enabled = mode

    def __enter__(self) -> None:
        """Do nothing; the setting applies already."""

    def __exit__(self, *error: object) -> None:
        _THREAD.enabled = self._before

    def __call__(self, function: F) -> F:
        """Decorate ``function``; the setting then applies only during its calls."""
        _THREAD.enabled, mode = self._before, self.mode
        return decorate(lambda: set_multithreading_enabled(mode), function)  # type: ignore[no-any-return]
