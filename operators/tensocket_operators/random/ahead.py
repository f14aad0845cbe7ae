"""Small draws as parts of a longer one, which an earlier call made ahead.

Each random number follows from seed, block and place within the block alone, so that a draw of many blocks contains,
bit for bit, those that begin at its later blocks. Guard: a small array on a host-resident device, at a place of the
stream that a longer draw by the same formula covers. Work: one copy. All other draws launch the kernel; those that
continue a stream make its next longer draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from threading import get_ident
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.forks import by_thread
from tensocket_plugins.kit.bounded import BoundedCache

from ..creation.noted import is_plain
from .generator import ASIDE, Generator, draws_aside, generator_of, generator_of_device

#: Most elements of a small draw, blocks of a longer one, and small draws at other places before it is made: a kernel
#: fills so many blocks in the time of two small launches, on one thread (``benchmarks/overhead.py``).
FEW: Final = 64
_BLOCKS: Final = 64
_PATIENCE: Final = 16
_new = object.__new__


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


class Draw:
    """A small draw: all of its arguments but the generator.

    Attributes:
        state: The device.
    """

    __slots__ = ("_blocks", "_converted", "_count", "_dtype", "_numbers", "_rows", "_shape", "_stretch", "_words",
                 "state")

    def __init__(self, stretch: _Stretch, state: DeviceState, dtype: DType, words: int, shape: tuple[int, ...],
                 numbers: Sequence[float], converted: Any) -> None:
        self.state, self._dtype, self._words, self._shape = state, dtype, words, shape
        self._stretch, self._numbers, self._converted = stretch, numbers, converted
        self._count = prod(shape)
        self._blocks = -(-self._count * words // 4)
        #: Draws that follow each other: seed, first block, the block after the last one, and the draws.
        self._rows: tuple[int, int, int, Any] = (-1, 0, 0, None)

    def next(self, generator: Generator) -> Any:
        """Return a new array of the generator's next numbers."""
        seed, offset = generator.take(self._blocks)
        drawn_seed, first, end, rows = self._rows
        if seed == drawn_seed and first <= offset < end:
            k, apart = divmod(offset - first, self._blocks)
            return self._one(seed, offset) if apart else rows[k, ...].copy()
        return self._first(seed, offset)

    def _first(self, seed: int, offset: int) -> Any:
        """Return the draw at a place of the stream, and keep those that follow it in the stretch."""
        drawn_seed, first, end, drawn = self._stretch.drawn
        rows = (end - offset) // self._blocks
        if seed != drawn_seed or offset < first or rows < 1:
            return self._one(seed, offset)
        at, step = (offset - first) * 4 // self._words, self._blocks * 4 // self._words
        made = drawn[at:at + rows * step].reshape(rows, step)[:, :self._count].reshape(rows, *self._shape)
        if self._converted is not None:
            made = made.astype(self._converted)
        self._rows = seed, offset, offset + rows * self._blocks, made
        return made[0, ...].copy()

    def _one(self, seed: int, offset: int) -> Any:
        """Return the draw at a place of the stream."""
        drawn_seed, first, end, drawn = self._stretch.drawn
        if seed != drawn_seed or offset < first or offset + self._blocks > end:
            drawn, first = self._elsewhere(seed, offset), offset
        at = (offset - first) * 4 // self._words
        made = drawn[at:at + self._count].reshape(self._shape)
        return made.copy() if self._converted is None else made.astype(self._converted)

    def _elsewhere(self, seed: int, offset: int) -> Any:
        """Return numbers from a place that the stretch does not cover, and make them the stretch if that pays."""
        stretch, words, count = self._stretch, self._words, self._count
        drawn_seed, first, end, _ = stretch.drawn
        stretch.missed += 1
        ahead = stretch.missed >= _PATIENCE or (seed == drawn_seed and first <= offset <= end)
        size = _BLOCKS * 4 // words if ahead else count
        drawn = self.state.runtime.empty((size,), self._dtype, self.state.stream)
        stretch.run([drawn], [size, -(-size * words // stretch.group), seed & 0xFFFFFFFF, seed >> 32, offset,
                              *self._numbers], self.state.stream)
        if ahead:
            stretch.missed = 0
            stretch.drawn = seed, offset, offset + _BLOCKS, drawn
        return drawn


#: By device, formula, dtypes, shape and numbers; emptied when it is full.
_DRAWS: Final[BoundedCache[Any, Draw]] = BoundedCache(256)
#: By thread that notes its small draws, the draws and their arrays.
_NOTES: Final[dict[int, list[tuple[Draw, Any]]]] = by_thread({})


def small_draw(state: DeviceState, formula: Any, dtype: DType, words: int, shape: tuple[int, ...],
               generator: Generator | None, numbers: Sequence[float] = (), converted: Any = None) -> Any:
    """Return a new small array of random numbers; None, before anything is drawn, if no program is known for them.

    Args:
        state: The device.
        formula: The formula.
        dtype: Dtype of the numbers.
        words: Words that each number takes.
        shape: Shape of the array, of 1 to ``FEW`` elements.
        generator: The source; None for that of the device.
        numbers: Further arguments of the formula.
        converted: NumPy's dtype of the array, if it is another one.
    """
    draw = draw_of(state, formula, dtype, words, shape, numbers, converted)
    if draw is None:
        return None
    made = draw.next(generator or generator_of(state))
    if _NOTES and generator is None and (notes := _NOTES.get(get_ident())) is not None:
        notes.append((draw, made))
    return made


def draw_of(state: DeviceState, formula: Any, dtype: DType, words: int, shape: tuple[int, ...],
            numbers: Sequence[float] = (), converted: Any = None) -> Draw | None:
    """Return a small draw, by the arguments of ``small_draw``; None if no program is known for it."""
    # Zeros have two signs; NaN equals no key, so that its draws are never ahead.
    stream = (state, formula, dtype, *(numbers if all(numbers) else map(repr, numbers)))
    draw = _DRAWS.get((stream, shape, converted))
    if draw is None:
        known = state.programs.get((formula, dtype))
        if known is None or not state.holds_data:
            return None
        stretch = _STRETCHES.get(stream)
        if stretch is None:
            stretch = _STRETCHES[stream] = _Stretch(*known)
        draw = _DRAWS[stream, shape, converted] = Draw(stretch, state, dtype, words, shape, numbers, converted)
    return draw


@contextmanager
def noted_draws() -> Iterator[tuple[list[tuple[Draw, Any]], list[Generator]]]:
    """Run a block that moves no device's generator; the values list its small draws, and a generator for each draw."""
    me, notes = get_ident(), list[tuple[Draw, Any]]()
    outer = _NOTES.get(me)
    _NOTES[me] = notes
    try:
        with draws_aside() as generators:
            yield notes, generators
    finally:
        if outer is None:
            del _NOTES[me]
        else:
            _NOTES[me] = outer


def noted_draw(factory: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Callable[[], Any] | None:
    """Return a function that draws what a factory's call draws, if its result is one small draw and nothing else."""
    if any(isinstance(x, Generator) for x in (*args, *named.values())):
        return None
    with noted_draws() as (notes, generators):
        made = factory(*args, **named)
    if not is_plain(made) or len(generators) != 1 or not notes or made._array is not notes[0][1]:
        return None
    draw, key = notes[0][0], made._key
    own = generator_of_device(draw.state)

    def repeat() -> Any:
        t = _new(Tensor)
        t._array = draw.next(generator_of(draw.state) if ASIDE else own)
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return repeat
