"""Generic implementations of plans, for devices that have none of their own.

A list of calls is one launch after the other. A replay is a list of launches with the buffers of the new call: it skips
the path from the operator to its kernels (checks, broadcasting, strides, geometry), and adds only comparisons of
layouts. It does not depend on contents: each array that a launch reads is an operand, a declared constant or memory
that an earlier launch wrote, and every copy, library call and test of a value ends the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ..contract.arrays import Array, DeviceArray, contiguous_strides
from ..contract.backend import Executable, OpenDevice, Stream
from ..contract.dtypes import DType
from ..contract.launch_recorder import Call, ReplayForbiddenError, record_launches
from ..contract.plans import ListPlan, ProgramPlan, RecordedCall, ReplayPlan, TapePlan, WrapperLayout

if TYPE_CHECKING:
    from ..ir.nodes import Program

#: A program for many sets of arguments: ``run(buffers, scalars, stream)``, with a column for each parameter.
ListExecutable = Callable[[Sequence[Sequence[Array]], Sequence[Iterable[int | float]], Stream], None]
#: The most launches of a replayed call.
_LAUNCHES: Final = 16
_Layout: TypeAlias = tuple[tuple[int, ...], DType, tuple[int, ...] | None]


def compile_list(device: OpenDevice, program: Program) -> ListExecutable:
    """Return a scheduled program as a function over columns of arguments; see ``ListPlan``.

    Raises:
        KernelError: The backend failed to compile it.
    """
    return device.compile_plan(ListPlan(program), _unreached) or launch_each(device.compile_ir(program))


def compile_program(device: OpenDevice, plan: ProgramPlan) -> Executable:
    """Return a program that the device may have stored as a function; see ``ProgramPlan``.

    Raises:
        KernelError: The backend failed to compile it.
    """
    return device.compile_plan(plan, _unreached) or device.compile_ir(plan.schedule())


def launch_each(run: Executable) -> ListExecutable:
    """Return a function over columns of arguments that launches an executable once for each set."""

    def run_all(buffers: Sequence[Sequence[Array]], scalars: Sequence[Iterable[int | float]], stream: Stream) -> None:
        for arrays, numbers in zip(zip(*buffers, strict=True), zip(*scalars, strict=True) if scalars else repeat(()),
                                   strict=False):
            run(arrays, numbers, stream)

    return run_all


TapeExecutable = Callable[[Sequence[Array], Sequence[int | float], Stream], None]


def compile_tape(device: OpenDevice, plan: TapePlan) -> TapeExecutable:
    """Return noted launches as one function; see ``TapePlan``.

    Raises:
        KernelError: The backend failed to compile it.
    """
    return device.compile_plan(plan, _unreached) or launch_tape(plan)


def launch_tape(plan: TapePlan) -> TapeExecutable:
    """Return a function that makes the launches of a tape one by one.

    Executables of the device call ``note_launch(run, buffers, written, tuple(scalars))``.
    """
    places = {id(x): k for k, x in enumerate(plan.changing)}
    patched: dict[int, list[tuple[int, int]]] = {}
    for number, places_of in enumerate(plan.numbers):
        for call, position in places_of:
            patched.setdefault(call, []).append((position, number))
    steps = [(call.kernel, call.arrays, [(k, places[id(x)]) for k, x in enumerate(call.arrays) if id(x) in places],
              call.arguments, patched.get(n, ())) for n, call in enumerate(plan.calls)]

    def run(arrays: Sequence[Array], numbers: Sequence[int | float], stream: Stream) -> None:
        for kernel, fixed, moving, scalars, given in steps:
            buffers: Sequence[Array] = fixed
            if moving:
                buffers = list(fixed)
                for k, place in moving:
                    buffers[k] = arrays[place]
            if given:
                scalars = list(scalars)
                for position, number in given:
                    scalars[position] = numbers[number]
            kernel(buffers, scalars, stream)

    return run


def _unreached(*args: Any) -> None:
    raise AssertionError("a list serves every call")


# ------------------------------------------------------------------------------------------------------------ replays

@dataclass(frozen=True, slots=True)
class _Slot:
    """An array of a launch, by the memory that it belongs to.

    Attributes:
        kind: ``operand``, ``made`` (a result or memory between launches) or ``constant``.
        number: Its number among the arrays of that kind.
        shift: Elements from the operand's first element, or from the beginning of other memory, to the array.
        dtype: Element type.
        shape: Sizes.
        strides: Strides in elements.
        constant: The array itself, if it is a constant.
        whole: Whether offset, dtype and layout are those of the operand, or of the made array, itself.
    """

    kind: Literal["operand", "made", "constant"]
    number: int
    shift: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    constant: DeviceArray | None = None
    whole: bool = False

    def array(self, operands: Sequence[DeviceArray | None], made: Sequence[DeviceArray]) -> DeviceArray:
        """Return the array in the memory of a new call."""
        if self.constant is not None:
            return self.constant
        owner: Any = operands[self.number] if self.kind == "operand" else made[self.number]
        if self.whole:
            return owner  # type: ignore[no-any-return]
        return DeviceArray(owner.storage, self.dtype, self.shape, self.strides, owner.offset + self.shift)


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch of a recording: ``kernel(arrays, scalars, stream)``."""

    kernel: Executable
    slots: tuple[_Slot, ...]
    scalars: tuple[int | float, ...]


