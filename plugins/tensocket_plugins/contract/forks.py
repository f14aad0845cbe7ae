"""Locks and forks: a child inherits its parent's locks, but not the threads that would release them.

So a fork first takes the locks itself. Then no other thread is in the middle of a change that they guard, and parent
and child release them. The child drops the entries of other threads in tables by thread, because its new threads may
have the same identities.
"""

from __future__ import annotations

import os
import threading
import weakref
from enum import IntEnum
from typing import Any, Final, TypeVar

_Lock = TypeVar("_Lock")
_Table = TypeVar("_Table", set[int], dict[int, Any])

#: Seconds that a fork waits for a lock. If a thread holds the lock longer, the fork proceeds without it.
_PATIENCE: Final = 10.0
_LOCKS: Final[weakref.WeakKeyDictionary[Any, tuple[int, int]]] = weakref.WeakKeyDictionary()
_GUARD: Final = threading.Lock()
#: Tables with thread identities.
_BY_THREAD: Final[list[set[int] | dict[int, Any]]] = []
#: The locks that a forking thread holds.
_TAKEN: Final[dict[int, list[Any]]] = {}


class Rank(IntEnum):
    """Order in which forks take locks, by the object that a lock guards.

    A thread that holds a lock may wait for one of a higher rank.
    """

    GRADIENTS = 0
    DEVICES = 1
    BACKENDS = 2
    TABLES = 3
    ENTRIES = 4
    PROGRAMS = 5
    COMPILERS = 6
    CODE = 7
    LIBRARIES = 8
    LEAVES = 9


def held_over_forks(lock: _Lock, rank: Rank) -> _Lock:
    """Register a lock that forks wait for, and return it.

    Args:
        lock: A lock of ``threading``; within a rank, forks take the older one first.
        rank: The rank of the object that it guards.

    Returns:
        The lock itself.
    """
    with _GUARD:
        _LOCKS[lock] = int(rank), len(_LOCKS)
    return lock


def by_thread(table: _Table) -> _Table:
    """Register a table in which a forked child keeps only the entries of the thread that forked, and return it.

    Args:
        table: A set of thread identities, or a dict by them; it lives as long as the process.

    Returns:
        The table itself.
    """
    _BY_THREAD.append(table)
    return table


def _forget_threads() -> None:
    me = threading.get_ident()
    for table in _BY_THREAD:
        for other in [thread for thread in table if thread != me]:
            if isinstance(table, set):
                table.discard(other)
            else:
                del table[other]


def _in_child() -> None:
    _forget_threads()
    _release()


def _hold() -> None:
    taken = _TAKEN.setdefault(threading.get_ident(), [])
    with _GUARD:
        locks = sorted(_LOCKS.items(), key=lambda item: item[1])
    # The guard comes last: the holder of another lock may be about to add to the table.
    for lock in (*(lock for lock, _ in locks), _GUARD):
        if lock.acquire(timeout=_PATIENCE):
            taken.append(lock)


def _release() -> None:
    for lock in reversed(_TAKEN.pop(threading.get_ident(), [])):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_in_child)
