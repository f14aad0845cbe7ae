"""Tapes of a graph: steps that only launch kernels run as one call of the backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tensocket_core.geometry import element_strides, memory_of, memory_offset
from tensocket_core.launch.stream_use import note_use
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.normalized_row import RowOperator
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction
from tensocket_operators.kinds.row import SoftmaxLike
from tensocket_operators.linalg.kind import MatMul
from tensocket_plugins.contract.launch_recorder import (
    Call,
    LaunchRecorder,
    ReplayForbiddenError,
    record_launches,
)
from tensocket_plugins.contract.plans import TapePlan
from tensocket_plugins.kit.plans import compile_tape

from ..capture.numbers import SymFloat
from ..capture.recorder import Operation
from ..memory.regions import Array, Region
from .frames import Frame, Layout
from .steps import Step, numbers_reader


def launches_of(step: Step, frame: Frame) -> LaunchRecorder | None:
    """Run a step; return the recorder of its launches, or None if it wanted to do more than launch kernels."""
    try:
        _, recorder = record_launches(lambda: step(frame), wants_kernels=True)
    except (ReplayForbiddenError, ValueError):  # arrays that kernels alone may write are read-only for NumPy
        return None
    return recorder


#: Operators that do nothing but launch kernels, besides those that declare it.
_LAUNCHING: Final = frozenset({"clone", "contiguous_copy", "convert", "copy_", "gather_valid", "scatter_valid",
                               "embed_index"})


def only_launches(operator: Any) -> bool:
    """Whether an operator declares that its calls only launch kernels, which follow from layouts and arguments."""
    return isinstance(operator, (Pointwise, InPlace, Reduction, RowOperator, SoftmaxLike, MatMul)) or (
        operator.name in _LAUNCHING or getattr(operator, "replayable", False))


def explain_call(layout: Layout, operation: Operation, recorder: LaunchRecorder, frame: Frame) -> bool:
    """Whether the launches of a call alone make its results.

    They read operands, declared constants, and memory that an earlier launch of the call wrote; they write results,
    the operand that the operator modifies, and memory of their own.
    """
    if not recorder.whole or recorder.zeros or any(x.checked for x in recorder.ranges):
        return False
    reads = [frame.handle(layout.number(region)) for region in operation.reads]
    mutable = operation.operator.schema.is_mutable
    writes = [frame.handle(layout.number(region)) for region in operation.writes] if mutable else []
    made = [] if mutable else [frame.memory[region.buffer.number] for region in operation.results]
    operands = {_memory(x) for x in (*reads, *recorder.constants)}
    writable = {_memory(x) for x in writes}
    written: set[int] = set()
    read: set[int] = set()
    for call in recorder.calls:
        for array, writes_it in zip(call.arrays, call.written, strict=True):
            place = _memory(array)
            if writes_it:
                if place in operands and place not in writable:
                    return False
                written.add(place)
            elif place not in operands and place not in written:
                return False
            else:
                read.add(place)
    if not {_memory(x) for x in reads} <= read | written:
        return False  # something read an operand, and no launch says so
    if not all(_memory(x) in written for x in (*made, *writes)):
        return False
    regions = [*zip(operation.reads, reads, strict=True), *zip(operation.results, made, strict=False)]
    changing = {_memory(array): (region, array) for region, array in regions if layout.changes(region)}
    return all(_adopt(layout, frame, *changing[_memory(x)], x) for call in recorder.calls for x in call.arrays
               if _memory(x) in changing)


def _adopt(layout: Layout, frame: Frame, region: Region, whole: Array, array: Array) -> bool:
    """Let an array of a launch be a region of memory that changes, so that later calls launch on their own.

    Args:
        layout: The memory.
        frame: The memory of this call.
        region: A region of the same buffer.
        whole: Its array.
        array: The array of the launch.

    Returns:
        Whether the array is one.
    """
    if id(array) in frame.aliases or any(array is frame.handles[k] for k in layout.regions_like(region)):
        return True
    if array.dtype != whole.dtype:
        return False
    offset = region.offset + (memory_offset(array) - memory_offset(whole)) * region.dtype.itemsize
    number = layout.number(Region(region.buffer, offset, tuple(array.shape), element_strides(array), region.dtype))
    frame.handles += [None] * (number + 1 - len(frame.handles))
    frame.aliases[id(array)] = array, number
    return True


def _memory(array: Array) -> int:
    return id(memory_of(array))


def mapped(layout: Layout, frame: Frame) -> Callable[[Sequence[Call]], bool]:
    """Return a function that tells whether each array of launches that lies in changing memory is a region's handle.

    Args:
        layout: The memory.
        frame: The memory of a call that ran all steps.
    """
    changing = {_memory(array) for number, array in enumerate(frame.handles)
                if array is not None and layout.changes(layout.region(number))}
    handles = {id(array) for array in frame.handles} | frame.aliases.keys()
    return lambda calls: all(id(x) in handles or _memory(x) not in changing for call in calls for x in call.arrays)


class TapeBuilder:
    """Builder of the tapes of a graph, from consecutive steps on one device.

    Args:
        layout: The memory.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._state: Any = None
        self._calls: list[Call] = []
        #: Launches and positions of each symbolic number, by its expression.
        self._numbers: dict[Any, list[tuple[int, int]]] = {}
        self._written: set[int] = set()

    def add(self, state: Any, calls: Sequence[Call], written: Iterable[int],
            numbers: Sequence[SymFloat | float] = (), scalars: int = 0) -> None:
        """Add the launches of a step.

        Args:
            state: The device.
            calls: The launches.
            written: Buffers that they write.
            numbers: The step's numbers, of which each run reads the symbolic ones again.
            scalars: The number of scalars before these.
        """
        self._state = state
        self._written.update(written)
        for k, number in enumerate(numbers):
            if isinstance(number, SymFloat):
                self._numbers.setdefault(number.expression, []).extend(
                    [(len(self._calls) + call, scalars + k) for call in range(len(calls))])
        self._calls += calls

    def fits(self, state: Any, numbers: Iterable[int]) -> bool:
        """Whether a step may join the current tape, before which numbers are read from elements of buffers."""
        return not self._calls or (state is self._state and self._written.isdisjoint(numbers))

    def finish(self, frame: Frame) -> list[Step]:
        """Return the tape of the steps so far, and begin a new one."""
        if not self._calls:
            return []
        layout, state = self._layout, self._state
        read_numbers = numbers_reader(layout, self._numbers)
        used = {id(array) for call in self._calls for array in call.arrays}
        known = [*enumerate(frame.handles), *[(number, array) for array, number in frame.aliases.values()]]
        moving = [(number, handle) for number, handle in known
                  if handle is not None and id(handle) in used and layout.changes(layout.region(number))]
        run = compile_tape(state.runtime, TapePlan(tuple(self._calls), tuple([x for _, x in moving]),
                                                   tuple(map(tuple, self._numbers.values()))))
        read_arrays = layout.reader([number for number, _ in moving])
        self._calls, self._numbers, self._written = [], {}, set()
        resident = state.runtime.profile.host_resident

        def step(frame: Frame) -> None:
            arrays = read_arrays(frame)
            stream = state.stream
            if not resident:
                note_use(arrays, stream)
            run(arrays, read_numbers(frame), stream)

        return [step]
