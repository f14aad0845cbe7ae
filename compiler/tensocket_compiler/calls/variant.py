"""A variant of a compiled function: one graph, and everything under which it stands for the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..capture.arguments import ArgumentGuard
from ..capture.guards import Change, Guards
from ..capture.object_words import TensorPart
from ..capture.recorder import CannotRecord, Range, Recorder, Recording
from ..execute.runner import Runner
from ..memory.regions import Region
from .effects import Slot, captured_reads, find_slots
from .results import Results


class Miss(Exception):  # not an error of the program
    """Raised by a variant that does not fit a call; its text says what differs."""


class Variant:
    """One graph of a function.

    Attributes:
        guards: What Python may have read.
        runner: The graph.
        hits: The calls that it served.
    """

    def __init__(self, guards: Guards, arguments: ArgumentGuard, runner: Runner, results: Results,
                 effects: Sequence[Any], recording: Recording, inputs: Sequence[Region],
                 versions: Sequence[tuple[Any, int]]) -> None:
        self.guards, self.arguments, self.runner, self.recording = guards, arguments, runner, recording
        self.hits = 0
        self._results, self._versions = results, versions
        self._slots = [x for x in effects if isinstance(x, Slot)]
        self._assigns = [x for x in effects if not isinstance(x, Slot)]
        self._ranges = [self._range(x, inputs) for x in recording.ranges]
        self._relations = recording.notes.relations

    @staticmethod
    def _range(known: Range, inputs: Sequence[Region]) -> tuple[Range, int]:
        """Return a range with the number of the argument that it is of, or -1."""
        return known, next((k for k, x in enumerate(inputs) if x.buffer is known.region.buffer), -1)

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        """Return the tensor arguments of a call that this variant may serve; None for others."""
        tensors = self.arguments.matches(args, kwargs)
        if tensors is None or not (self.guards.check() or self.guards.changed() is None):
            return None
        for known, position in self._ranges:
            region = known.region
            array = region.array(region.buffer.array) if position < 0 else _of_argument(region, tensors[position])
            if not _inside(array, known):
                return None
        return tensors if all(x.holds(_element) for x in self._relations) else None

    def why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
        """Return the first difference between a call and the captured one."""
        return self.arguments.why(args, kwargs) or self.guards.changed()

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Run the graph on the tensor arguments of a call that fits; return the function's result."""
        self.hits += 1
        memory: dict[int, Any] = {}
        for slot in self._slots:
            held = slot.memory()
            if held is not None:
                memory[slot.position] = held
        arrays = self.runner([x._array for x in tensors], memory)
        for counter, increase in self._versions:
            counter[0] += increase
        for slot in self._slots:
            slot.assign(arrays, slot.position in memory)
        for assign in self._assigns:
            assign()
        return self._results(tensors, arrays)


def _of_argument(region: Region, tensor: Any) -> Any:
    return tensor._array


def _element(region: Region) -> float:
    return float(region.array(region.buffer.array))


def _inside(array: Any, known: Range) -> bool:
    """Whether all integers lie in a range."""
    values = array if isinstance(array, np.ndarray) else None
    if values is None:
        return False
    if np.minimum.reduce(values, None) >= known.low and np.maximum.reduce(values, None) < known.high:
        return True
    return bool((((values >= known.low) & (values < known.high)) | (values == known.other)).all())


def capture(function: Callable[..., Any], guards: Guards, args: tuple[Any, ...], kwargs: dict[str, Any]
            ) -> tuple[Any, Variant | CannotRecord]:
    """Call a function, and make a variant of what it did; return its result, and the variant or why there is none.

    Args:
        function: The function, which has been observed.
        guards: What it may have read in the observed call; they hold.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    captured = [part.owner for part in guards.parts if isinstance(part, TensorPart)]
    arguments = ArgumentGuard(args, kwargs, captured, guards.exact)
    tensors = arguments.matches(args, kwargs) or []
    recorder = Recorder()
    inputs = [recorder.region(x) for x in tensors]
    for tensor in captured:
        recorder.region(tensor)
    known = len(recorder.recording.memory.buffers)
    before = guards.snapshot()
    with recorder:
        result = function(*args, **kwargs)
    try:
        return result, _variant(guards, arguments, recorder, result, (tensors, captured, inputs), (before, known))
    except CannotRecord as error:
        return result, error


def _variant(guards: Guards, arguments: ArgumentGuard, recorder: Recorder, result: Any,
             given: tuple[list[Any], list[Any], list[Region]], start: tuple[Any, int]) -> Variant:
    recording, (tensors, captured, inputs), (before, known) = recorder.recording, given, start
    if arguments.refusals:
        raise CannotRecord(str(arguments.refusals[0]))
    for reason in (*recording.reasons, *recording.notes.reasons):
        raise CannotRecord(reason)
    if any(buffer.kind == "input" for buffer in recording.memory.buffers[known:]):
        raise CannotRecord("it uses memory that came from neither its arguments nor what it captured")
    if len({x.buffer for x in inputs}) != len(inputs):
        raise CannotRecord("its arguments share memory")
    if any(x.buffer is y.buffer for x in inputs for t in captured for y in [recorder.region(t)]):
        raise CannotRecord("an argument shares memory with a captured tensor")
    results = Results(result, tensors, captured, recorder)
    reads = captured_reads([x for operation in recording.operations for x in operation.reads])
    effects = guards.effects(before, guards.snapshot())
    slots = find_slots(effects, results, recorder, reads)
    moved = {id(x._version_counter) for x in tensors}
    versions = [(counter, increase) for counter, increase in recording.versions.values() if id(counter) not in moved]
    if len(versions) != len(recording.versions):
        raise CannotRecord("it modifies an argument")
    runner = Runner(recording, inputs, results.regions)
    runner.assemble([x._array for x in tensors])
    guards = guards.without(effects) if effects else guards
    return Variant(guards, arguments, runner, results, slots, recording, inputs, versions)
