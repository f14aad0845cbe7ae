"""A variant of a compiled function: one graph, and everything under which it stands for the function."""

from __future__ import annotations

import builtins
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tensocket_core.device import open_device
from tensocket_operators.random.positions import positions
from tensocket_operators.reductions.value_checks import checked_range
from tensocket_plugins.contract.errors import AutogradError, TensocketError
from tensocket_plugins.contract.plans import WordsPlan

from ..autograd.joint import record_backward
from ..capture.arguments import ArgumentGuard
from ..capture.guards import Change, Effect, Guards, places_of
from ..capture.numbers import Relation
from ..capture.places import Place
from ..capture.recorder import CannotRecord, Range, Recorder, Recording
from ..capture.state import quick_test, unwatched_state
from ..capture.warned import Warned
from ..execute.relations import holds_for, relations_at_start
from ..execute.runner import Runner
from ..memory.regions import Region
from .apart import check_apart
from .backward import Backward
from .before import Before
from .effects import AnySlot, captured_reads, find_slots
from .progress import shown
from .raising import has_raising
from .results import Known, Results
from .settings import RUNNING
from .signature import Signature
from .unrecorded import check_numbers, check_states
from .versions import Versions, find_versions, increase_version

#: Reads the functions and types that the compiler itself, and what it calls, take from the interpreter.
_READ_BUILTINS: Final = operator.itemgetter(
    "abs", "all", "any", "bool", "bytes", "callable", "delattr", "dict", "divmod", "enumerate", "filter", "float",
    "frozenset", "getattr", "hasattr", "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map",
    "max", "min", "next", "object", "pow", "property", "range", "repr", "reversed", "round", "set", "setattr", "slice",
    "sorted", "str", "sum", "super", "tuple", "type", "vars", "zip")
_BUILTINS: Final = _READ_BUILTINS(vars(builtins))


def has_own_builtins() -> bool:
    """Whether the functions that the compiler itself calls are the interpreter's; a program may replace them."""
    try:
        return bool(_READ_BUILTINS(builtins.__dict__) == _BUILTINS)
    except KeyError:
        return False


