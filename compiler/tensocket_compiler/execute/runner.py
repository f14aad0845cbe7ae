"""Running a recorded graph: fused kernels on planned memory, and calls of all other operators.

Memory of the run is of four kinds. Captured memory was there before the run and belongs to tensors that every call
uses. Memory of arguments and of results changes from call to call. Temporaries lie in one arena, or belong to the
operator that a call step makes them with. Handles of memory that stays are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensocket_core.dispatch.modes import thread_state
from tensocket_core.geometry import as_strided
from tensocket_core.keys import AUTOGRAD, DIM0, dtype_bit
from tensocket_core.launch.kernel_handles import kernel_handle
from tensocket_core.launch.programs import program
from tensocket_core.launch.stream_use import note_use
from tensocket_core.strides import empty_strided_array
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.ir.text import format_program

from ..capture.numbers import SymFloat, evaluate
from ..capture.recorder import Operation, Recording
from ..memory.plan import last_uses, plan_memory
from ..memory.regions import Array, Buffer, Region, regions_of
from ..passes.copies import remove_copies
from ..schedule.dependencies import find_dependencies
from ..schedule.groups import Group, plan_groups
from ..schedule.kernels import FusedKernel, KernelBuilder

_new = object.__new__
Step = Callable[["Frame"], None]


class Frame:
    """The memory of one call.

    Attributes:
        memory: A handle for each buffer, by number; the region of the handle is ``homes`` of the runner.
    """

    __slots__ = ("memory",)

    def __init__(self, memory: list[Any]) -> None:
        self.memory = memory


@dataclass(slots=True)
class Statistics:
    """Figures of a compiled graph.

    Attributes:
        operations: Recorded operations.
        kernels: Fused kernels.
        calls: Operators that run as they do eagerly.
        arena: Bytes of the arena.
        temporaries: Bytes of all temporaries that lie in it.
    """

    operations: int = 0
    kernels: int = 0
    calls: int = 0
    arena: int = 0
    temporaries: int = 0


class Runner:
    """A recorded graph that runs.

    Args:
        recording: The operations and their memory.
        arguments: Regions of the arguments, each the only one of its buffer.
        results: Regions that each call returns new tensors for, in memory of their own.
    """

    def __init__(self, recording: Recording, arguments: Sequence[Region], results: Sequence[Region]) -> None:
        self.recording = recording
        self.arguments, self.results = list(arguments), list(results)
        operations = remove_copies(recording.operations)
        dependencies = dict(zip(operations, find_dependencies(operations), strict=True))
        self.groups = [group for group in plan_groups(operations) if group.operations]
        self.statistics = Statistics(len(recording.operations))
        stored = _stored(self.groups, dependencies, self.results)
        self._homes: list[Region | None] = [None] * len(recording.memory.buffers)
        self._memory: list[Array | None] = [None] * len(recording.memory.buffers)
        self._changing: set[int] = set()
        self.kernels: list[FusedKernel | None] = [
            None if group.call else KernelBuilder(group, dependencies, stored[group]).build()
            for group in self.groups]
        self._place()
        self._steps = [self._step(group, kernel) for group, kernel in zip(self.groups, self.kernels, strict=True)]

    # ------------------------------------------------------------------------------------------------ memory

    def _place(self) -> None:
        """Decide where each buffer lies."""
        made = [region for group in self.groups if group.call for operation in group.operations
                if not operation.operator.schema.is_mutable for region in operation.results]
        for region in (*self.arguments, *self.results, *made):
            self._homes[region.buffer.number] = region
            self._changing.add(region.buffer.number)
        spans: list[list[int]] = []
        for group, kernel in zip(self.groups, self.kernels, strict=True):
            regions = group_regions(group) if kernel is None else kernel.regions
            spans.append([x.buffer.number for x in regions if x.buffer.kind == "temporary"
                          and x.buffer.number not in self._changing])
        lifetimes = last_uses(spans)
        buffers = self.recording.memory.buffers
        offsets, total = plan_memory(lifetimes, {k: buffers[k].nbytes for k in lifetimes})
        self.statistics.arena = total
        self.statistics.temporaries = sum(buffers[k].nbytes for k in lifetimes)
        states = {operation.device for group in self.groups for operation in group.operations}
        arenas = {state: _arena(state, total) for state in states} if total else {}
        device = {region.buffer.number: operation.device for group in self.groups for operation in group.operations
                  for region in operation.results}
        for buffer in buffers:
            if buffer.number in offsets:
                self._memory[buffer.number] = _block(arenas[device[buffer.number]], offsets[buffer.number],
                                                     buffer.nbytes)
            elif buffer.number not in self._changing:
                self._memory[buffer.number] = buffer.array

    def handle(self, region: Region, frame: Frame) -> Array:
        """Return the handle of a region in a call's memory."""
        memory, home = frame.memory[region.buffer.number], self._homes[region.buffer.number]
        if home is None:
            return region.array(memory)
        if home == region:
            return memory
        if region.dtype is not home.dtype:
            whole = Region(region.buffer, region.offset - home.offset, region.shape, region.strides, region.dtype)
            return whole.array(memory)
        return as_strided(memory, region.shape, region.strides, (region.offset - home.offset) // home.dtype.itemsize)

    def _reader(self, region: Region) -> Callable[[Frame], Array]:
        """Return a function from a call's memory to the handle of a region; memory that stays has one handle."""
        if region.buffer.number in self._changing:
            if self._homes[region.buffer.number] == region:
                number = region.buffer.number
                return lambda frame: frame.memory[number]
            return lambda frame: self.handle(region, frame)
        fixed = self.handle(region, Frame(self._memory))
        return lambda frame: fixed

    # ------------------------------------------------------------------------------------------------ steps

    def _step(self, group: Group, kernel: FusedKernel | None) -> Step:
        if kernel is None:
            self.statistics.calls += 1
            return self._call_step(group.operations[0])
        self.statistics.kernels += 1
        return self._kernel_step(group, kernel)

    def _kernel_step(self, group: Group, kernel: FusedKernel) -> Step:
        state: Any = group.device
        run = program(state, ("graph", format_program(kernel.program)), lambda: kernel.program, kernel.strategy)
        readers = [self._reader(region) for region in kernel.regions]
        dtypes = [region.dtype for region in kernel.regions]
        scalars, numbers = kernel.scalars, kernel.numbers
        moving = any(region.buffer.number in self._changing for region in kernel.regions)
        fixed = None if moving else [kernel_handle(r(Frame(self._memory)), d)
                                     for r, d in zip(readers, dtypes, strict=True)]

        def step(frame: Frame) -> None:
            buffers = fixed or [kernel_handle(read(frame), dtype) for read, dtype in zip(readers, dtypes, strict=True)]
            stream = state.stream
            if not state.runtime.profile.host_resident:
                note_use(buffers, stream)
            given = (*scalars, *[self.number(x, frame) for x in numbers]) if numbers else scalars
            run(buffers, given, stream)

        return step

    def number(self, number: SymFloat, frame: Frame) -> float:
        """Return the value of a symbolic number in a call."""
        return evaluate(number.expression, lambda region: self.read(region, frame))

    def read(self, region: Region, frame: Frame) -> float:
        """Return the element of a region without dimensions."""
        array = self.handle(region, frame)
        if type(array) is np.ndarray:
            return float(array)
        return float(wrap(array, 0).item())

    def _call_step(self, operation: Operation) -> Step:
        operator, state = operation.operator, operation.device
        mutates = operator.schema.is_mutable
        tensors = [(region, self._reader(region), _key(state, region)) for region in operation.reads]
        results = [region.buffer.number for region in operation.results]

        def step(frame: Frame) -> None:
            made = {id(region): _tensor(read(frame), key) for region, read, key in tensors}
            args = self._given(operation.args, made, frame)
            keywords = self._given(operation.keywords, made, frame)
            with thread_state(exclude=AUTOGRAD):
                found = operator(*args, **keywords)
            if not mutates:
                for number, x in zip(results, found if isinstance(found, (tuple, list)) else (found,), strict=True):
                    frame.memory[number] = x._array

        return step

    def _given(self, value: Any, made: Mapping[int, Any], frame: Frame) -> Any:
        if isinstance(value, Region):
            return made[id(value)]
        if type(value) is SymFloat:
            return self.number(value, frame)
        if isinstance(value, dict):
            return {name: self._given(x, made, frame) for name, x in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self._given(x, made, frame) for x in value])
        return value

    # ------------------------------------------------------------------------------------------------ calls

    def __call__(self, arguments: Sequence[Array], captured: Mapping[Buffer, Array] | None = None) -> list[Array]:
        """Run the graph on the handles of arguments, and return the handles of results.

        Args:
            arguments: One for each region of ``arguments``.
            captured: Other memory in place of captured memory, for trials.
        """
        memory: list[Any] = list(self._memory)
        for region, array in zip(self.arguments, arguments, strict=True):
            memory[region.buffer.number] = array
        for region in self.results:
            if memory[region.buffer.number] is None:
                memory[region.buffer.number] = self._new(region)
        frame = Frame(memory)
        for step in self._steps:
            step(frame)
        return [self.handle(region, frame) for region in self.results]

    def _new(self, region: Region) -> Array:
        state = next(operation.device for operation in self.recording.operations
                     if any(x.buffer is region.buffer for x in operation.results))
        if region.strides == contiguous_strides(region.shape):
            return state.runtime.empty(region.shape, region.dtype, state.stream)
        return empty_strided_array(state, region.shape, region.dtype, region.strides)


