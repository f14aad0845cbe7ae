"""``profile``: measurement of a whole block, or of selected steps of a loop."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tensocket_operators import is_available
from tensocket_plugins.contract.registry import registry

from ..errors import ArgumentError, TensocketError
from ..utils.hooks import RemovableHandle
from .annotate import record_function, watch_modules, watch_optimizers
from .collector import Collector
from .events import EventList
from .exports import write_chrome_trace
from .memory import write_timeline


class ProfilerActivity(Enum):
    """Subjects of measurement: the host, or devices; the names of all kinds of devices are equivalent."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """The profiler's action in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ScheduleError(TensocketError, RuntimeError, AssertionError):
    """The error for an invalid schedule, or for results that do not exist."""


_RECORDING: Final = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be measured here."""
    found = {ProfilerActivity.CPU}
    for name in registry().names():
        if name not in ("cpu", "ref") and is_available(name):
            found.add(getattr(ProfilerActivity, name.upper(), ProfilerActivity.PrivateUse1))
    return found


def kineto_available() -> bool:
    """Return True: profiles can always be taken."""
    return True


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """Return a function from steps of a loop to actions: cycles of waiting, warming up, and recording.

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']

    Args:
        wait: Steps without measuring at the start of a cycle.
        warmup: Steps that are measured and discarded.
        active: Steps that are recorded.
        repeat: Number of cycles; 0 means until the end.
        skip_first: Steps before the first cycle.
        skip_first_wait: Whether (1) the first cycle does not wait.

    Raises:
        ScheduleError: A number is negative, or no step is recorded.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ScheduleError("schedule", f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
                            f"skip_first={skip_first}", "numbers of steps are not negative, and active is positive",
                            "record at least one step")
    if warmup == 0:
        warnings.warn("schedule: without warmup, the first recorded step has the costs of starting", UserWarning,
                      stacklevel=2)

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if step < 0 or (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == wait + warmup + active - 1 else ProfilerAction.RECORD

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
                              use_python_export: bool = False) -> Callable[[profile], None]:
    """Return an ``on_trace_ready`` that writes Chrome traces into a folder for TensorBoard's plugin.

    Args:
        dir_name: The folder; created if it is missing.
        worker_name: The first part of file names; host and process if not given.
        use_gzip: Whether files are compressed.
        use_python_export: Ignored.
    """
    def handle(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(str(folder / f"{worker}.{time.time_ns()}{ending}"))

    return handle


class profile:
    """``with profile() as p:`` — measure a block; then ``print(p.key_averages().table(sort_by="cpu_time_total"))``.

    Operators of this thread and nodes of backward passes are events, nested like their calls; so are steps of
    optimizers and blocks of ``record_function``. With a schedule, call ``step()`` at the end of every step of a loop.

    Args:
        activities: Activities to measure; all if not given. If ``CPU`` is the only one, devices are not measured.
        schedule: Function from a step to its action.
        on_trace_ready: Called with this object whenever a recording is complete.
        record_shapes: Whether to record the shapes of arguments.
        profile_memory: Whether to track the memory of results.
        with_stack: Whether to record the source lines of calls.
        with_flops: Whether to count operations of products and sums.
        with_modules: Whether calls of modules are events.
        experimental_config: Ignored.
        execution_trace_observer: Ignored.
        acc_events: Whether events of all cycles are stored, instead of those of the last one.
        use_cuda: Whether devices are measured, as with an activity.
        custom_trace_id_callback: A function that returns the trace's name in files.
        post_processing_timeout_s: Ignored.
    """

    def __init__(self, *, activities: Iterable[Any] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 acc_events: bool = False, use_cuda: bool | None = None,
                 custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None) -> None:
        chosen = None if activities is None else set(activities)
        if chosen is not None and not chosen:
            raise ScheduleError("profile", "activities=[]", "at least one activity is measured",
                                "pass [ProfilerActivity.CPU]")
        self.activities = supported_activities() if chosen is None else chosen
        if use_cuda is not None:
            self.activities = self.activities | {ProfilerActivity.CUDA} if use_cuda else {ProfilerActivity.CPU}
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.metadata: dict[str, Any] = {}
        self._collector: Collector | None = None
        self._handles: list[RemovableHandle] = []
        self._step: record_function | None = None
        self._events: EventList | None = None
        self._changes: list[Any] = []

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # ---------------------------------------------------------------------------------------------- steps

    def start(self) -> None:
        """Begin with the schedule's action for step 0."""
        self._go(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End the profile; a recording in progress is complete."""
        self._end_step()
        if self.current_action in _RECORDING:
            self.stop_trace()
            self._ready()
        elif self._collector is not None:
            self._discard()

    def step(self) -> None:
        """Begin the next step of the loop."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._go(before, self.current_action)
        self._begin_step()

    def _go(self, before: ProfilerAction, after: ProfilerAction) -> None:
        if before is ProfilerAction.RECORD_AND_SAVE or (before is ProfilerAction.RECORD and after not in _RECORDING):
            if before is ProfilerAction.RECORD:
                warnings.warn("profile: the schedule stops recording without saving; it is saved", UserWarning,
                              stacklevel=4)
            self.stop_trace()
            self._ready()
            before = ProfilerAction.NONE
        if after in _RECORDING and before not in _RECORDING:
            self._discard()
            self.start_trace()
        elif after is ProfilerAction.WARMUP and self._collector is None:
            self.start_trace()
        elif after is ProfilerAction.NONE:
            self._discard()

    def _begin_step(self) -> None:
        if self.record_steps and self._collector is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # ---------------------------------------------------------------------------------------------- recording

    def prepare_trace(self) -> None:
        """Do nothing: a trace needs no preparation."""

    def start_trace(self) -> None:
        """Start to record, regardless of the schedule."""
        self._collector = collector = Collector(
            shapes=self.record_shapes, memory=self.profile_memory, stacks=self.with_stack, flops=self.with_flops,
            devices=self.activities != {ProfilerActivity.CPU})
        self._handles = [*watch_optimizers(collector), *(watch_modules(collector) if self.with_modules else ())]
        collector.start()

    def _halt(self) -> Collector | None:
        collector, self._collector = self._collector, None
        if collector is not None:
            collector.stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        return collector

    def _discard(self) -> None:
        self._halt()

    def stop_trace(self) -> None:
        """Stop recording; the events are available."""
        collector = self._halt()
        if collector is None:
            return
        kept = self._events if self.acc_events and self._events is not None else ()
        self._events = EventList([*kept, *collector.events], shapes=self.record_shapes, memory=self.profile_memory,
                                 flops=self.with_flops, stacks=self.with_stack)
        self._changes = collector.memory.changes if collector.memory is not None else []

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Pause (False) or resume (True) a recording, with all activities.

        Raises:
            ScheduleError: No recording is in progress.
        """
        if self._collector is None:
            raise ScheduleError("toggle_collection_dynamic", "a profile that does not record",
                                "a recording is paused while it goes on", "call start() first")
        self._collector.pause(not enable)

    # ---------------------------------------------------------------------------------------------- results

    def events(self) -> EventList:
        """Return all events of the recording, in order of their start.

        Raises:
            ScheduleError: Nothing was recorded yet.
        """
        if self._events is None:
            raise ScheduleError("profile", "a profile without events", "a recording is complete before it is read",
                                "leave the block, or call stop(), first")
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """Return the sums over events with the same name; see ``EventList.key_averages``."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a trace for ``chrome://tracing`` and Perfetto; compressed if the path ends with ``.gz``.

        Args:
            path: The file.
            use_python_export: Ignored.
        """
        write_chrome_trace(path, self.events(), self._changes, {**self.metadata, "trace_id": self.get_trace_id()})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write where time was spent, for flame graphs; needs ``with_stack``."""
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write the bytes of live results over time; needs ``profile_memory``.

        Args:
            path: The file: ``.json`` or ``.json.gz`` (times in microseconds, totals, changes, operators), or ``.svg``,
                ``.png`` or ``.html`` for a picture.
            device: The device, as ``cpu`` or ``opencl:0``; all if not given.

        Raises:
            ArgumentError: The extension is not one of these, or nothing was measured on the device.
        """
        if not self.profile_memory:
            raise ArgumentError("export_memory_timeline", "a profile without memory", "memory was measured",
                                "pass profile_memory=True to profile")
        self.events()
        write_timeline(path, self._changes, device)

    # ---------------------------------------------------------------------------------------------- metadata

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to trace files."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, to trace files."""
        self.metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add metadata before the start, as ``add_metadata_json`` does."""
        self.add_metadata_json(key, value)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set a function that returns the names of traces."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str:
        """Return the name of the trace."""
        return str(id(self)) if self.custom_trace_id_callback is None else self.custom_trace_id_callback()


__all__ = ["ProfilerAction", "ProfilerActivity", "ScheduleError", "kineto_available", "profile", "schedule",
           "supported_activities", "tensorboard_trace_handler"]
