"""Memory for the blocks of a recording: blocks that are never in use at the same time share theirs.

A replay of many launches then stays in the processor's caches. Sharing changes no result: nothing depends on what a
block held before the first launch wrote to it, as ``Recording.agrees`` proves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .recordings import Recording


class BlockMemory(NamedTuple):
    """Pieces of memory for the blocks of a recording.

    Attributes:
        pieces: The number of each block's piece.
        sizes: The bytes of each piece.
    """

    pieces: Sequence[int]
    sizes: Sequence[int]


def plan_blocks(recording: Recording) -> BlockMemory:
    """Find a piece of memory for each block, by the first and the last launch that use it.

    A launch may read one block while it writes another, so a piece changes its block only between two launches.
    """
    uses = _uses(recording)
    pieces, sizes, ends = [0] * len(recording.blocks), list[int](), list[int]()
    for number in sorted(uses, key=lambda k: uses[k][0]):
        (first, last), nbytes = uses[number], recording.blocks[number]
        free = [k for k, end in enumerate(ends) if end < first]
        if free:
            # Of the pieces that differ least in size, the one that was used last is most likely in a cache.
            piece = min(free, key=lambda k: (abs(sizes[k] - nbytes), -ends[k]))
            sizes[piece], ends[piece] = max(sizes[piece], nbytes), last
        else:
            piece = len(sizes)
            sizes.append(nbytes)
            ends.append(last)
        pieces[number] = piece
    return BlockMemory(pieces, sizes)


def _uses(recording: Recording) -> dict[int, tuple[int, int]]:
    """Return the first and the last launch that use each block; calls test elements after the last launch."""
    uses: dict[int, tuple[int, int]] = {}
    for number, launch in enumerate(recording.launches):
        for place in launch.places:
            if place.kind == "block":
                uses[place.number] = uses.get(place.number, (number, number))[0], number
    for place, _ in recording.zeros:
        uses[place.number] = uses[place.number][0], len(recording.launches)
    return uses