class _RecordingRefused(Exception):
    """Raised if launches alone do not make the results."""


def compile_replay(device: OpenDevice, plan: ReplayPlan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Record the launches of a plan, and return a function that replays them.

    Executables of the device call ``note_launch(run, buffers, written, tuple(scalars))``.

    Args:
        device: The device, whose arrays are ``DeviceArray``.
        plan: The call.
        next_path: Serves operands of other layouts.

    Returns:
        The function; None if launches alone do not make the results.
    """
    try:
        call, recorder = record_launches(partial(plan.function, *plan.operands.values()),
                                         wants_kernels=plan.wants_kernels, rounds_freely=plan.rounds_freely)
    except ReplayForbiddenError:
        return None
    if call is None or not recorder.whole or recorder.zeros or any(x.checked for x in recorder.ranges) or not (
            0 < len(recorder.calls) <= _LAUNCHES):
        return None
    try:
        memory = _Memory(list(plan.operands.values()), call.arrays, recorder.constants)
        launches = [memory.launch(item) for item in recorder.calls]
        memory.check_results()
    except _RecordingRefused:
        return None
    return _replaying(device.empty, plan, call, memory.layouts(), launches, next_path)


class _Memory:
    """The memory of a recorded call: operands, constants, results, and any other memory that launches wrote."""

    def __init__(self, operands: Sequence[DeviceArray | None], results: Sequence[DeviceArray],
                 constants: Sequence[DeviceArray]) -> None:
        self._owners: dict[int, tuple[Literal["operand", "made", "constant"], int, DeviceArray]] = {}
        self._results = len(results)
        self._made = list(results)
        self._written: set[int] = set()
        for number, x in enumerate(operands):
            if x is not None:
                self._own("operand", number, x)
        for number, x in enumerate(results):
            if x.offset or x.storage.nbytes != x.nbytes:
                raise _RecordingRefused
            self._own("made", number, x)
        for number, x in enumerate(constants):
            if id(x.storage) not in self._owners:
                self._own("constant", number, x)

    def _own(self, kind: Literal["operand", "made", "constant"], number: int, array: DeviceArray) -> None:
        if id(array.storage) in self._owners:  # a launch could mean either of two arrays that share memory
            raise _RecordingRefused
        self._owners[id(array.storage)] = kind, number, array

    def launch(self, call: Call) -> _Launch:
        """Explain a launch: it reads operands, constants and written memory, and writes only to new memory."""
        slots = tuple(map(self._slot, call.arrays))
        for slot, writes in zip(slots, call.written, strict=True):
            if (writes and slot.kind != "made") or (
                    not writes and slot.kind == "made" and slot.number not in self._written):
                raise _RecordingRefused
        self._written |= {slot.number for slot, writes in zip(slots, call.written, strict=True) if writes}
        return _Launch(call.kernel, slots, call.arguments)

    def _slot(self, x: DeviceArray) -> _Slot:
        if id(x.storage) not in self._owners:
            block = DeviceArray(x.storage, x.dtype, (x.storage.nbytes // x.dtype.itemsize,), (1,), 0)
            self._own("made", len(self._made), block)
            self._made.append(block)
        kind, number, owner = self._owners[id(x.storage)]
        if kind == "operand" and x.dtype is not owner.dtype:  # offsets count elements of one dtype
            raise _RecordingRefused
        shift = x.offset - owner.offset if kind == "operand" else x.offset
        whole = bool(not shift and (x.dtype, x.shape, x.strides) == (owner.dtype, owner.shape, owner.strides))
        return _Slot(kind, number, shift, x.dtype, x.shape, x.strides, x if kind == "constant" else None, whole)

    def check_results(self) -> None:
        """Refuse results that no launch wrote."""
        if not self._written.issuperset(range(self._results)):
            raise _RecordingRefused

    def layouts(self) -> list[_Layout]:
        """Return shape, dtype and strides (None: row-major) of the arrays that a call makes, its results first."""
        return [(x.shape, x.dtype, None if x.strides == contiguous_strides(x.shape) else x.strides)
                for x in self._made]


def _replaying(empty: Callable[..., DeviceArray], plan: ReplayPlan, call: RecordedCall,
               layouts: Sequence[_Layout], launches: Sequence[_Launch],
               next_path: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that replays launches; of the recorded call's memory, it holds only constants."""
    kind, open_array = call.wrappers[0].kind, attrgetter(call.wrappers[0].array)
    wanted = [(k, None if x is None else (x.dtype, x.shape, x.strides)) for k, x in plan.operands.items()]
    trailing, stream_for, is_tuple = list(plan.trailing.items()), plan.stream, call.is_tuple
    count = len(wanted) + len(trailing)
    constants = [slot.constant for launch in launches for slot in launch.slots if slot.constant is not None]
    wraps = [_wrapper(layout) for layout in call.wrappers]

    def replay(*args: Any) -> Any:
        if len(args) != count or any(args[k] is not value for k, value in trailing):
            return next_path(*args)
        operands: list[Any] = []
        for k, layout in wanted:
            x = args[k]
            array = open_array(x) if isinstance(x, kind) else None
            if layout is None:
                fits = x is None
            else:
                fits = type(array) is DeviceArray and (array.dtype, array.shape, array.strides) == layout
            if not fits:
                return next_path(*args)
            operands.append(array)
        stream = stream_for([*[x for x in operands if x is not None], *constants])
        made: list[DeviceArray] = []
        for shape, dtype, strides in layouts:
            made.append(empty(shape, dtype, stream))
            if strides is not None:
                made[-1].strides = strides
        for launch in launches:
            launch.kernel([slot.array(operands, made) for slot in launch.slots], launch.scalars, stream)
        results = tuple([wrap(array) for wrap, array in zip(wraps, made, strict=False)])
        return results if is_tuple else results[0]

    return replay


def _wrapper(layout: WrapperLayout) -> Callable[[DeviceArray], Any]:
    """Return a function that makes the object around a result."""
    kind, name, slots = layout.kind, layout.array, layout.slots

    def wrap(array: DeviceArray) -> Any:
        made: Any = object.__new__(kind)
        setattr(made, name, array)
        for slot, value, value_0d in slots:
            setattr(made, slot, value if array.shape else value_0d)
        return made

    return wrap