class Variant:
    """One graph of a function.

    Attributes:
        guards: Everything that Python may have read.
        runner: The graph.
        hits: The calls that it served.
        used: When it was last chosen among others; ``table.Table`` counts.
        draws: Whether a call draws random numbers.
        raises: Whether an operator of the graph raises an error for some elements.
        warned: The warnings that a call gives.
        next_check: The number of calls after which the next one is checked against the function.
    """

    def __init__(self, guards: Guards, arguments: ArgumentGuard, signature: Signature, runner: Runner, results: Results,
                 effects: Sequence[Any], recording: Recording, inputs: Sequence[Region],
                 versions: Versions, backward: Backward | None, captured: Sequence[Any],
                 relations: Sequence[Relation]) -> None:
        self.guards, self.arguments, self.runner, self.recording = guards, arguments, runner, recording
        self.hits = self.used = self.next_check = 0
        self.draws = self.raises = False
        self.warned: Sequence[Warned] = () if guards.seen is None else tuple(guards.seen.warned)
        self._matches = signature.matches
        self._results, self.backward = results, backward
        self._versions, self._moving_versions = versions
        self._slots: list[AnySlot] = [x for x in effects if not isinstance(x, Place)]
        self._cleared = [x for x in effects if isinstance(x, Place)]
        self._ranges = [self._range(x, inputs, captured) for x in recording.ranges
                        if x.region.buffer.kind != "constant"]
        written = {x.buffer for operation in recording.operations for x in operation.writes}
        self._written = [k for k, x in enumerate(inputs) if x.buffer in written]
        self._related = holds_for(relations, inputs)
        #: Calls that run apart, behind the graph.
        self.apart: Sequence[Callable[[], Any]] = ()

    @staticmethod
    def _range(known: Range, inputs: Sequence[Region], captured: Sequence[Any]) -> tuple[Range, int, Any]:
        """Return a range, and the number of the argument that it is of, or -1 and the captured array or tensor."""
        position = next((k for k, x in enumerate(inputs) if x.buffer is known.region.buffer), -1)
        if position >= 0:
            return known, position, None
        array = known.region.array(known.region.buffer.array)
        if not isinstance(array, np.ndarray):
            array = next(x for x in captured if getattr(x._array, "storage", None) is array.storage)
        return known, position, array

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """Return the tensor arguments of a call that this variant may serve; None for others."""
        tensors = self._matches(args, kwargs)
        if tensors is None or not (self.guards.check() or (has_own_builtins() and self.guards.changed() is None)):
            return None
        for known, position, array in self._ranges:
            if not _inside(_readable(tensors[position]) if array is None else array, known):
                return None
        for position in self._written:
            array = tensors[position]._array
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                return None
        return tensors if self._related(tensors) else None

    @property
    def memory(self) -> int:
        """Bytes of temporaries that the graphs keep between calls."""
        runners = [self.runner] if self.backward is None else [self.runner, self.backward.runner]
        return sum(x.statistics.arena + x.statistics.staying for x in runners)

    @property
    def places(self) -> list[Place]:
        """The places to which each call assigns."""
        return [*[slot.place for slot in self._slots], *self._cleared]

    @property
    def operators(self) -> int:
        """Number of recorded operators of its graphs."""
        backward = 0 if self.backward is None else self.backward.runner.statistics.operations
        return self.runner.statistics.operations + backward

    def why(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
        """Return the first difference between a call and the captured one."""
        return self.arguments.why(args, kwargs) or self.guards.changed()

    def __call__(self, tensors: Sequence[Any], again: Callable[[Sequence[Any]], list[Any]] | None = None,
                 completely: bool = True) -> Any:
        """Run the graph on the tensor arguments of a call that fits; return the function's result.

        Args:
            tensors: The arguments.
            again: Returns gradients that have gradients themselves; see ``again.Again``.
            completely: Whether to run the calls that run apart, too.
        """
        self.hits += 1
        memory: dict[int, Any] = {}
        whole = self.runner.whole
        for slot in self._slots:
            held = slot.memory() if whole[slot.position] and not self.raises else None
            if held is not None:
                memory[slot.position] = held
        given = [x._array for x in tensors]
        arrays = self.runner(given, memory)
        for counter, increase in self._versions:
            counter[0] += increase
        for position, increase in self._moving_versions:
            increase_version(tensors[position], increase)
        made: list[Any] = []
        result = self._results(tensors, arrays, made)
        for slot in self._slots:
            slot.assign(arrays, slot.position in memory, made)
        if self.apart and completely:
            self._run_apart()
        for place in self._cleared:
            place.assign(None)
        if self.backward is not None:
            self.backward.attach(made, tensors, given, arrays, again)
        return result


    def _run_apart(self) -> None:
        RUNNING.compiled += 1
        try:
            for call in self.apart:
                call()
        finally:
            RUNNING.compiled -= 1


def _readable(tensor: Any) -> Any:
    array = tensor._array
    return array if isinstance(array, np.ndarray) else tensor


def _inside(values: Any, known: Range) -> bool:
    """Whether all integers, of an array of the host or of a tensor, lie in a range."""
    if 0 in values.shape:
        return True
    if not isinstance(values, np.ndarray):
        low, high = checked_range(values)
        return bool(known.low <= low and high < known.high)
    if not known.low and values.dtype == np.int64:  # negative numbers are large without their sign
        if np.maximum.reduce(values.view(np.uint64), None) < known.high:
            return True
    elif np.minimum.reduce(values, None) >= known.low and np.maximum.reduce(values, None) < known.high:
        return True
    return bool((((values >= known.low) & (values < known.high)) | (values == known.other)).all())


def use_machine_code(guards: Guards) -> None:
    """Compare the words of guards by machine code, if the CPU backend is there."""
    try:
        runtime = open_device("cpu").runtime
    except TensocketError:
        return

    def compile_check() -> None:
        plan = WordsPlan(guards.addresses, guards.values, guards.unequal_addresses, guards.unequal_values)
        words = runtime.compile_plan(plan, lambda: False)
        if words is not None:
            guards.check = quick_test(guards.state, words, guards.seen is None or guards.seen.arrays)

    guards.on_renewal = compile_check
    compile_check()


def capture(function: Callable[..., Any], guards: Guards, args: tuple[Any, ...], kwargs: dict[str, Any],
            known: Guards | None = None) -> tuple[Any, Variant | CannotRecord]:
    """Call a function, and make a variant of what it did; return its result, and the variant or why there is none.

    Args:
        function: The function, which has been observed.
        guards: Everything that it may have read in the observed call; they hold.
        args: Its arguments.
        kwargs: Its arguments by name.
        known: Guards of a variant that read the same, but for the places that it writes to.
    """
    captured = guards.captured
    arguments = ArgumentGuard(args, kwargs, captured, guards.exact, guards.moving)
    tensors = arguments.matches(args, kwargs) or []
    if arguments.refusals:
        return function(*args, **kwargs), CannotRecord(str(arguments.refusals[0]))
    recorder = Recorder(guards.moving)
    try:
        check_numbers(guards, tensors)
        inputs = [recorder.region(x) for x in tensors]
        for tensor in captured:
            recorder.region(tensor)
    except CannotRecord as error:
        return function(*args, **kwargs), error
    buffers = len(recorder.recording.memory.buffers)
    before, began = Before(guards, tensors, buffers), positions()
    with recorder:
        result = function(*args, **kwargs)
    draws = positions() != began
    try:
        before.check_gradients()
        with shown(function):
            made = _variant(guards, arguments, recorder, (args, kwargs), result, (tensors, captured, inputs), before,
                            known)
        made.draws = draws
        return result, made
    except CannotRecord as error:
        return result, error
    except AutogradError as error:  # a view that its base left behind has no node
        return result, CannotRecord(f"its graph has no derivative: {error}")
    except Exception as error:
        warnings.warn(f"the compiler failed on {function!r:.80}, which runs eagerly: {type(error).__name__}: {error}",
                      RuntimeWarning, stacklevel=2)
        return result, CannotRecord(f"the compiler failed: {type(error).__name__}: {error}")


def _variant(guards: Guards, arguments: ArgumentGuard, recorder: Recorder, call: tuple[Any, Any], result: Any,
             given: tuple[list[Any], list[Any], list[Region]], before: Before, known: Guards | None) -> Variant:
    recording, (tensors, captured, inputs) = recorder.recording, given
    recorder.options.check()
    for reason in (*recording.reasons, *recording.notes.reasons):
        raise CannotRecord(reason)
    before.check_memory()
    check_states(before.states, recording)
    raises = has_raising(recording.operations)
    if any(buffer.kind == "input" for buffer in recording.memory.buffers[before.buffers:]):
        raise CannotRecord("it uses memory that came from neither its arguments nor what it captured")
    if len({x.buffer for x in inputs}) != len(inputs):
        raise CannotRecord("its arguments share memory")
    if any(x.buffer is y.buffer for x in inputs for t in captured for y in [recorder.region(t)]):
        raise CannotRecord("an argument shares memory with a captured tensor")
    results = Results(result, Known(guards, *call), tensors, captured, recorder)
    reads = captured_reads([x for operation in recording.operations for x in operation.reads])
    effects = before.effects()
    check_apart(recorder, effects, guards.seen, bool(results.live))
    slots = find_slots(effects, guards.moving, results, recorder, reads)
    versions = find_versions(recording, tensors, arguments.given)
    relations = relations_at_start(recording)
    backward, saved, forward = None, [], recording
    if results.live:
        joint = record_backward(recorder, results.live, [*tensors, *captured])
        for reason in recording.reasons:
            raise CannotRecord(reason)
        forward = replace(recording, operations=recording.operations[:joint.begin])
        backward = Backward(joint, recording, (tensors, inputs), captured, results)
        saved = backward.saved
    runner = Runner(forward, inputs, [*results.regions, *saved])
    runner.assemble(before.arrays)
    if backward is not None:
        backward.assemble()
    guards = _settled(guards, effects, known)
    results.finish()
    recording.memory.release()
    made = Variant(guards, arguments, Signature(arguments, *call), runner, results, slots, recording, inputs, versions,
                   backward, captured, relations)
    made.raises, made.apart = raises, recorder.options.calls
    return made


def _settled(guards: Guards, effects: Sequence[Effect], known: Guards | None) -> Guards:
    """Return guards over all that a call may have read but for what it writes, those of another variant if they are."""
    state = unwatched_state()
    if known is not None:
        if places_of(effects) == known.cut and state == known.state:
            return known
        guards = guards.without(effects)
    elif effects:
        guards = guards.without(effects)
    guards.state = state  # compiling may import modules, which register classes
    use_machine_code(guards)
    return guards
