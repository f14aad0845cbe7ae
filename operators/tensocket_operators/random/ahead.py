"""Small draws as parts of a longer one, which an earlier call made ahead.

Each random number follows from seed, block and place within the block alone, so that a draw of many blocks contains,
bit for bit, those that begin at its later blocks. Guard: a small array on a host-resident device, at a place of the
stream that a longer draw by the same formula covers. Work: one copy. All other draws launch the kernel; those that
continue a stream make its next longer draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.kit.bounded import BoundedCache

from .generator import Generator, generator_of

#: Most elements of a small draw, blocks of a longer one, and small draws at other places before it is made: a kernel
#: fills so many blocks in the time of two small launches, on one thread (``benchmarks/overhead.py``).
FEW: Final = 64
_BLOCKS: Final = 64
_PATIENCE: Final = 16


class _Stretch:
    """A stretch of a stream.

    Attributes:
        drawn: Seed, first block, the block after the last one, and the numbers; replaced as a whole: threads read it.
        missed: Number of draws at other places since then.
        run: The kernel's function.
        group: Words that an iteration of the kernel makes.
    """

    __slots__ = ("drawn", "group", "missed", "run")

    def __init__(self, run: Callable[..., Any], group: int) -> None:
        self.run, self.group = run, group
        self.drawn: tuple[int, int, int, Any] = (-1, 0, 0, None)
        self.missed = 0


#: By device, formula, dtype and numbers; emptied when it is full.
_STRETCHES: Final[BoundedCache[Any, _Stretch]] = BoundedCache(64)


def small_draw(state: DeviceState, formula: Any, dtype: DType, words: int, shape: tuple[int, ...], count: int,
               generator: Generator | None, numbers: Sequence[float] = ()) -> Any:
    """Return a new small array of random numbers; None, before anything is drawn, if no program is known for them.

    Args:
        state: The device.
        formula: The formula.
        dtype: Dtype of the numbers.
        words: Words that each number takes.
        shape: Shape of the array.
        count: Its elements, from 1 to ``FEW``.
        generator: The source; None for that of the device.
        numbers: Further arguments of the formula.
    """
    # Zeros have two signs; NaN equals no key, so that its draws are never ahead.
    key: Any = (state, formula, dtype)
    if numbers:
        key = *key, *(numbers if all(numbers) else map(repr, numbers))
    found = _STRETCHES.get(key)
    if found is None:
        known = state.programs.get((formula, dtype))
        if known is None or not state.holds_data:
            return None
        found = _STRETCHES[key] = _Stretch(*known)
    blocks = -(-count * words // 4)
    seed, offset = (generator or generator_of(state)).take(blocks)
    drawn_seed, first, end, drawn = found.drawn
    if seed != drawn_seed or offset < first or offset + blocks > end:
        found.missed += 1
        ahead = found.missed >= _PATIENCE or (seed == drawn_seed and first <= offset <= end)
        size = _BLOCKS * 4 // words if ahead else count
        drawn = state.runtime.empty((size,) if ahead else shape, dtype, state.stream)
        found.run([drawn], [size, -(-size * words // found.group), seed & 0xFFFFFFFF, seed >> 32, offset, *numbers],
                  state.stream)
        if not ahead:
            return drawn
        first, found.missed = offset, 0
        found.drawn = seed, offset, offset + _BLOCKS, drawn
    at = (offset - first) * 4 // words
    if not shape:
        return np.asarray(drawn[at])  # of a NumPy scalar: a new array
    made = drawn[at: at + count].copy()
    return made if len(shape) == 1 else made.reshape(shape)