def _key(state: Any, region: Region) -> int:
    return int(state.key | dtype_bit(region.dtype) | (0 if region.shape else DIM0))


def _tensor(array: Array, key: int) -> Any:
    tensor = _new(Tensor)
    tensor._array, tensor._key = array, key
    tensor._grad = tensor._grad_fn = tensor._version_counter = tensor._base = None
    return tensor


def _arena(state: Any, nbytes: int) -> Array:
    from tensocket_plugins.contract.dtypes import uint8

    return state.runtime.empty((nbytes,), uint8, state.stream)


def _block(arena: Array, offset: int, nbytes: int) -> Array:
    """Return a part of an arena."""
    if type(arena) is np.ndarray:
        return arena[offset: offset + nbytes]
    return as_strided(arena, (nbytes,), (1,), offset)


def group_regions(group: Group) -> list[Region]:
    """Return the regions that a call reads and makes."""
    return [x for operation in group.operations for x in (*operation.reads, *regions_of(list(operation.results)))]


def _stored(groups: Sequence[Group], dependencies: Mapping[Operation, Any], results: Sequence[Region]
            ) -> dict[Group, list[Region]]:
    """Return the regions that each group must write: results, captured memory, and what other groups read."""
    home = {operation: group for group in groups for operation in group.operations}
    needed: set[tuple[Operation, int]] = set()
    for operation, depends in dependencies.items():
        for source in depends.sources:
            if source is not None and home[source.operation] is not home[operation]:
                needed.add((source.operation, source.operation.results.index(source.region)))
        partial = {x for x in depends.reads if x not in {s.operation for s in depends.sources if s is not None}}
        needed |= {(x, k) for x in partial for k in range(len(x.results))}
    kept = {region.buffer.number for region in results}
    found: dict[Group, list[Region]] = {}
    for group in groups:
        regions = [region for operation in group.operations for k, region in enumerate(operation.results)
                   if (operation, k) in needed or region.buffer.kind != "temporary" or region.buffer.number in kept]
        found[group] = list(dict.fromkeys(regions))
    return found
