"""Recordings of launches, and the proof that launches alone make the results.

Each array that a recorded kernel reads is part of an operand, of a declared constant, or of memory that an earlier
kernel of the recording wrote; a kernel wrote each result. ``Recording`` refuses launches with any other array, such as
one that NumPy computed in between.

A recording never carries contents over: new blocks replace all memory that is neither operand nor constant.
``Recording.agrees`` runs the kernels on such blocks, once with all bits 0 and once with all bits 1. If a result depends
on bytes that no kernel wrote (the border of a padded image, a sum that NumPy began), the two runs differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from tensocket_plugins.contract.launch_recorder import Call, LaunchRecorder, ValueRange
from tensocket_plugins.contract.plans import RecordedCall

from ..code.pointers import POINTER_FIELD, address_of

Array = Any
#: The alignment of blocks, in bytes.
LINE: Final = 64
#: The bytes that fill blocks: one is the complement of the other.
_FILLS: Final = (0x00, 0xFF)


class RecordingRefused(Exception):
    """Raised if launches alone do not explain the results of a recorded function."""


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of a recording's memory.

    Attributes:
        kind: The kind of array that it belongs to.
        number: The array's number among those of its kind.
        offset: Bytes from the array's beginning.
    """

    kind: Literal["operand", "result", "constant", "block"]
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel, with places instead of addresses.

    Attributes:
        address: The address of the entry.
        words: The words after the slots of the arrays; all words, if ``data`` is given.
        pieces: The most parts of the iterations that are worth a thread.
        data: Positions of the words that are addresses of the arrays; empty if slots come first.
    """

    entry: Any = field(compare=False)
    address: int
    places: tuple[Place, ...]
    written: tuple[bool, ...]
    words: bytes
    count: int
    pieces: int
    data: tuple[int, ...]

    def laid_out(self, addresses: Sequence[int]) -> tuple[Array, int, Sequence[int]]:
        """Return memory with the words that the entry takes, with arrays at the given addresses.

        Kernels read only the pointers of the arrays in their slots, so a word in front stands for each array.

        Returns:
            The memory, the index of the first word for the entry, and those of the words with the addresses.
        """
        words, first, places = np.frombuffer(self.words, np.uint64), 0, self.data
        memory = words.copy()
        if not places:
            first, places = len(addresses), tuple(range(len(addresses)))
            memory = np.concatenate([np.zeros(2 * first, np.uint64), words])
            memory[first: 2 * first] = [address_of(memory) + 8 * k - (POINTER_FIELD or 0) for k in places]
        memory[list(places)] = addresses
        return memory, first, places


@dataclass(frozen=True, slots=True)
class Range:
    """The integers that the first elements of an operand may be.

    Attributes:
        operand: The operand's number.
        count: The number of elements.
        low: The smallest integer.
        high: The first integer that is too large.
        other: Another integer that is allowed.
        checked: Whether each call must compare the elements.
    """

    operand: int
    count: int
    low: int
    high: int
    other: int
    checked: bool


def span(x: Array) -> int:
    """Return the bytes from the first element to the end of the last one."""
    return int(x.itemsize + sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True))) if x.size else 0


def owner_of(x: Array) -> Array:
    """Return the array that owns the memory, or the first one on memory of another kind."""
    while type(x.base) is np.ndarray:
        x = x.base
    return x


def aligned(nbytes: int) -> Array:
    """Return a new block of bytes, aligned to ``LINE``; reads of whole words at its end stay in its memory."""
    block = np.empty(nbytes + 2 * LINE, np.uint8)
    first = -address_of(block) % LINE
    return block[first: first + nbytes]


class Recording:
    """The launches of one call of a function, on operands made for the recording.

    Attributes:
        launches: The launches, in order.
        ranges: The values of operands that the function accepted.
        constants: Declared arrays that kernels read.
        blocks: The bytes of each block of memory between launches.
        zeros: Place and bytes of each element that the function tested; the launches must leave it zero.
        made: The outcome of the call.

    Raises:
        RecordingRefused: A kernel reads memory of unknown origin or writes to an operand or constant, or no kernel
            wrote a result.
    """

    def __init__(self, made: RecordedCall, recorder: LaunchRecorder, operands: Sequence[Array | None]) -> None:
        self.made = made
        self._owned: list[tuple[int, int, Place]] = []
        self._declared = [(address_of(x), address_of(x) + span(x), x) for x in recorder.constants if span(x) > 0]
        self.constants: list[Array] = []
        self.blocks: list[int] = []
        for kind, arrays in (("operand", operands), ("result", made.arrays)):
            for number, x in enumerate(arrays):
                if x is not None:
                    self._own(address_of(x), span(x), Place(kind, number, 0))  # type: ignore[arg-type]
        self._pieces = _pieces([x for call in recorder.calls for x in call.arrays])
        written: set[tuple[str, int]] = set()
        self.launches = [self._launch(call, written) for call in recorder.calls]
        if any(x.size and ("result", number) not in written for number, x in enumerate(made.arrays)):
            raise RecordingRefused("a result that no kernel wrote")
        self.zeros = [self._zero(x, number) for x, number, _ in recorder.zeros]
        self.ranges = [self._range(known, operands) for known in recorder.ranges if not self._is_settled(known)]

    def _own(self, first: int, nbytes: int, place: Place) -> None:
        if any(first < end and begin < first + nbytes for begin, end, _ in self._owned):
            raise RecordingRefused("arrays that share memory")
        self._owned.append((first, first + nbytes, place))

    def _place(self, address: int) -> Place:
        """Return the place where an array of a launch begins."""
        for begin, end, place in self._owned:
            if begin <= address < end:
                return Place(place.kind, place.number, place.offset + address - begin)
        for begin, end, constant in self._declared:
            if begin <= address < end:
                self._own(begin, end - begin, Place("constant", len(self.constants), 0))
                self.constants.append(constant)
                return self._place(address)
        for begin, end in self._pieces:
            if begin <= address < end:
                self._own(begin, end - begin, Place("block", len(self.blocks), 0))
                self.blocks.append(end - begin)
                return self._place(address)
        raise RecordingRefused("an empty array")

    def _nothing(self) -> Place:
        """Return a place for an array without elements: some bytes that no kernel reads."""
        self.constants.append(np.zeros(LINE, np.uint8))
        return Place("constant", len(self.constants) - 1, 0)

    def _launch(self, call: Call, written: set[tuple[str, int]]) -> Launch:
        places = [self._place(address_of(x)) if x.size else self._nothing() for x in call.arrays]
        for place, writes in zip(places, call.written, strict=True):
            if writes and place.kind in ("operand", "constant"):
                raise RecordingRefused(f"a kernel that writes to {place.kind} {place.number}")
            if not writes and place.kind in ("result", "block") and (place.kind, place.number) not in written:
                raise RecordingRefused("a kernel that reads what no kernel wrote")
        written |= {(p.kind, p.number) for p, writes in zip(places, call.written, strict=True) if writes}
        launch = call.arguments
        words = launch.words[8 * len(places):]
        if launch.data:
            cleared = np.frombuffer(launch.words, np.uint64).copy()
            cleared[list(launch.data)] = 0
            words = cleared.tobytes()
        return Launch(call.kernel, call.kernel.address, tuple(places), tuple(call.written), words, launch.iterations,
                      launch.pieces, launch.data)

    def _zero(self, x: Array, number: int) -> tuple[Place, int]:
        place, nbytes = self._place(address_of(x)), x.itemsize
        same = [(p.kind, p.number) == (place.kind, place.number) and writes
                for launch in self.launches[number:] for p, writes in zip(launch.places, launch.written, strict=True)]
        if place.kind != "block" or any(same) or x.size != 1 or nbytes not in (1, 2, 4, 8):
            raise RecordingRefused("an element that changes, or is none of a launch's own")
        return place, nbytes

    def _is_settled(self, known: ValueRange) -> bool:
        """Whether no replay has to check a range: of a declared constant, whose elements were checked once for all
        calls, or of positions that a kernel wrote and callers guarantee.
        """
        first, end = address_of(known.array), address_of(known.array) + span(known.array)
        blocks = [] if known.checked else [(a, b) for a, b, place in self._owned if place.kind == "block"]
        fixed = [(a, b) for a, b, _ in self._declared]
        return any(a <= first and end <= b for a, b in (*fixed, *blocks))

    def _range(self, known: ValueRange, operands: Sequence[Array | None]) -> Range:
        x = known.array
        if known.checked and (x.dtype != np.int64 or not x.flags.c_contiguous):
            raise RecordingRefused("ranges are of contiguous int64")
        for number, y in enumerate(operands):
            if y is not None and address_of(y) == address_of(x) and span(x) <= span(y):
                return Range(number, x.size, known.low, known.high, known.other, known.checked)
        raise RecordingRefused("a range of an array that is not an operand")

    def same(self, other: Recording) -> bool:
        """Whether two recordings, of calls on operands with different contents, are equal."""
        mine, others = ((x.launches, x.ranges, x.zeros, x.blocks, x.made.is_tuple,
                         [(c.dtype, c.shape, c.strides, c.tobytes()) for c in x.constants],
                         [(r.dtype, r.shape, r.strides) for r in x.made.arrays]) for x in (self, other))
        return mine == others

    def agrees(self, operands: Sequence[Array | None], wanted: Sequence[Array]) -> bool:
        """Whether the launches alone make the function's results for operands, whatever the memory held before."""
        for fill in _FILLS:
            memory: dict[str, list[Any]] = {
                "operand": list(operands), "constant": self.constants,
                "result": [aligned(span(x)) for x in wanted], "block": [aligned(n) for n in self.blocks]}
            for block in (*memory["result"], *memory["block"]):
                block.fill(fill)
            for launch in self.launches:
                words, first, _ = launch.laid_out([address_of(memory[p.kind][p.number]) + p.offset
                                                   for p in launch.places])
                launch.entry(words[first:].tobytes(), 0, launch.count)
            made = zip(memory["result"], wanted, strict=True)
            if any(block.tobytes() != _contents(x) for block, x in made):
                return False
        return True


def _contents(x: Array) -> bytes:
    """Return the bytes of an array's memory, which has no gaps."""
    order = sorted(range(x.ndim), key=lambda k: (-x.strides[k], -x.shape[k]))
    return bytes(x.transpose(order).tobytes())


def _pieces(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return beginning and end of each piece of memory of arrays; overlapping owners form one piece."""
    # A view may exceed its owner, if that is itself a view of some elements of other memory.
    parts = {id(x): x for x in (*map(owner_of, arrays), *arrays)}
    merged: list[tuple[int, int]] = []
    for first, last in sorted((address_of(x), address_of(x) + span(x)) for x in parts.values() if x.size):
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
