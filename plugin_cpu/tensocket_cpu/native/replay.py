"""Replay: the recorded launches of an operator on small arrays of known layouts, as one call of machine code.

A recording becomes a table: the layouts of the operands, the results to allocate, the kernels and their slots. One
function of machine code, the same for all tables, checks the operands of a call, allocates the results, writes
addresses where slots point to, and calls the kernels in order. It hands calls with other operands to the next path.

A replay never uses contents of the recorded call: memory between launches belongs to the table, and the function holds
the interpreter's lock from the first address to the last kernel. ``ReplayCompiler`` records a function several times,
on operands with contents of every kind. All recordings must be equal, and their launches alone must make the function's
results; so must the table (``recordings``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.launch_recorder import ReplayForbiddenError, record_launches
from tensocket_plugins.contract.plans import RecordedCall, ReplayPlan, WrapperLayout
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ..code.pointers import POINTER_FIELD, address_of
from .builtin import Code, Words
from .contents import KINDS, operands_like
from .recordings import OTHER_BRANCH, Launch, OtherBranch, Place, Range, Recording, RecordingRefused, aligned, span
from .replay_code import RESULTS, Head, ReplayCode
from .wrappers import find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .layout import Layout
    from .resources import Resources

Array = Any
Function = Callable[..., RecordedCall | None]
#: The most bytes of an array, and of all memory between launches, which belongs to the recording.
_BYTES: Final = 1 << 20
_BLOCKS: Final = 1 << 21
#: The most operands and kernels of a call; below, the most words of a table for each 16 kernels.
_OPERANDS: Final = 16
_CALLS: Final = 64
#: The most seconds of a call, which holds the interpreter's lock; beyond, the time between launches matters little.
_LONGEST: Final = 1e-3
_WORDS: Final = 1 << 10
#: The byte that fills memory before the trial of a call, and the number of such blocks for each result.
_MARK: Final = 0xA5
_MARKED: Final = 4
_MASK: Final = (1 << 64) - 1


class ReplayCompiler:
    """Compiles replays for one device; their machine code is the same for all wrappers of a class."""

    def __init__(self, compiler: Callable[[], Compiler], layout: Layout, resources: Resources) -> None:
        self._compiler, self._layout, self._resources = compiler, layout, resources
        self._codes: dict[type, Code | None] = {}

    @quiet  # warnings about the contents of trial operands do not concern the program
    def compile(self, plan: ReplayPlan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Record a plan and compile its recording; return None if launches alone do not make the results."""
        function, operands, trailing = plan.function, plan.operands, plan.trailing
        if len(operands) > _OPERANDS or not all(x is None or _small(x) for x in operands.values()):
            return None
        given = [*operands.values()]
        draws = [operands_like(given, 0)]
        first = _recorded(function, draws[0], plan)
        if not isinstance(first, Recording) or sum(first.blocks) > _BLOCKS:
            return None
        draws += [operands_like(given, kind, first.ranges) for kind in range(1, KINDS)]
        recordings = [first, *[_recorded(function, contents, plan) for contents in draws[1:]]]
        if not all(x is OTHER_BRANCH or (x is not None and first.same(x)) for x in recordings):
            return None
        if not all(x is OTHER_BRANCH or x.agrees(contents, x.made.arrays)
                   for x, contents in zip(recordings[1:3], draws[1:3], strict=True)):
            return None
        wrapper = first.made.wrappers[0]
        code = self._code(wrapper)
        table = None if code is None else _table(code, first, dict(zip(operands, draws[0], strict=True)), trailing)
        if code is None or table is None:
            return None
        compiled = code.method(table)
        calls = [_wrapped(compiled, dict(zip(operands, contents, strict=True)), trailing, wrapper)
                 for contents in draws]
        if not all(call() is None if x is OTHER_BRANCH else _agrees(call, x.made, contents, wrapper.array)
                   for x, contents, call in zip(recordings, draws, calls, strict=True)):
            return None
        if _seconds(calls[0]) > _LONGEST:
            return None
        table.lead_to(next_path)
        return compiled

    def _code(self, layout: WrapperLayout) -> Code | None:
        if layout.kind not in self._codes:
            wrapper = find_wrapper(layout)
            code = None
            if wrapper is not None:
                f = ReplayCode(self._layout, self._resources, wrapper)
                code = f.compile(self._compiler(), f.name, layout)
            self._codes[layout.kind] = code
        return self._codes[layout.kind]


def _declined(*args: Any) -> None:
    """Serve as the next path of a table on trial."""


