"""The cache for data that calls reuse: launch plans by layout, arrays of numbers, recordings."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict of at most ``bound`` items; a further item clears it first.

    A program has few layouts, so a full cache means that nothing repeats; tracking the order of use would cost every
    call. Reads are those of a plain dict. Threads may write concurrently: one item more or less does not matter.

    Args:
        bound: Maximum number of items.

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
