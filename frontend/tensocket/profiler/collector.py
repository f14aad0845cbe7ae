"""The collector: a tracer of the dispatcher that measures calls.

While a thread profiles, its calls pass ``Collector.operator`` like any tracer; otherwise no call checks for it.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensocket_core
import tensocket_operators
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.recording import SlowPathReason

from .. import __path__ as _PACKAGE
from .events import FunctionEvent
from .memory import MemoryLog

_OWN: Final = (next(iter(_PACKAGE)), tensocket_core.__path__[0], tensocket_operators.__path__[0])
#: Device events around a call: start, end, and the call's event.
_Marks = tuple[Any, Any, FunctionEvent]


class Collector(Tracer):
    """A tracer that measures the calls that pass through it.

    Args:
        shapes: Whether to record the shapes of arguments.
        memory: Whether to track memory.
        stacks: Whether to record the source lines of calls.
        flops: Whether to count operations.
        devices: Whether to measure devices as well.
    """

    def __init__(self, *, shapes: bool = False, memory: bool = False, stacks: bool = False, flops: bool = False,
                 devices: bool = True) -> None:
        super().__init__(None, None)
        self.shapes = shapes
        self.memory = MemoryLog(self) if memory else None
        self.stacks = stacks
        self.flops = flops
        self.devices = devices
        self.events: list[FunctionEvent] = []
        self.open: list[FunctionEvent] = []
        self.began = time.perf_counter_ns()
        self.thread = threading.get_native_id()
        self._marks: list[_Marks] = []
        self._state: thread_state | None = None
        self._reason: SlowPathReason | None = None

    # ---------------------------------------------------------------------------------------------- on and off

    def start(self) -> None:
        """Start to measure this thread's calls."""
        self.began = time.perf_counter_ns()
        self.thread = threading.get_native_id()
        # A reason makes the backward pass take the path that traces nodes.
        self._reason = SlowPathReason()
        self._state = thread_state(tracer=self)
        self._state.__enter__()

    def stop(self) -> None:
        """Stop measuring; open events end now."""
        if self._state is not None:
            self._state.__exit__()
        self._state = self._reason = None
        while self.open:
            self.leave(self.open[-1])
        for start, end, event in self._marks:
            end.synchronize()
            event.kernel_time += 1e3 * start.elapsed_ms(end)
        self._marks.clear()
        if self.memory is not None:
            self.memory.close()

    def pause(self, paused: bool) -> None:
        """Pause measuring, or resume it."""
        if self._state is not None and paused:
            self._state.__exit__()
            self._state = None
        elif self._state is None and not paused:
            self._state = thread_state(tracer=self)
            self._state.__enter__()

    def now(self) -> float:
        """Return the microseconds since the start."""
        return (time.perf_counter_ns() - self.began) / 1e3

    # ---------------------------------------------------------------------------------------------- events

    def enter(self, name: str) -> FunctionEvent:
        """Begin an event inside of the innermost open event."""
        now = self.now()
        event = FunctionEvent(len(self.events), name, self.thread, now, now)
        if self.open:
            self.open[-1].append_cpu_child(event)
            event.set_cpu_parent(self.open[-1])
        self.events.append(event)
        self.open.append(event)
        if self.stacks:
            event.stack = list(_stack())
        return event

    def leave(self, event: FunctionEvent) -> None:
        """End an event, and the open events inside of it."""
        now = self.now()
        while event in self.open:
            self.open.pop().time_range.end = now

    def step(self, kind: str, name: str, key: str, path: str, args: Any, run: Callable[[], Any]) -> Any:
        """Run a factory, or a node of a backward pass, as an event."""
        event = self.enter(name if kind == "backward" else f"aten::{name}")
        if self.shapes:
            event.input_shapes = [_shape(value) for value in args]
        try:
            result = run()
            self._note_memory(args, result)
            return result
        finally:
            self.leave(event)

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Run a resolved call of an operator as an event."""
        event = self.enter(operator.name if "::" in operator.name else f"aten::{operator.name}")
        if self.shapes:
            event.input_shapes = [_shape(value) for value in args]
        mark = self._mark(event, args) if self.devices and operator.body is None else None
        try:
            result = operator.invoke(kernel, args)
            if self.flops and not _counted(event):
                event.flops = _flops(operator.name, args, result)
            self._note_memory(args, result)
            return result
        finally:
            if mark is not None:
                mark()
            self.leave(event)

    def _note_memory(self, args: tuple[Any, ...], result: Any) -> None:
        if self.memory is not None:
            self.memory.note(_tensors(result), _tensors(args))

    def _mark(self, event: FunctionEvent, args: tuple[Any, ...]) -> Callable[[], None] | None:
        """Record a device event before a call; return the function that records one after it."""
        tensor = next(_tensors(args), None)
        if tensor is None or tensor._device_state.runtime.profile.host_resident or not tensor._device_state.holds_data:
            return None
        entry = tensor._device_state
        start, end = entry.runtime.create_event(timing=True), entry.runtime.create_event(timing=True)
        entry.chosen_stream.record(start)
        event.use_device = entry.device.type

        def finish() -> None:
            entry.chosen_stream.record(end)
            self._marks.append((start, end, event))

        return finish


def active() -> Collector | None:
    """Return the collector of this thread, or None."""
    tracer = STATE.tracer
    return tracer if isinstance(tracer, Collector) else None


def _profiler_enabled() -> bool:
    """Whether this thread's calls are measured."""
    return active() is not None


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "_key"):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _shape(value: Any) -> list[Any]:
    """Return the shapes of an argument: a tensor's sizes, those of each tensor in a list, otherwise nothing."""
    if hasattr(value, "_key"):
        return list(value._array.shape)
    return [list(x._array.shape) for x in value if hasattr(x, "_key")] if isinstance(value, (tuple, list)) else []


def _stack() -> Iterator[str]:
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            yield f"{code.co_filename}({frame.f_lineno}): {code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]


#: Operations per element of the result, for operators whose count follows from shapes.
_PER_ELEMENT: Final[dict[str, Callable[..., int]]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), lambda a, b, *_: 2 * int(a.shape[-1])),
    "linear": lambda x, weight, *_: 2 * int(weight.shape[-1]),
    "addmm": lambda c, a, b, *_: 2 * int(a.shape[-1]),
    "baddbmm": lambda c, a, b, *_: 2 * int(a.shape[-1]),
    **dict.fromkeys(("convolve", "conv1d", "conv2d", "conv3d"), lambda x, w, *_: 2 * math.prod(w.shape[1:])),
    **dict.fromkeys(("add", "sub", "mul", "div"), lambda *_: 1),
}


def _counted(event: FunctionEvent) -> bool:
    """Whether the operations of an event, or of one inside of it, are counted."""
    return event.flops > 0 or any(map(_counted, event.cpu_children))


def _flops(name: str, args: tuple[Any, ...], result: Any) -> int:
    count = _PER_ELEMENT.get(name)
    return 0 if count is None or not hasattr(result, "_key") else count(*args) * int(result.numel())
