"""Constants: memory that follows from shapes alone is computed once, in the recorded run.

Masks, tables of positions and gradients of ones follow from factories such as ``arange``. The run has computed them, so
that the graph takes its bytes, and needs no operations for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..capture.recorder import Operation
from ..memory.regions import Buffer, Region, row_major
from .moves import find_fixed, find_single_writes
from .purity import is_repeatable

#: Bytes of the largest constant that a graph keeps. A kernel reads tables of cosines 3 times faster than it computes
#: them; a mask of 4 MB takes as long either way, one of 16 MB 1.4 times as long to read.
_LARGEST: Final = 1 << 22
#: Numbers that kernels contain when all elements of a constant are the same; others are read.
_NUMBERS: Final = (0, 0.5, 1, 2)


def fold_constants(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    """Return the operations without those over constants alone, whose results become constants.

    Args:
        operations: The operations of a run, whose temporaries are still as it left them, changed ones with their last
            contents.
        results: Regions that the program reads afterwards.
    """
    single, fixed = find_single_writes(operations), find_fixed(operations, results)
    known: set[Buffer] = set()
    candidates: set[Operation] = set()
    for operation in operations:
        made = {x.buffer for x in operation.results}
        if made <= single and fixed.isdisjoint(made) and operation.reads and is_repeatable(operation) and (
                not operation.number_reads) and all(x.buffer.kind == "constant" or x.buffer in known
                                                    for x in operation.reads):
            known |= made
            candidates.add(operation)
    readers: dict[Buffer, list[Region]] = {}
    kept = []
    for operation in reversed(operations):
        if operation in candidates:
            wanted = [x for x in operation.results if x.buffer in readers]
            if all(_can_keep(x, readers[x.buffer]) for x in wanted):
                for region in wanted:
                    _make_constant(region, readers[region.buffer])
                continue
        for region in operation.reads:
            readers.setdefault(region.buffer, []).append(region)
        kept.append(operation)
    return kept[::-1]


def _can_keep(made: Region, readers: Sequence[Region]) -> bool:
    """Whether a result may be a constant."""
    return made.buffer.array is not None and not made.buffer.changed and (
        made.buffer.nbytes <= _LARGEST or _number_of(made, readers) is not None)


def _make_constant(made: Region, readers: Sequence[Region]) -> None:
    buffer = made.buffer
    buffer.fill, buffer.filled = _number_of(made, readers), made.dtype
    buffer.kind = "constant"
    if type(buffer.array) is np.ndarray:  # what the run has returned may lead to its temporaries
        buffer.array = row_major(buffer.array).copy()


def _number_of(made: Region, readers: Sequence[Region]) -> float | int | None:
    """Return the number that all elements are; None if they differ, or if kernels do not contain it."""
    memory = made.buffer.array
    if type(memory) is not np.ndarray or not made.elements or not made.dtype.native or made.dtype.is_complex:
        return None
    if made.elements * made.dtype.itemsize != made.buffer.nbytes or any(x.dtype is not made.dtype for x in readers):
        return None
    elements = made.array(memory)
    number = elements.flat[0].item()
    same = number in _NUMBERS and math.copysign(1, number) > 0 and bool((elements == elements.flat[0]).all())
    return number + 0 if same else None
