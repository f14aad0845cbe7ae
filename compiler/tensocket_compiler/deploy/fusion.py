"""Runs of a program as the compiler's graph on the recording device: operations in fused kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import uint8
from tensocket_plugins.contract.errors import CompileError

from ..capture.recorder import Operation, Recorder
from ..execute.frames import Layout
from ..execute.runner import Runner, home_of, makers_of
from ..memory.regions import Region
from .device import Check, Event, Launch, ahead_device, note_run
from .runs import contents_of, needed_events
from .value_refusals import FixedNumbers


class _Recorder(FixedNumbers, Recorder):
    """Recorder of a run whose options stay, and that computes with no element outside of kernels."""


class _SeparateRunner(Runner):
    """A graph whose buffers have blocks of their own: the library plans its memory over all launches."""

    def _place(self, arguments: Sequence[Region], operations: Sequence[Operation]) -> Layout:
        makers, buffers = makers_of(operations), self.recording.memory.buffers
        homes = {region.buffer.number: region for region in arguments}
        homes |= {region.buffer.number: home_of(region, makers) for region in self._results}
        for group in self.groups:
            if group.call and not group.operations[0].operator.schema.is_mutable:
                for region in group.operations[0].results:
                    homes.setdefault(region.buffer.number, region)
        staying = {buffer.number: buffer.array if buffer.kind != "temporary" else buffer.device.runtime.empty(
            (buffer.nbytes,), uint8, buffer.device.stream) for buffer in buffers if buffer.number not in homes}
        return Layout(buffers, homes, staying)


def note_graph(function: Callable[[], Sequence[Any]], inputs: Sequence[Any], captured: Sequence[Any]
               ) -> tuple[list[DeviceArray], list[Event], str]:
    """Record a function's operations, and note the launches of their graph.

    Args:
        function: Returns tensors, each in memory of its own.
        inputs: The tensors that change from call to call.
        captured: The tensors that stay.

    Returns:
        The arrays of its results, the events, and why there is no graph; then the other two are empty.

    Raises:
        CompileError: An operator reads elements of tensors.
    """
    recorder = _Recorder()
    given = [recorder.region(x) for x in inputs]
    for x in captured:
        recorder.region(x)

    def record() -> list[Region]:
        with recorder:
            found = function()
        return [recorder.region(x) for x in found]

    results, made = note_run(record)
    for reason in (*recorder.recording.reasons, *recorder.recording.notes.reasons):
        return [], [], reason
    for operation in recorder.recording.operations:
        if operation.device is not ahead_device():
            raise CompileError("compile_c", f"the operator {operation.name} on {operation.device.device}", "kernels of "
                               "a C library compute everything that changes from call to call", "move its operands to "
                               "the device of the other ones")
    runner = _SeparateRunner(recorder.recording, given, results)
    arrays, events = note_run(lambda: runner([x._array for x in inputs]))
    checks: list[Event] = [Check(x.region.array(x.region.buffer.array), x.low, x.high, x.other)
                           for x in recorder.recording.ranges]
    constants = {id(contents_of(buffer.array)) for buffer in recorder.recording.memory.buffers
                 if buffer.kind == "constant" and isinstance(buffer.array, DeviceArray)}
    return arrays, [*needed_events(made, constants), *_once([*checks, *events])], ""


def _once(events: Sequence[Event]) -> list[Event]:
    """Leave out checks of elements that were checked before; nothing writes to these meanwhile."""
    found: list[Event] = []
    seen = set()
    for event in events:
        if isinstance(event, Check):
            key = id(contents_of(event.array)), event.array.offset, event.array.size, event.low, event.high, event.other
            if key in seen:
                continue
            seen.add(key)
        elif isinstance(event, Launch):
            written = {id(contents_of(x)) for x, w in zip(event.arrays, event.written, strict=True) if w}
            seen = {key for key in seen if key[0] not in written}
        found.append(event)
    return found
