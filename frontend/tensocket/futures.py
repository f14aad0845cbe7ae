"""Results that are there later, of work that other threads do."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any


class Future:
    """A result that somebody sets.

    Args:
        devices: Accepted as in PyTorch.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the result was set."""
        return self._inner.done()

    def wait(self) -> Any:
        """The result, once it is there; raises what was set as an exception."""
        return self._inner.result()

    value = wait

    def set_result(self, result: Any) -> None:
        """Set the result."""
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set what ``wait`` raises."""
        self._inner.set_exception(result)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """What ``callback`` returns for this future when it is done, as another one."""
        after = Future()

        def go_on(_: Any) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:
                after.set_exception(error)

        self._inner.add_done_callback(go_on)
        return after

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call ``callback`` with this future when it is done."""
        self._inner.add_done_callback(lambda _: callback(self))


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The results of several."""
    return [future.wait() for future in futures]


def collect_all(futures: Sequence[Future]) -> Future:
    """The list of several, when all are done."""
    together = Future()
    left = [len(futures)]

    def one_done(_: Future) -> None:
        left[0] -= 1
        if not left[0]:
            together.set_result(list(futures))

    if not futures:
        together.set_result([])
    for future in futures:
        future.add_done_callback(one_done)
    return together


__all__ = ["Future", "collect_all", "wait_all"]
