"""Running a recorded graph: fused kernels on planned memory, and calls of all other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from tensocket_core.keys import DIM0, dtype_bit
from tensocket_operators.random.positions import from_positions, positions
from tensocket_plugins.contract.dtypes import uint8

from ..capture.recorder import Operation, Recording
from ..memory.plan import last_uses, plan_memory
from ..memory.regions import Array, Region, row_major
from ..passes.pipeline import run_passes
from ..schedule.dependencies import Dependencies, find_dependencies, may_raise
from ..schedule.groups import Group, plan_groups
from ..schedule.kernels import FusedKernel, KernelBuilder
from .ahead import compile_ahead
from .frames import Frame, Layout, allocator, arena, block, make_writable
from .steps import KernelStep, Step, call_step, compile_kernel, is_compiled
from .tapes import TapeBuilder, explain_call, launches_of, mapped, only_launches
from .tensors import tensor

NOTHING: Final[Mapping[int, Array]] = {}


@dataclass(slots=True)
class Statistics:
    """Figures of a compiled graph.

    Attributes:
        operations: Recorded operations.
        kernels: Fused kernels.
        calls: Operators that are called as in an eager program.
        tapes: Calls of the backend that launch all kernels between two calls of Python.
        python: Steps that run in Python.
        arena: Bytes of the arena.
        temporaries: Bytes of all temporaries that lie in it.
        staying: Bytes of results of calls that lie elsewhere and stay.
    """

    operations: int = 0
    kernels: int = 0
    calls: int = 0
    tapes: int = 0
    python: int = 0
    arena: int = 0
    temporaries: int = 0
    staying: int = 0


@dataclass(slots=True)
class Instance:
    """Memory for one run of a graph at a time, and the steps over it.

    Attributes:
        layout: The memory.
        steps: The steps, in order.
        returned: Returns the handles of results.
        streams: The stream of the last run on each device that has several.
    """

    layout: Layout
    steps: list[Step]
    returned: Callable[[Frame], list[Array]]
    streams: dict[Any, Any]

    def follow(self) -> None:
        """Let this thread's streams wait for the last run, whose queued work may still use the memory."""
        for state, last in self.streams.items():
            stream = state.stream
            if stream is not last:
                event = state.runtime.create_event()
                last.record(event)
                stream.wait(event)
                self.streams[state] = stream


