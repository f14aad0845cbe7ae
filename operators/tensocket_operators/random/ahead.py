"""Small draws as parts of a longer one, which an earlier call made ahead.

Each random number follows from seed, block and place within the block alone, so that a draw of many blocks contains,
bit for bit, those that begin at its later blocks. Guard: a small array on a host-resident device, at a place of the
stream that a longer draw by the same formula covers. Work: one copy. All other draws launch the kernel; those that
continue a stream make its next longer draw.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.kit.bounded import BoundedCache

#: Most elements of a small draw, blocks of a longer one, and small draws at other places before it is made: a kernel
#: fills so many blocks in the time of about ten small launches (``benchmarks/overhead.py``).
FEW: Final = 256
_BLOCKS: Final = 1024
_PATIENCE: Final = 16


class _Stretch:
    """A stretch of a stream.

    Attributes:
        drawn: Seed, first block, the block after the last one, and the numbers; replaced as a whole, as threads read it.
        missed: Number of draws at other places since then.
    """

    __slots__ = ("drawn", "missed")

    def __init__(self) -> None:
        self.drawn: tuple[int, int, int, Any] = (-1, 0, 0, None)
        self.missed = 0


#: By device, formula, dtype and numbers; emptied when it is full.
_STRETCHES: Final[BoundedCache[Any, _Stretch]] = BoundedCache(64)


def numbers_ahead(state: DeviceState, formula: Any, dtype: DType, words: int, count: int, seed: int, offset: int,
                  numbers: Sequence[float], draw: Callable[[Any], None]) -> Any:
    """Return a view of a stretch: the numbers from a block on; None if they are neither drawn nor worth it.

    Args:
        state: The device.
        formula: The formula.
        dtype: Dtype of the numbers.
        words: Words that each number takes.
        count: Number of numbers, ``FEW`` at most.
        seed: The stream's seed.
        offset: The first block.
        numbers: Further arguments of the formula.
        draw: Fills an array from that block on.
    """
    exact = struct.pack(f"={len(numbers)}d", *numbers) if numbers and type(numbers[0]) is float else (*numbers,)
    key = state, formula, dtype, exact
    found = _STRETCHES.get(key)
    if found is None:
        found = _STRETCHES[key] = _Stretch()
    seed_drawn, first, end, drawn = found.drawn
    if seed != seed_drawn or offset < first or offset + -(-count * words // 4) > end:
        found.missed += 1
        if found.missed < _PATIENCE and not (seed == seed_drawn and first <= offset <= end):
            return None
        drawn = state.runtime.empty((_BLOCKS * 4 // words,), dtype, state.stream)
        draw(drawn)
        first, found.missed = offset, 0
        found.drawn = seed, offset, offset + _BLOCKS, drawn
    at = (offset - first) * 4 // words
    return drawn[at: at + count]
