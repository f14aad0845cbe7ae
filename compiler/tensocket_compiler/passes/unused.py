"""Removal of operations whose results nothing needs, such as what an operator saves for a derivative of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ..capture.recorder import Operation
from ..memory.regions import Region
from .purity import is_pure


def remove_unused(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    """Return the operations that results, memory from outside, or calls with other effects depend on.

    Args:
        operations: The operations of a run.
        results: Regions that the run returns.
    """
    needed = {region.buffer for region in results}
    kept = []
    for operation in reversed(operations):
        if is_pure(operation) and not any(x.buffer in needed or x.buffer.kind == "input" for x in operation.writes):
            continue
        needed.update(x.buffer for x in (*operation.reads, *operation.number_reads))
        kept.append(operation)
    return kept[::-1]
