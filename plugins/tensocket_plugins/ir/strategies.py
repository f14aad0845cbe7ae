"""Strategies: uses of a device by a nest with reductions, which callers choose by sizes."""

from __future__ import annotations

from enum import Enum
from typing import Final

from .target import Target

#: Maximum columns of a wide row: the fewest that ``schedule_columns`` computes together.
WIDTH: Final = 128
#: Maximum length of a reduction that one lane computes.
SHORT: Final = 64
#: The same on a processor, where a vector may be partly filled.
SHORT_VECTOR: Final = 8
#: Adjacent elements in a row of a reduction for which few lanes are best.
FEW: Final = 128
#: Elements from which rows of few columns are worth two kernels.
FEWEST: Final = 1 << 12
#: Iterations of a reduction that are worth their own group (or their own task of a processor's threads).
GRAIN: Final = 1 << 14
#: Adjacent outputs that a group of a GPU reduces together.
COLUMNS: Final = 128
#: Multiple of the parallelism that is the number of such groups, because each of them reads little at a time.
GROUPS: Final = 4
#: Elements from which it matters that neighbouring lanes read neighbouring elements; caches hold fewer.
CACHED: Final = 1 << 18


class Strategy(Enum):
    """The use of a device by a nest with reductions; all strategies schedule a nest without reductions alike.

    SERIAL: one lane (on a processor: one plain loop) per output iteration.
    SMALL: like GROUP, for rows of few elements; on a GPU, for few elements in all.
    GROUP: one group of lanes (on a processor: one loop over vectors) per output iteration.
    SPLIT: like GROUP, with each output's reduction spread over several groups, and a second kernel that combines them.
    PACKED: for rows of few columns without gaps: on a processor, several rows at once, and a second kernel that
        combines them; else like SPLIT.
    """

    SERIAL = "serial"
    SMALL = "small"
    GROUP = "group"
    SPLIT = "split"
    PACKED = "packed"


def pick_strategy(outer: int, length: int, target: Target, inner: int | None = None, *,
                  packed: bool = False, columns: int = 0) -> Strategy:
    """Return the strategy that suits a nest with ``outer`` output iterations of ``length`` reduction iterations each.

    Args:
        outer: Number of output iterations.
        length: Number of reduction iterations.
        target: The device's limits.
        inner: Iterations of the innermost reduction loop; by default, there is only one loop.
        packed: Whether rows without gaps between them are reduced for every column.
        columns: Number of adjacent outputs whose elements are adjacent, too, if those of a reduction are not.
    """
    if packed and target.kind == "cpu" and outer <= WIDTH and outer * length >= FEWEST:
        return Strategy.PACKED
    if length <= (SHORT_VECTOR if target.kind == "cpu" else SHORT):
        return Strategy.SERIAL
    if outer < target.parallelism and length >= 2 * GRAIN:
        return Strategy.SPLIT
    if target.kind == "simt" and (
            target.local_bytes == 0 or target.sequential or outer >= target.parallelism * target.group_size):
        return Strategy.SERIAL
    if columns and target.kind == "simt":
        groups = outer // columns * -(-columns // COLUMNS)
        if outer * length < CACHED:
            return Strategy.SMALL
        return Strategy.SPLIT if groups < GROUPS * target.parallelism else Strategy.GROUP
    few = target.kind == "cpu" and (length if inner is None else inner) <= FEW
    return Strategy.SMALL if few else Strategy.GROUP
