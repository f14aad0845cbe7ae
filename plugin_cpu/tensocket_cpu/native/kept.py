"""Launches that are kept: what an operator launched for small arrays of some shapes, as one call of machine code.

What a tape recorded becomes a table: operands as they must be, results to be made, kernels with their slots. One
function of machine code, the same for all tables, checks the operands of a call, makes the results, puts addresses
where slots point to, and calls the kernels one after the other. It answers None where an operand is another one than
expected.

Temporary memory and constants are those of the recorded call, which nobody else has: the interpreter's lock is held
from the first address to the last kernel. What changes with every call is told from them by memory: the recorded call
was made with operands of its own. A second call on other values shows whether the table does the same as the function.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.native import Box, Kept

from ..code.pointers import POINTER_FIELD, address_of
from ..code.tapes import Call, Limit, Tape, recorded
from .boxes import slot_offsets
from .entries import Words, make_method
from .kept_code import NAME, RESULTS, Head, kept_text
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .layout import Layout

Array = Any
#: Most bytes of an array; the memory of larger ones comes from the pool.
_BYTES: Final = 1 << 16
#: Most operands, kernels of a call, and words of a table.
_OPERANDS: Final = 16
_CALLS: Final = 16
#: Seconds up to which what may be divided over threads is quicker without being divided.
_DIVIDED: Final = 25e-6
_WORDS: Final = 1 << 10
#: What memory is filled with that a check of a call may get, and how many blocks for each result.
_MARK: Final = 0xA5
_MARKED: Final = 4
_MASK: Final = (1 << 64) - 1


class KeptCalls:
    """Makes kept launches for one device; their machine code is the same for all boxes of a class."""

    def __init__(self, compiler: Callable[[], Compiler], layout: Layout) -> None:
        self._compiler, self._layout = compiler, layout
        self._codes: dict[type, _Code | None] = {}

    def keep(self, function: Callable[..., Kept | None], operands: Mapping[int, Array | None],
             rest: Mapping[int, Any]) -> Callable[..., Any] | None:
        """See ``OpenDevice.keep``."""
        if len(operands) > _OPERANDS or not all(x is None or _small(x) for x in operands.values()):
            return None
        first, second = ([None if x is None else _like(x, seed) for x in operands.values()] for seed in (1, 2))
        kept, tape = recorded(partial(function, *first))
        if kept is None or not tape.whole or not 0 < len(tape.calls) <= _CALLS or not 0 < len(kept.arrays) <= RESULTS:
            return None
        if not all(_small(x) and _whole(x) and _written(x, tape) for x in kept.arrays):
            return None
        code = self._code(kept.boxes[0])
        made = None if code is None else _builtin(code, kept, tape, dict(zip(operands, first, strict=True)), rest)
        if made is None:
            return None
        call = _boxed(made, dict(zip(operands, second, strict=True)), rest, kept.boxes[0])
        if not _agrees(call, function, second, kept.boxes[0].array) or (tape.divided and _seconds(call) > _DIVIDED):
            return None
        return made

    def _code(self, box: Box) -> _Code | None:
        if box.kind not in self._codes:
            offsets = slot_offsets(box)
            code = None
            if offsets is not None:
                w = Text()
                w.addresses = [0] * len(Head)
                text = kept_text(w, self._layout, box, offsets)
                (address,), library = self._compiler().compile_text(NAME, text, [NAME])
                code = _Code(address, w.addresses[len(Head):], library)
            self._codes[box.kind] = code
        return self._codes[box.kind]


@dataclass(frozen=True, slots=True)
class _Code:
    """The machine code, and the addresses that it takes from its table behind the head."""

    address: int
    functions: Sequence[int]
    library: Any


class _Writer:
    """Writes a table, from its head on."""

    def __init__(self, code: _Code) -> None:
        self.table = Words(_WORDS, np.uint64)
        self.table[:] = 0
        self._used = len(Head)
        self.put(code.functions)

    def put(self, values: Sequence[int]) -> int:
        """Write words; their address.

        Raises:
            IndexError: The table is full.
        """
        begin, self._used = self._used, self._used + len(values)
        if self._used > _WORDS:
            raise IndexError("a table of kept launches is full")
        self.table[begin: self._used] = [value & _MASK for value in values]
        return address_of(self.table) + 8 * begin

    def part(self, head: Head, records: Sequence[Sequence[int]]) -> None:
        """Write records; their number and address come to the head."""
        self.table[head] = len(records)
        self.table[head + 1] = self.put([word for record in records for word in record])

    def operand(self, position: int, x: Array | None) -> list[int]:
        """The record of an operand."""
        return [position, 0, 0, 0] if x is None else [position, id(x.dtype), x.ndim, self.put([*x.shape, *x.strides])]

    def result(self, x: Array, box: Box) -> list[int]:
        """The record of a result."""
        values = [value if x.ndim else value_0d for _, value, value_0d in box.slots]
        return [id(x.dtype), x.ndim, self.put(x.shape), self.put(x.strides), *map(id, values)]

    def limit(self, limit: Limit, operands: Sequence[Array | None]) -> list[int]:
        """The record of what was checked of an operand.

        Raises:
            ValueError: It is none, or no array of numbers side by side.
        """
        x = limit.array
        if x.dtype != np.int64 or not x.flags.c_contiguous:
            raise ValueError("limits are for int64 without gaps")
        places = [None if y is None else address_of(y) for y in operands]
        return [places.index(address_of(x)), x.size, limit.low, max(limit.high - limit.low, 0), limit.other]

    def kernel(self, call: Call, owners: Sequence[Array | None]) -> tuple[list[int], list[list[int]]]:
        """The record of a kernel, and those of the addresses that change with every call."""
        cells = self.put([address_of(x) for x in call.arrays])
        slots = self.put([cells + 8 * k - (POINTER_FIELD or 0) for k in range(len(call.arrays))])
        self.put(struct.unpack(f"={len(call.words) // 8}Q", call.words))
        patches = []
        for k, x in enumerate(call.arrays):
            place = address_of(x)
            for number, owner in enumerate(owners):
                if owner is not None and 0 <= place - address_of(owner) < _span(owner):
                    patches.append([cells + 8 * k, number, place - address_of(owner)])
        return [call.entry.address, slots, call.count], patches


def _builtin(code: _Code, kept: Kept, tape: Tape, operands: Mapping[int, Array | None],
             rest: Mapping[int, Any]) -> Callable[..., Any] | None:
    """What was recorded as a built-in function; None where it is too much."""
    w = _Writer(code)
    owners = [*operands.values(), *kept.arrays]
    try:
        w.part(Head.OPERANDS, [w.operand(k, x) for k, x in operands.items()])
        w.part(Head.REST, [[k, id(value)] for k, value in rest.items()])
        w.part(Head.RESULTS, [w.result(x, box) for x, box in zip(kept.arrays, kept.boxes, strict=True)])
        kernels, patches = zip(*[w.kernel(call, owners) for call in tape.calls], strict=True)
        w.part(Head.KERNELS, kernels)
        w.part(Head.PATCHES, [patch for some in patches for patch in some])
        w.part(Head.LIMITS, [w.limit(limit, [*operands.values()]) for limit in tape.limits])
    except (IndexError, ValueError):
        return None
    w.table[Head.MANY] = kept.many
    w.table[Head.ARGUMENTS] = max((*operands, *rest)) + 1
    # Kernels belong to their entries; dtypes to the arrays.
    w.table.alive = tape, kept, operands, rest, code
    return make_method(NAME, code.address, w.table)


def _boxed(made: Callable[..., Any], operands: Mapping[int, Array | None], rest: Mapping[int, Any],
           box: Box) -> Callable[[], Any]:
    """A call with operands in boxes."""
    arguments = {**rest, **operands}
    for k, x in operands.items():
        if x is not None:
            arguments[k] = object.__new__(box.kind)
            setattr(arguments[k], box.array, x)
    return partial(made, *[arguments.get(k) for k in range(max(arguments) + 1)])


def _agrees(call: Callable[[], Any], function: Callable[..., Kept | None], operands: Sequence[Array | None],
            name: str) -> bool:
    """Whether a call and the function give the same bytes for the same operands, and neither changes any."""
    before = _bytes(operands)
    wanted = function(*operands)
    if wanted is None:
        return False
    # So that what is not written differs: new memory is often that which was returned last.
    _ = [np.full(x.nbytes, _MARK, np.uint8) for x in wanted.arrays for _ in range(_MARKED)]
    del _
    given = call()
    if given is None or wanted.many != isinstance(given, tuple):
        return False
    found = [getattr(item, name) for item in (given if wanted.many else (given,))]
    return before == _bytes(operands) and len(found) == len(wanted.arrays) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.strides == y.strides and x.tobytes() == y.tobytes()
        for x, y in zip(found, wanted.arrays, strict=True))


def _seconds(call: Callable[[], Any]) -> float:
    """What a call takes."""
    times = []
    for _ in range(3):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return min(times)


def _bytes(operands: Sequence[Array | None]) -> list[bytes | None]:
    return [None if x is None else x.tobytes() for x in operands]


def _span(x: Array) -> int:
    """Bytes from the first element to the end of the last one."""
    return int(x.itemsize + sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True))) if x.size else 0


def _small(x: Array) -> bool:
    """Whether an array is not empty, not large, and lies behind its first element."""
    return type(x) is np.ndarray and 0 < _span(x) <= _BYTES and min(x.strides, default=0) >= 0


def _whole(x: Array) -> bool:
    """Whether an array is all of some memory without gaps, in any order of dimensions."""
    owner = x
    while type(owner.base) is np.ndarray:
        owner = owner.base
    return bool(_span(x) == x.nbytes == owner.nbytes and address_of(x) == address_of(owner))


def _written(x: Array, tape: Tape) -> bool:
    """Whether a kernel on the tape writes to an array."""
    return any(written and 0 <= address_of(y) - address_of(x) < _span(x)
               for call in tape.calls for y, written in zip(call.arrays, call.written, strict=True))


def _like(x: Array, seed: int) -> Array:
    """An array of the dtype, shape and strides of another one, with values of its own: numbers near 1, or 0 and 1.

    Two bytes may be the bits of a float.
    """
    made = np.ndarray(x.shape, x.dtype, np.zeros(_span(x), np.uint8), 0, x.strides)
    values = np.random.default_rng(seed).random(x.shape)
    if x.dtype == np.uint16:
        made[...] = 0x3F00 + values * 256
    else:
        made[...] = (values > 0.5 if x.dtype.kind in "biu" else values + 0.5).astype(x.dtype)
    return made
