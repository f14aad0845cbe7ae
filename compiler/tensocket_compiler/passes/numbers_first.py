"""Order: operations on which symbolic numbers depend come first.

A number that a kernel takes is read from memory before the kernel's tape begins. Step counts of optimizers are
increased in the middle of a step; increased at its beginning, they divide neither tapes nor kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..capture.recorder import Operation
from ..schedule.dependencies import Dependencies, find_dependencies

#: Most elements of a result of an operation that moves.
_SMALL: Final = 16


def numbers_first(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations; small ones that symbolic numbers follow from are in front."""
    dependencies = dict(zip(operations, find_dependencies(operations), strict=True))
    moved: set[Operation] = set()
    for operation in operations:
        read = {x.buffer for x in operation.number_reads}
        for writer in dependencies[operation].reads:
            if any(x.buffer in read for x in writer.writes):
                found = _with_ancestors(writer, dependencies, moved)
                if found is not None:
                    moved |= found
    return [*[x for x in operations if x in moved], *[x for x in operations if x not in moved]]


def _with_ancestors(operation: Operation, dependencies: dict[Operation, Dependencies],
                    known: set[Operation]) -> set[Operation] | None:
    """Return an operation and all that must run before it; None if one of these is large."""
    found: set[Operation] = set()
    pending = [operation]
    while pending:
        one = pending.pop()
        if one in found or one in known:
            continue
        if any(x.elements > _SMALL for x in one.writes):
            return None
        found.add(one)
        pending += [*dependencies[one].reads, *[x for x, _ in dependencies[one].overwrites]]
    return found