class _Table(Words):
    """A table, with the owners of its addresses."""

    def lead_to(self, next_path: Callable[..., Any]) -> None:
        """Hand calls with other operands to a function."""
        self[Head.NEXT_PATH] = id(next_path)
        self.next_path = next_path


class _Writer:
    """The writer of one table; records follow the head."""

    def __init__(self, code: Code, kernels: int) -> None:
        self.table = _Table(_WORDS * (1 + kernels // 16), np.uint64)
        self.table[:] = 0
        self._used = 0
        self.put(code.addresses)
        self.table.lead_to(_declined)

    def put(self, values: Sequence[int]) -> int:
        """Write words; return their address.

        Raises:
            IndexError: The table is full.
        """
        begin, self._used = self._used, self._used + len(values)
        if self._used > self.table.size:
            raise IndexError("a table of launches is full")
        self.table[begin: self._used] = [value & _MASK for value in values]
        return address_of(self.table) + 8 * begin

    def part(self, head: Head, records: Sequence[Sequence[int]]) -> None:
        """Write records; store their number and address in the head."""
        self.table[head] = len(records)
        self.table[head + 1] = self.put([word for record in records for word in record])

    def operand(self, position: int, x: Array | None) -> list[int]:
        """Return the record of an operand."""
        return [position, 0, 0, 0] if x is None else [position, id(x.dtype), x.ndim, self.put([*x.shape, *x.strides])]

    def result(self, x: Array, wrapper: WrapperLayout) -> list[int]:
        """Return the record of a result."""
        values = [value if x.ndim else value_0d for _, value, value_0d in wrapper.slots]
        return [id(x.dtype), x.ndim, self.put(x.shape), self.put(x.strides), x.nbytes, *map(id, values)]

    def range(self, known: Range) -> list[int]:
        """Return the record of the values that an operand may have."""
        return [known.operand, known.count, known.low, max(known.high - known.low, 0), known.other]

    def kernel(self, launch: Launch, fixed: Callable[[Place], int], operands: int
               ) -> tuple[list[int], list[list[int]]]:
        """Return the record of a kernel, and those of the addresses that change with every call.

        Args:
            launch: The launch.
            fixed: Returns the address of a constant or block.
            operands: The number of operands: the numbers of results follow theirs.
        """
        moving = [place.kind in ("operand", "result") for place in launch.places]
        given = [0 if moves else fixed(place) for place, moves in zip(launch.places, moving, strict=True)]
        words = list(struct.unpack(f"={len(launch.words) // 8}Q", launch.words))
        if launch.data:  # a library's words have the addresses themselves
            for position, address in zip(launch.data, given, strict=True):
                words[position] = address
            slots = self.put(words)
            places = [slots + 8 * position for position in launch.data]
        else:
            cells = self.put(given)
            places = [cells + 8 * k for k in range(len(given))]
            slots = self.put([*[place - (POINTER_FIELD or 0) for place in places], *words])
        patches = [[places[k], place.number + (operands if place.kind == "result" else 0), place.offset]
                   for k, place in enumerate(launch.places) if moving[k]]
        return [launch.entry.address, slots, launch.count, launch.pieces], patches


def _recorded(function: Function, operands: Sequence[Array | None], plan: ReplayPlan) -> Any:
    """Record a function on operands.

    Return a ``Recording``; ``OTHER_BRANCH`` if the function took another branch than other calls; None if launches
    alone do not make its results.
    """
    before = _bytes(operands)
    try:
        with np.errstate(all="ignore"):  # some contents are NaN or infinite
            made, recorder = record_launches(partial(function, *operands), wants_kernels=plan.wants_kernels,
                                             rounds_freely=plan.rounds_freely)
            if not all(zero for _, _, zero in recorder.zeros):
                return OTHER_BRANCH
            if plan.wants_kernels and not plan.rounds_freely and not _equal(made, function(*operands)):
                return None
    except ReplayForbiddenError:
        return None
    if made is None or not recorder.whole or not (
            len(recorder.calls) <= _CALLS and 0 < len(made.arrays) <= RESULTS):
        return None
    if not all(_small(x) and _whole(x) for x in made.arrays) or before != _bytes(operands):
        return None
    try:
        return Recording(made, recorder, operands)
    except OtherBranch:
        return OTHER_BRANCH
    except RecordingRefused:
        return None


def _equal(made: RecordedCall | None, other: RecordedCall | None) -> bool:
    """Whether two calls returned the same bits, in the same layouts; all NaNs are equal."""
    return made is not None and other is not None and len(made.arrays) == len(other.arrays) and all(
        (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides) and _bits(x) == _bits(y)
        for x, y in zip(made.arrays, other.arrays, strict=True))


def _bits(x: Array) -> bytes:
    flat = np.array(x, order="C").reshape(-1)
    parts = flat.view(flat.real.dtype)
    if parts.dtype.kind == "f":
        parts[np.isnan(parts)] = np.nan
    return bytes(parts.tobytes())


def _table(code: Code, known: Recording, operands: Mapping[int, Array | None], trailing: Mapping[int, Any]
           ) -> _Table | None:
    """Write a recording as a table; return None if it is too large."""
    w = _Writer(code, len(known.launches))
    made, blocks = known.made, [aligned(nbytes) for nbytes in known.blocks]

    def fixed(place: Place) -> int:
        owner = known.constants if place.kind == "constant" else blocks
        return address_of(owner[place.number]) + place.offset

    try:
        w.part(Head.OPERANDS, [w.operand(k, x) for k, x in operands.items()])
        w.part(Head.TRAILING, [[k, id(value)] for k, value in trailing.items()])
        w.part(Head.RESULTS, [w.result(x, wrapper) for x, wrapper in zip(made.arrays, made.wrappers, strict=True)])
        pairs = [w.kernel(launch, fixed, len(operands)) for launch in known.launches]
        kernels, patches = [kernel for kernel, _ in pairs], [patch for _, patch in pairs]
        w.part(Head.KERNELS, kernels)
        w.part(Head.PATCHES, [patch for some in patches for patch in some])
        w.part(Head.RANGES, [w.range(item) for item in known.ranges if item.checked])
        w.part(Head.ZEROS, [[fixed(place), (1 << 8 * nbytes) - 1] for place, nbytes in known.zeros])
    except IndexError:
        return None
    w.table[Head.IS_TUPLE] = made.is_tuple
    w.table[Head.DIVIDED] = any(launch.pieces > 1 for launch in known.launches)
    w.table[Head.ARGUMENTS] = max((*operands, *trailing)) + 1
    # The recording keeps kernels and its arrays' dtypes alive.
    w.table.alive = known, blocks, operands, trailing, code
    return w.table


def _wrapped(compiled: Callable[..., Any], operands: Mapping[int, Array | None], trailing: Mapping[int, Any],
             wrapper: WrapperLayout) -> Callable[[], Any]:
    """Return a call with operands in wrappers."""
    arguments = {**trailing, **operands}
    for k, x in operands.items():
        if x is not None:
            arguments[k] = object.__new__(wrapper.kind)
            setattr(arguments[k], wrapper.array, x)
    return partial(compiled, *[arguments.get(k) for k in range(max(arguments) + 1)])


def _agrees(call: Callable[[], Any], wanted: RecordedCall, operands: Sequence[Array | None], name: str) -> bool:
    """Whether a call returns the same bytes as the function did for the same operands, and changes no operand."""
    before = _bytes(operands)
    # Unwritten bytes of results then differ: an allocator often reuses the memory that was freed last.
    _ = [np.full(x.nbytes, _MARK, np.uint8) for x in wanted.arrays for _ in range(_MARKED)]
    del _
    given = call()
    if given is None or wanted.is_tuple != isinstance(given, tuple):
        return False
    found = [getattr(item, name) for item in (given if wanted.is_tuple else (given,))]
    return before == _bytes(operands) and len(found) == len(wanted.arrays) and all(
        x.dtype == y.dtype and x.shape == y.shape and _strides(x) == _strides(y) and x.tobytes() == y.tobytes()
        for x, y in zip(found, wanted.arrays, strict=True))


def _strides(x: Array) -> tuple[int, ...]:
    """Return the strides of an array in elements; NumPy makes empty arrays with strides of 0, which mean row-major."""
    steps = tuple([s // x.itemsize for s in x.strides])
    return steps if x.size or any(steps) else contiguous_strides(x.shape)


def _seconds(call: Callable[[], Any]) -> float:
    """Return the shortest time of three calls, in seconds."""
    times = []
    for _ in range(3):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return min(times)


def _bytes(operands: Sequence[Array | None]) -> list[bytes | None]:
    return [None if x is None else x.tobytes() for x in operands]


def _small(x: Array) -> bool:
    """Whether an array is not large, and has no negative strides."""
    return type(x) is np.ndarray and span(x) <= _BYTES and min(x.strides, default=0) >= 0


def _whole(x: Array) -> bool:
    """Whether an array covers all of its owner's memory without gaps, in any order of dimensions."""
    owner = x
    while type(owner.base) is np.ndarray:
        owner = owner.base
    return bool(span(x) == x.nbytes == owner.nbytes and address_of(x) == address_of(owner))
