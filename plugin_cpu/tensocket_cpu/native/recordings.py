"""Where the memory of recorded launches comes from: the proof that launches alone make the results.

Each array that a recorded kernel reads lies in an operand, in a declared constant, or in memory that an earlier kernel
of the recording wrote; each result was written by a kernel. Everything else, such as what NumPy computed in between,
has no place here, and a recording with such an array is refused.

A recording never carries contents over: memory that is neither operand nor constant is replaced by blocks of our own.
``Recording.agrees`` runs the kernels on such blocks, once filled with zeros and once with ones. Where a result depends
on bytes that no kernel wrote (the border of a padded image, a sum that NumPy began), the two runs differ.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from tensocket_plugins.contract.launch_recorder import Call, LaunchRecorder, ValueRange
from tensocket_plugins.contract.plans import RecordedCall

from ..code.executable import array_slot
from ..code.pointers import address_of

Array = Any
#: Bytes to which blocks are aligned.
LINE: Final = 64
#: What blocks are filled with: the bits of one are those of the other, inverted.
_FILLS: Final = (0x00, 0xFF)


class Unexplained(Exception):
    """Launches alone don't explain what a recorded function did."""


class Elsewhere(Exception):
    """A function found an element that is not zero, and went another way than it does where it is."""


#: Stands for the recording of a call that raises ``Elsewhere``.
ELSEWHERE: Final = object()


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of a recording's memory.

    Attributes:
        kind: What it belongs to.
        number: Which one.
        offset: Bytes from its beginning.
    """

    kind: Literal["operand", "result", "constant", "block"]
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel's call, with places instead of addresses."""

    entry: Any
    places: tuple[Place, ...]
    written: tuple[bool, ...]
    words: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers that an operand's first elements may be.

    Attributes:
        operand: Its number.
        count: How many elements.
        low: The smallest number.
        high: The first one that is too large.
        other: A number that is allowed as well.
        checked: Whether each call has to look.
    """

    operand: int
    count: int
    low: int
    high: int
    other: int
    checked: bool


def span(x: Array) -> int:
    """Bytes from the first element to the end of the last one."""
    return int(x.itemsize + sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True))) if x.size else 0


def aligned(nbytes: int) -> Array:
    """A new block of bytes that begins with a line; whole words can be read at its end."""
    block = np.empty(nbytes + 2 * LINE, np.uint8)
    first = -address_of(block) % LINE
    return block[first: first + nbytes]


class Recording:
    """One call of a function on operands of its own.

    Attributes:
        launches: In order.
        ranges: Which values of operands the function accepted.
        constants: Declared arrays that kernels read.
        blocks: Bytes of each piece of memory in between.
        zeros: Where bytes are zero after the launches, of an element that the function looked at, and how many.
        made: What the function returned.

    Args:
        made: What the function returned.
        recorder: What it launched.
        operands: Its operands.

    Raises:
        Unexplained: A kernel reads what nobody explains, writes to an operand or constant, or a result was not
            written by a kernel.
        Elsewhere: The function found an element that is not zero.
    """

    def __init__(self, made: RecordedCall, recorder: LaunchRecorder, operands: Sequence[Array | None]) -> None:
        if not all(zero for _, _, zero in recorder.zeros):
            raise Elsewhere
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
        if any(("result", number) not in written for number in range(len(made.arrays))):
            raise Unexplained("a result that no kernel wrote")
        self.zeros = [self._zero(x, number) for x, number, _ in recorder.zeros]
        self.ranges = [self._range(known, operands) for known in recorder.ranges]

    def _own(self, first: int, nbytes: int, place: Place) -> None:
        if any(first < end and begin < first + nbytes for begin, end, _ in self._owned):
            raise Unexplained("arrays that share memory")
        self._owned.append((first, first + nbytes, place))

    def _place(self, address: int) -> Place:
        """Where an array of a call begins."""
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
        raise Unexplained("an empty array")

    def _launch(self, call: Call, written: set[tuple[str, int]]) -> Launch:
        places = [self._place(address_of(x)) for x in call.arrays]
        for place, writes in zip(places, call.written, strict=True):
            if writes and place.kind in ("operand", "constant"):
                raise Unexplained(f"a kernel that writes to {place.kind} {place.number}")
            if not writes and place.kind in ("result", "block") and (place.kind, place.number) not in written:
                raise Unexplained("a kernel that reads what no kernel wrote")
        written |= {(p.kind, p.number) for p, writes in zip(places, call.written, strict=True) if writes}
        words, count = call.arguments
        return Launch(call.kernel, tuple(places), tuple(call.written), words, count)

    def _zero(self, x: Array, number: int) -> tuple[Place, int]:
        place, nbytes = self._place(address_of(x)), x.itemsize
        same = [(p.kind, p.number) == (place.kind, place.number) and writes
                for launch in self.launches[number:] for p, writes in zip(launch.places, launch.written, strict=True)]
        if place.kind != "block" or any(same) or x.size != 1 or nbytes not in (1, 2, 4, 8):
            raise Unexplained("an element that changes, or is none of a launch's own")
        return place, nbytes

    def _range(self, known: ValueRange, operands: Sequence[Array | None]) -> Range:
        x = known.array
        if known.checked and (x.dtype != np.int64 or not x.flags.c_contiguous):
            raise Unexplained("ranges are of contiguous int64")
        for number, y in enumerate(operands):
            if y is not None and address_of(y) == address_of(x) and span(x) <= span(y):
                return Range(number, x.size, known.low, known.high, known.other, known.checked)
        raise Unexplained("a range of an array that is not an operand")

    def same(self, other: Recording) -> bool:
        """Whether two recordings, of calls with operands of other contents, say the same."""
        mine, others = ([(tuple((launch.entry.address, launch.places, launch.written, launch.words, launch.count)
                                for launch in x.launches), x.ranges, x.zeros, x.blocks, x.made.is_tuple,
                          [(c.dtype, c.shape, c.strides, c.tobytes()) for c in x.constants],
                          [(r.dtype, r.shape, r.strides) for r in x.made.arrays])] for x in (self, other))
        return mine == others

    def agrees(self, operands: Sequence[Array | None], wanted: Sequence[Array]) -> bool:
        """Whether the launches alone make results from operands: the same bytes, however memory was filled before.

        Args:
            operands: Contents of a call.
            wanted: The function's results for them.
        """
        for fill in _FILLS:
            memory: dict[str, list[Any]] = {
                "operand": list(operands), "constant": self.constants,
                "result": [aligned(span(x)) for x in wanted], "block": [aligned(n) for n in self.blocks]}
            for block in (*memory["result"], *memory["block"]):
                block.fill(fill)
            for launch in self.launches:
                run(launch, [address_of(memory[p.kind][p.number]) + p.offset for p in launch.places])
            made = zip(memory["result"], wanted, strict=True)
            if any(block.tobytes() != _contents(x) for block, x in made):
                return False
        return True


def run(launch: Launch, addresses: Sequence[int]) -> None:
    """Call a kernel with arrays at other addresses."""
    # Of the arrays in slots, only the pointer matters.
    bytes_at: list[Any] = [(ctypes.c_ubyte * 1).from_address(address) for address in addresses]
    arrays = [np.frombuffer(x, np.uint8) for x in bytes_at]
    slots = struct.pack(f"={len(arrays)}Q", *map(array_slot, arrays))
    launch.entry(slots + launch.words, 0, launch.count)


def _contents(x: Array) -> bytes:
    """The bytes of an array's memory, which has no gaps."""
    order = sorted(range(x.ndim), key=lambda k: (-x.strides[k], -x.shape[k]))
    return bytes(x.transpose(order).tobytes())


def _pieces(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Beginning and end of the memory of arrays: where owners overlap, they are one piece."""
    owners = {}
    for x in arrays:
        owner = x
        while type(owner.base) is np.ndarray:
            owner = owner.base
        owners[id(owner)] = owner
        # A view that is not inside of its owner, which is a view of other memory with some of its elements.
        owners[id(x)] = x
    merged: list[tuple[int, int]] = []
    for first, last in sorted((address_of(x), address_of(x) + span(x)) for x in owners.values() if x.size):
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
