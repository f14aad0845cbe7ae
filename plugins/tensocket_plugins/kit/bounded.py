"""One kind of cache for what calls need again: plans of launches by layouts, arrays of numbers, recordings."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict of at most ``bound`` items: all are dropped when another one comes.

    A program has few layouts, so a full cache means that nothing repeats; keeping the order of use would cost every
    call. Reading is a plain dict's. Threads may write at once: an item more or less does not matter.

    Args:
        bound: Most items.

    >>> cache = BoundedCache(2)
    >>> for k in range(3):
    ...     cache[k] = str(k)
    >>> cache
    {2: '2'}
    """

    __slots__ = ("bound",)

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self.bound:
            self.clear()
        super().__setitem__(key, value)
