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

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.launch_recorder import ReplayForbiddenError, record_launches
from tensocket_plugins.contract.plans import RecordedCall, ReplayPlan, WrapperLayout
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ..code.pointers import address_of
from .block_memory import BlockMemory, plan_blocks
from .builtin import Code
from .contents import KINDS, operands_like, scaled_copies
from .recordings import Launch, Place, Recording, RecordingRefused, aligned, owner_of, span
from .replay_code import RESULTS, Head, ReplayCode
from .wrappers import find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler
    from .layout import Layout
    from .resources import Resources

Array = Any
Function = Callable[..., RecordedCall | None]
#: The most bytes of an array, of all memory between launches, which belongs to the recording, and of all blocks.
_BYTES: Final = 1 << 20
_MEMORY: Final = 1 << 21
_BLOCKS: Final = 1 << 24
#: The most operands and kernels of a call.
_OPERANDS: Final = 64
_CALLS: Final = 256
#: The most seconds of a call, which holds the interpreter's lock; beyond, the time between launches matters little.
_LONGEST: Final = 1e-3
#: The byte that fills memory before the trial of a call, and the number of such blocks for each result.
_MARK: Final = 0xA5
_MARKED: Final = 4
_MASK: Final = (1 << 64) - 1
#: The stand-in for the recording of a call that took another branch than others.
_OTHER_BRANCH: Final = object()


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
        if first is _OTHER_BRANCH:  # such as a matrix that is not positive definite
            draws = [scaled_copies(given, 1), scaled_copies(given, 2)]
            first = _recorded(function, draws[0], plan)
        if not isinstance(first, Recording) or sum(first.blocks) > _BLOCKS:
            return None
        memory = plan_blocks(first)
        if sum(memory.sizes) > _MEMORY:
            return None
        draws += [operands_like(given, kind, first.ranges) for kind in range(1, KINDS)]
        recordings = [first, *[_recorded(function, contents, plan) for contents in draws[1:]]]
        if not all(x is _OTHER_BRANCH or (x is not None and first.same(x)) for x in recordings):
            return None
        if not all(x is _OTHER_BRANCH or x.agrees(contents, x.made.arrays)
                   for x, contents in zip(recordings[:3], draws[:3], strict=True)):
            return None
        wrapper = first.made.wrappers[0]
        code = self._code(wrapper)
        if code is None:
            return None
        table = _Table(code, first, memory, dict(zip(operands, draws[0], strict=True)), trailing, next_path).words
        compiled = code.method(table)
        calls = [_wrapped(compiled, dict(zip(operands, contents, strict=True)), trailing, wrapper)
                 for contents in draws]
        if not all(call() is None if x is _OTHER_BRANCH else _agrees(call, x.made, contents, wrapper.array)
                   for x, contents, call in zip(recordings, draws, calls, strict=True)):
            return None
        if _seconds(calls[0]) > _LONGEST:
            return None
        table[Head.NEXT_PATH] = id(next_path)
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


class _Table:
    """The writer of a recording as a table.

    Attributes:
        words: The words of the head, and the addresses that the code uses.
    """

    def __init__(self, code: Code, known: Recording, memory: BlockMemory, operands: Mapping[int, Array | None],
                 trailing: Mapping[int, Any], next_path: Callable[..., Any]) -> None:
        self.words = code.table()
        self._known, self._operands, self._memory = known, operands, [aligned(nbytes) for nbytes in memory.sizes]
        self._blocks = [self._memory[piece] for piece in memory.pieces]
        self._patches: list[list[int]] = []
        # The recording keeps kernels and its arrays' dtypes alive.
        self.words.alive = known, self._memory, operands, trailing, code, next_path
        results = zip(known.made.arrays, known.made.wrappers, strict=True)
        self._put_part(Head.OPERANDS, [self._operand(k, x) for k, x in operands.items()])
        self._put_part(Head.TRAILING, [[k, id(value)] for k, value in trailing.items()])
        self._put_part(Head.RESULTS, [self._result(x, wrapper) for x, wrapper in results])
        self._put_part(Head.KERNELS, [self._kernel(launch) for launch in known.launches])
        self._put_part(Head.PATCHES, self._patches)
        self._put_part(Head.RANGES, [[x.operand, x.count, x.low, max(x.high - x.low, 0), x.other]
                                     for x in known.ranges if x.checked])
        self._put_part(Head.ZEROS, [[self._address(place), (1 << 8 * nbytes) - 1] for place, nbytes in known.zeros])
        self.words[Head.IS_TUPLE] = known.made.is_tuple
        self.words[Head.DIVIDED] = any(launch.pieces > 1 for launch in known.launches)
        self.words[Head.ARGUMENTS] = max((*operands, *trailing)) + 1
        self.words[Head.NEXT_PATH] = id(_declined)

    def _put(self, values: Sequence[int]) -> int:
        """Write words; return their address."""
        self._memory.append(np.array([value & _MASK for value in values], np.uint64))
        return address_of(self._memory[-1])

    def _put_part(self, head: Head, records: Sequence[Sequence[int]]) -> None:
        """Write records; store their number and address in the head."""
        self.words[head] = len(records)
        self.words[head + 1] = self._put([word for record in records for word in record])

    def _operand(self, position: int, x: Array | None) -> list[int]:
        """Return the record of an operand."""
        return [position, 0, 0, 0] if x is None else [position, id(x.dtype), x.ndim, self._put([*x.shape, *x.strides])]

    def _result(self, x: Array, wrapper: WrapperLayout) -> list[int]:
        """Return the record of a result."""
        values = [value if x.ndim else value_0d for _, value, value_0d in wrapper.slots]
        return [id(x.dtype), x.ndim, self._put(x.shape), self._put(x.strides), x.nbytes, *map(id, values)]

    def _address(self, place: Place) -> int:
        """Return the address of a constant or block, and 0 for arrays of each call."""
        owners = {"constant": self._known.constants, "block": self._blocks}.get(place.kind)
        return 0 if owners is None else address_of(owners[place.number]) + place.offset

    def _kernel(self, launch: Launch) -> list[int]:
        """Return the record of a kernel; note those of the addresses that change with every call."""
        memory, first, places = launch.laid_out([self._address(place) for place in launch.places])
        self._memory.append(memory)
        # The numbers of results follow those of operands.
        numbers = {"operand": 0, "result": len(self._operands)}
        self._patches += [[address_of(memory) + 8 * k, numbers[place.kind] + place.number, place.offset]
                          for k, place in zip(places, launch.places, strict=True) if place.kind in numbers]
        return [launch.address, address_of(memory) + 8 * first, launch.count, launch.pieces]


def _recorded(function: Function, operands: Sequence[Array | None], plan: ReplayPlan) -> Any:
    """Record a function on operands.

    Return a ``Recording``; ``_OTHER_BRANCH`` if the function took another branch than other calls; None if launches
    alone do not make its results.
    """
    before = _bytes(operands)
    try:
        with np.errstate(all="ignore"):  # some contents are NaN or infinite
            made, recorder = record_launches(partial(function, *operands), wants_kernels=plan.wants_kernels,
                                             rounds_freely=plan.rounds_freely)
            if not all(zero for _, _, zero in recorder.zeros):
                return _OTHER_BRANCH
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
    owner = owner_of(x)
    return bool(span(x) == x.nbytes == owner.nbytes and address_of(x) == address_of(owner))
