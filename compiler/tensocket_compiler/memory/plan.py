"""The memory plan: offsets of temporaries in one arena, by lifetime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

#: Bytes to which offsets are aligned.
LINE: Final = 64


def plan_memory(lifetimes: Mapping[int, tuple[int, int]], sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Place buffers in one block so that buffers that live at the same time do not overlap.

    Args:
        lifetimes: First and last step of each buffer.
        sizes: Bytes of each buffer.

    Returns:
        The offset of each buffer, and the size of the block; first fit, in order of the first step.

    >>> plan_memory({0: (0, 1), 1: (1, 2), 2: (2, 3)}, {0: 64, 1: 64, 2: 64})
    ({0: 0, 1: 64, 2: 0}, 128)
    """
    offsets: dict[int, int] = {}
    live: list[int] = []
    total = 0
    for number in sorted(lifetimes, key=lambda k: lifetimes[k][0]):
        live = [x for x in live if lifetimes[x][1] >= lifetimes[number][0]]
        need, at = _aligned(sizes[number]), 0
        for other in sorted(live, key=offsets.__getitem__):
            if offsets[other] - at >= need:
                break
            at = max(at, offsets[other] + _aligned(sizes[other]))
        offsets[number] = at
        total = max(total, at + need)
        live.append(number)
    return offsets, total


def _aligned(nbytes: int) -> int:
    return max(-(-nbytes // LINE), 1) * LINE


def last_uses(steps: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """Return the first and the last step that uses each buffer; a step is a list of buffers.

    >>> last_uses([[3], [3, 4], [4]])
    {3: (0, 1), 4: (1, 2)}
    """
    found: dict[int, tuple[int, int]] = {}
    for step, numbers in enumerate(steps):
        for number in numbers:
            found[number] = (found.get(number, (step, step))[0], step)
    return found
