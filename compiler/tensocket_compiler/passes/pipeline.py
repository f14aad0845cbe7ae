"""The passes over the operations of a graph, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..capture.recorder import Operation
from ..memory.regions import Region
from .common import remove_common
from .constants import fold_constants
from .copies import remove_copies
from .identities import remove_identities
from .numbers_first import numbers_first
from .unused import remove_unused
from .verify import VERIFICATION, verify

Pass = Callable[[Sequence[Operation], Sequence[Region]], list[Operation]]


def _numbers_first(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    return numbers_first(operations)


#: The passes by name. Repeated operations go before constants, so that equal ones have one constant. Constants go
#: before products with one, because some of them are one.
PASSES: Final[dict[str, Pass]] = {
    "remove_unused": remove_unused, "remove_common": remove_common, "fold_constants": fold_constants,
    "remove_identities": remove_identities, "remove_copies": remove_copies, "numbers_first": _numbers_first}


def run_passes(operations: Sequence[Operation], arguments: Sequence[Region],
               results: Sequence[Region]) -> list[Operation]:
    """Return the operations that the graph runs.

    Args:
        operations: The recorded operations.
        arguments: Regions of the arguments.
        results: Regions that the graph returns.

    Raises:
        CompileError: A pass broke an invariant.
    """
    found = list(operations)
    if VERIFICATION.is_thorough:
        verify("record", found, arguments, results)
    for name, change in PASSES.items():
        found = change(found, results)
        if VERIFICATION.is_thorough:
            verify(name, found, arguments, results)
    verify("passes", found, arguments, results)
    return found
