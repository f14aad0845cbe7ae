"""``fork`` and ``wait``: functions that run beside their caller; and results that are computed when they are needed."""

from __future__ import annotations

import contextvars
import threading
import types
from collections.abc import Callable
from concurrent.futures import Future as _Future
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.futures import Future as _EagerFuture

#: The number of forks that run at once; more of them run in their caller's thread (a fork may wait for others).
_LIMIT = 16
_running = threading.Semaphore(_LIMIT)


class Future(_EagerFuture[Any]):
    """The result of ``fork``."""

    def __class_getitem__(cls, element: Any) -> Any:
        return types.GenericAlias(cls, (element,))

    def peek(self) -> Any:
        """Return the result."""
        return self.wait()


class Await:
    """A result that is computed when it is needed.

    Args:
        function: The function.
        arguments: Its arguments.
    """

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...] = ()) -> None:
        self._function: Callable[..., Any] | None = function
        self._arguments = arguments
        self._value: Any = None

    def __class_getitem__(cls, element: Any) -> Any:
        return types.GenericAlias(cls, (element,))

    @staticmethod
    def ready(value: Any) -> Await:
        """Return a result that is there already."""
        return Await(lambda: value)

    def wait(self) -> Any:
        """Return the result."""
        if self._function is not None:
            self._value, self._function, self._arguments = self._function(*self._arguments), None, ()
        return self._value

    peek = wait

    def fn(self) -> Any:
        """Return the function."""
        return self._function

    def args(self) -> tuple[Any, ...]:
        """Return the arguments."""
        return self._arguments

    def is_nowait(self) -> bool:
        """Whether the result was given."""
        return self._function is None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wait(), name)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function in another thread; ``wait`` returns its result, or raises its error.

    Gradients are recorded as by the caller. While ``trace`` records, and if many functions run already, it is called at
    once.
    """
    from tensocket.jit.markers import is_tracing

    result: Future = Future()
    work = _with_state(func, args, kwargs, result)
    if is_tracing() or not _running.acquire(blocking=False):
        work()
        return result

    def run() -> None:
        try:
            work()
        finally:
            _running.release()

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    return result


def _with_state(func: Callable[..., Any], args: Any, kwargs: Any, result: Future) -> Callable[[], None]:
    """Return a function that calls another with this thread's modes, and sets the result."""
    import tensocket

    enabled = tensocket.is_grad_enabled()

    def work() -> None:
        before = tensocket.is_grad_enabled()
        tensocket.set_grad_enabled(enabled)
        try:
            result.set_result(func(*args, **kwargs))
        except BaseException as error:
            result.set_exception(error)
        finally:
            tensocket.set_grad_enabled(before)

    return work


def wait(future: Any) -> Any:
    """Return the result of ``fork``.

    Raises:
        ArgumentError: ``future`` is None.
    """
    if future is None:
        raise ArgumentError("wait", "None", "Future can't be None", "pass what fork returned")
    return future.wait()


def _awaitable(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Await:
    """Return the result of a function, which runs when the result is needed."""
    return Await(lambda: func(*args, **kwargs))


def _awaitable_wait(aw: Await) -> Any:
    """Return the result."""
    return aw.wait()


def _awaitable_nowait(o: Any) -> Await:
    """Return a value as a result."""
    return Await.ready(o)


__all__ = ["Await", "Future", "_Future", "fork", "wait"]