class Runner:
    """A recorded graph that runs.

    Each run takes an instance and puts it back. Runs at the same time, in several threads or inside of each other,
    have instances of their own; all but the first one run without tapes.

    Args:
        recording: The operations and their memory.
        arguments: Regions of the arguments, each the only one of its buffer.
        results: Regions that each call returns in memory of their own.

    Raises:
        KernelsMissing: A thread compiles its kernels, because nobody waits for them; see ``ahead``.
    """

    def __init__(self, recording: Recording, arguments: Sequence[Region], results: Sequence[Region]) -> None:
        self.recording = recording
        self._operations = operations = run_passes(recording.operations, arguments, results)
        dependencies = dict(zip(operations, find_dependencies(operations), strict=True))
        self.groups = plan_groups(dependencies)
        self._results = list(results)
        stored = stored_regions(self.groups, dependencies, results)
        self.kernels: list[FusedKernel | None] = [
            None if group.call else KernelBuilder(group, dependencies, stored[group]).build() for group in self.groups]
        calls = sum(group.call for group in self.groups)
        self.statistics = Statistics(len(recording.operations), len(self.groups) - calls, calls)
        self._given = list(arguments)
        self._arguments = [region.buffer.number for region in arguments]
        makers = makers_of(operations)
        homes = [home_of(region, makers) for region in results]
        #: Devices that queue their work.
        self._queueing = [state for state in dict.fromkeys(
            [x.buffer.device for operation in operations for x in (*operation.reads, *operation.results)])
            if not state.runtime.profile.host_resident]
        #: Whether each result is all of its memory, so that a call may get the memory from its caller.
        self.whole = [home == region for home, region in zip(homes, results, strict=True)]
        self._fresh = [(region.buffer.number, allocator(region)) for region in homes]
        compile_ahead([partial(compile_kernel, group.device, kernel)
                       for group, kernel in zip(self.groups, self.kernels, strict=True)
                       if kernel is not None and not is_compiled(group.device, kernel)])
        self._first = self._instance()
        #: Instances that no run has taken, at most as many as there ever were runs at the same time.
        self._idle = [self._first]

    def _instance(self) -> Instance:
        """Return an instance with memory of its own."""
        layout = self._place(self._given, self._operations)
        returned = layout.reader([layout.number(region) for region in self._results])
        return Instance(layout, [
            call_step(layout, group.operations[0]) if kernel is None else KernelStep(layout, group.device, kernel)
            for group, kernel in zip(self.groups, self.kernels, strict=True)], returned,
            {state: state.stream for state in self._queueing})

    def _place(self, arguments: Sequence[Region], operations: Sequence[Operation]) -> Layout:
        """Decide where each buffer lies."""
        makers = makers_of(operations)
        homes = {region.buffer.number: region for region in arguments}
        homes |= {region.buffer.number: home_of(region, makers) for region in self._results}
        for group in self.groups:
            if group.call and not group.operations[0].operator.schema.is_mutable:
                for region in group.operations[0].results:
                    homes.setdefault(region.buffer.number, region)
        spans: list[list[int]] = []
        for group, kernel in zip(self.groups, self.kernels, strict=True):
            regions = [*group.operations[0].reads, *group.operations[0].results] if kernel is None else kernel.regions
            numbers = [x for operation in group.operations for x in operation.number_reads]
            spans.append([x.buffer.number for x in (*regions, *numbers)
                          if x.buffer.kind == "temporary" and x.buffer.number not in homes])
        lifetimes, buffers = last_uses(spans), self.recording.memory.buffers
        offsets, total = plan_memory(lifetimes, {k: buffers[k].nbytes for k in lifetimes})
        self.statistics.arena, self.statistics.temporaries = total, sum(buffers[k].nbytes for k in lifetimes)
        states = {buffers[number].device for number in offsets}
        arenas = {state: arena(state, total) for state in states}
        staying = {number: block(arenas[buffers[number].device], offset, buffers[number].nbytes)
                   for number, offset in offsets.items()}
        staying |= {buffer.number: buffer.array for buffer in buffers
                    if buffer.kind != "temporary" and buffer.number not in homes}
        return Layout(buffers, homes, staying)

    # ------------------------------------------------------------------------------------------------ calls

    def _frame(self, layout: Layout, arguments: Sequence[Array], given: Mapping[int, Array] = NOTHING) -> Frame:
        frame = layout.frame()
        memory = frame.memory
        for number, array in zip(self._arguments, arguments, strict=True):
            memory[number] = array
        for position, array in given.items():
            memory[self._fresh[position][0]] = array
        for number, allocate in self._fresh:
            if memory[number] is None:
                memory[number] = allocate()
        return frame

    def __call__(self, arguments: Sequence[Array], memory: Mapping[int, Array] = NOTHING) -> list[Array]:
        """Run the graph on the handles of arguments, and return the handles of results.

        Args:
            arguments: A handle for each argument.
            memory: Handles for results, by position, that the graph may write to; it allocates others.
        """
        idle = self._idle
        try:
            instance = idle.pop()
        except IndexError:  # other runs have taken all
            instance = self._instance()
        try:
            instance.follow()
            frame = self._frame(instance.layout, arguments, memory)
            for step in instance.steps:
                step(frame)
            return instance.returned(frame)
        finally:
            idle.append(instance)

    # ------------------------------------------------------------------------------------------------ tapes

    def assemble(self, arguments: Sequence[Array]) -> None:
        """Run the graph once, and turn steps that only launch kernels into tapes.

        Captured memory has its former contents afterwards.

        Args:
            arguments: Handles as of a call.
        """
        instance = self._first
        with self._restored(), from_positions(positions()):
            frame = self._frame(instance.layout, arguments)
            recorded = [self._record(group, kernel, step, frame)
                        for group, kernel, step in zip(self.groups, self.kernels, instance.steps, strict=True)]
        is_mapped = mapped(instance.layout, frame)
        found = [calls if calls is not None and is_mapped(calls) else None for calls in recorded]
        steps: list[Step] = []
        builder = TapeBuilder(instance.layout)
        for group, kernel, step, calls in zip(self.groups, self.kernels, instance.steps, found, strict=True):
            numbers = [x.buffer.number for operation in group.operations for x in operation.number_reads]
            if calls is None or not builder.fits(group.device, numbers):
                steps += builder.finish(frame)
            if calls is None:
                steps.append(step)
                self.statistics.python += 1
            else:
                written = [x.buffer.number for operation in group.operations for x in operation.writes]
                symbolic, scalars = ((), 0) if kernel is None else (kernel.numbers, len(kernel.scalars))
                builder.add(group.device, calls, written, symbolic, scalars)
        instance.steps = [*steps, *builder.finish(frame)]
        self.statistics.tapes = len(instance.steps) - self.statistics.python

    def _record(self, group: Group, kernel: FusedKernel | None, step: Step, frame: Frame) -> Any:
        """Run a step and return its launches; None if it did more than launch kernels."""
        operation, layout = group.operations[0], self._first.layout
        # Numbers are read before the launches are noted; each run of a tape reads them again.
        trial = step.launcher(frame) if isinstance(step, KernelStep) else call_step(layout, operation, composes=True)
        launches = kernel is not None or (only_launches(operation.operator) and not operation.symbolic
                                          and not may_raise(operation)
                                          and all(x.distinct for x in operation.writes))
        recorder = launches_of(trial, frame) if launches else None
        if recorder is None:
            step(frame)
            return None
        for region in operation.results:
            make_writable(frame.memory[region.buffer.number])
        if kernel is None:
            if not explain_call(layout, operation, recorder, frame):
                return None
            if not operation.operator.schema.is_mutable:
                for region in operation.results:
                    if all(x.buffer is not region.buffer for x in self._results):
                        layout.settle(region, frame.memory[region.buffer.number])
                        self.statistics.staying += region.buffer.nbytes
        return recorder.calls

    @contextmanager
    def _restored(self) -> Iterator[None]:
        """Restore the contents of captured memory that the graph writes."""
        buffers = {region.buffer.number: region.buffer for operation in self.recording.operations
                   for region in operation.writes if region.buffer.kind == "input"}
        whole = [whole_tensor(buffer.array, buffer.device) for buffer in buffers.values()]
        saved = [x.clone() for x in whole]
        try:
            yield
        finally:
            for x, contents in zip(whole, saved, strict=True):
                x.copy_(contents)


