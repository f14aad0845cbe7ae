"""Futures: results that become available later, from work of other threads."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tensocket.errors import ArgumentError, CallbackError, UnpicklableError

S = TypeVar("S")
T = TypeVar("T")


class Future(Generic[T]):
    """A result that another thread sets.

    Args:
        devices: Accepted as in PyTorch.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the result was set."""
        return self._inner.done()

    def wait(self) -> T:
        """Wait for the result and return it; raise it if it was set as an exception."""
        return self._inner.result()  # type: ignore[no-any-return]

    value = wait

    def set_result(self, result: T) -> None:
        """Set the result.

        Raises:
            ArgumentError: The future is already done.
        """
        self._complete(self._inner.set_result, result)

    def set_exception(self, result: BaseException) -> None:
        """Set the exception that ``wait`` raises.

        Raises:
            ArgumentError: The future is already done.
        """
        self._complete(self._inner.set_exception, result)

    @staticmethod
    def _complete(mark: Callable[[Any], None], result: Any) -> None:
        try:
            mark(result)
        except concurrent.futures.InvalidStateError:
            raise ArgumentError("Future", "a second result", "Future can only be marked completed once",
                                "make another future") from None

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a future of the result of ``callback``, which is called with this future when it is done.

        Its ``wait`` raises ``CallbackError`` if ``callback`` raises.
        """
        after: Future[S] = Future()

        def go_on(_: Any) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:
                failure = CallbackError(
                    "then", f"{type(error).__name__}: {error}", "Got the following error when running the callback: "
                    f"{type(error).__name__}: {error}", "correct the function that was passed to then()")
                failure.__cause__ = error
                after.set_exception(failure)

        self._inner.add_done_callback(go_on)
        return after

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call ``callback`` with this future when it is done; log its exceptions."""
        self._inner.add_done_callback(lambda _: callback(self))

    def __reduce__(self) -> Any:
        raise UnpicklableError("pickle", "a Future", "Can not pickle torch.futures.Future",
                               "wait() for it and save the result")


def _given(operator: str, futures: Sequence[Future[Any]]) -> Sequence[Future[Any]]:
    if any(future is None for future in futures):
        raise ArgumentError(operator, "None among the futures", "Future can't be None", "leave it out")
    return futures


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for several futures and return their results.

    Raises:
        ArgumentError: One of them is None.
    """
    return [future.wait() for future in _given("wait_all", futures)]


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of the list of several futures, done when all of them are.

    Raises:
        ArgumentError: One of them is None.
    """
    together: Future[list[Future[Any]]] = Future()
    left = [len(futures)]

    lock = threading.Lock()

    def one_done(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            together.set_result(list(futures))

    if not futures:
        together.set_result([])
    for future in _given("collect_all", futures):
        future.add_done_callback(one_done)
    return together


__all__ = ["Future", "collect_all", "wait_all"]