def whole_tensor(memory: Array, state: Any) -> Any:
    """Return all of a buffer's memory as a tensor; host memory as bytes."""
    if type(memory) is not np.ndarray:
        return tensor(memory, state.key | dtype_bit(memory.dtype) | (0 if memory.shape else DIM0))
    flat = np.ndarray((memory.nbytes,), np.uint8, row_major(memory))
    return tensor(flat, state.key | dtype_bit(uint8))


def home_of(result: Region, makers: Mapping[int, Operation]) -> Region:
    """Return the region that the memory of a result is allocated as: all that its maker writes, if this is more."""
    if result.dense and math.prod(result.shape) * result.dtype.itemsize == result.buffer.nbytes:
        return result
    made = makers[result.buffer.number].results
    return next(x for x in made if x.buffer is result.buffer)


def makers_of(operations: Sequence[Operation]) -> dict[int, Operation]:
    """Return the first operation that makes each buffer."""
    found: dict[int, Operation] = {}
    for operation in operations:
        for region in operation.results:
            found.setdefault(region.buffer.number, operation)
    return found


def stored_regions(groups: Sequence[Group], dependencies: Mapping[Operation, Dependencies],
                   results: Sequence[Region]) -> dict[Group, list[Region]]:
    """Return the regions that each group must write: results, captured memory, and those that other groups read."""
    home = {operation: group for group in groups for operation in group.operations}
    needed: set[tuple[Operation, int]] = set()
    for operation, depends in dependencies.items():
        for source in depends.sources:
            if source is not None and home[source.operation] is not home[operation]:
                needed.add((source.operation, source.operation.results.index(source.region)))
        whole = {source.operation for source in depends.sources if source is not None}
        needed |= {(x, k) for x in depends.reads if x not in whole for k in range(len(x.results))}
    kept = {region.buffer.number for region in results}
    return {group: list(dict.fromkeys([
        region for operation in group.operations for k, region in enumerate(operation.results)
        if (operation, k) in needed or region.buffer.kind != "temporary" or region.buffer.number in kept]))
        for group in groups}
