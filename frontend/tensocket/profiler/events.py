"""The parts of a profile: events, lists of them, and averages of events with the same name."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from ..errors import ArgumentError


class DeviceType(Enum):
    """The device of an event, by PyTorch's numbers."""

    CPU = 0
    CUDA = 1
    OPENCL = 4
    XPU = 12
    MPS = 13
    HPU = 15
    PrivateUse1 = 20


class Interval:
    """A span of time in microseconds since the profile began."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length of the span."""
        return self.end - self.start


def time_text(microseconds: float, unit: str | None = None) -> str:
    """Return a time with its unit.

    >>> time_text(12.5), time_text(2500.0), time_text(3e6), time_text(2500.0, "us")
    ('12.500us', '2.500ms', '3.000s', '2500.000us')
    """
    unit = unit or ("s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us")
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def memory_text(nbytes: int) -> str:
    """Return a number of bytes with its unit.

    >>> memory_text(400), memory_text(-2048), memory_text(3 << 20)
    ('400 B', '-2.00 KB', '3.00 MB')
    """
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class _Times:
    """Times and memory of an event or of a sum of events, under all names that programs read."""

    key: str | None
    count: int
    cpu_time_total: float
    device_time_total: float
    self_cpu_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """Microseconds on the host, per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds on the device, per call."""
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> Any:
        """Return ``device_...`` for its older name ``cuda_...``, and times as text for ``..._str``."""
        if "cuda_" in name:
            return getattr(self, name.replace("cuda_", "device_"))
        if name.endswith("_str") and "time" in name:
            return time_text(getattr(self, name.removesuffix("_str")))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class FunctionEvent(_Times):
    """One call: of an operator, a node of a backward pass, or a block of ``record_function``.

    Attributes:
        id: Number in order of start.
        name: ``aten::add``, ``MulBackward0``, or the name that the user gave.
        thread: The thread's number.
        time_range: Its time, in microseconds since the profile began.
        overload_name: Overload of the operator, if a program gave one.
        fwd_thread: Thread of the forward call, if a program gave one.
        scope: PyTorch's number of the kind of event.
        is_async, is_remote: Whether it ended in another thread or process.
        sequence_nr: Number that a forward call shares with its backward, -1 for none.
        node_id: Number of the process, -1 for the only one.
        device_type: Device of the event.
        cpu_parent: The enclosing event.
        cpu_children: The events directly inside of it.
        input_shapes: Shapes of tensors among the arguments, empty for others; if recorded.
        kernel_time: Microseconds of the device, without the events inside of it.
        self_cpu_memory_usage: Bytes allocated on the host minus those freed, without the events inside of it.
        self_device_memory_usage: The same on other devices.
        flops: Floating-point operations; if recorded.
        stack: Source lines of the call, innermost first; if recorded.
        use_device: Type of its device, None for the host.
        is_user_annotation: Whether it is a block.
    """

    count = 1
    is_legacy = False

    def __init__(self, id: int, name: str, thread: int, start_us: float, end_us: float, overload_name: str = "",
                 fwd_thread: int | None = None, input_shapes: Any = None, stack: Any = None, scope: int = 0,
                 use_device: str | None = None, cpu_memory_usage: int = 0, device_memory_usage: int = 0,
                 is_async: bool = False, is_remote: bool = False, sequence_nr: int = -1, node_id: int = -1,
                 device_type: DeviceType = DeviceType.CPU, flops: int = 0, is_user_annotation: bool = False) -> None:
        self.id = id
        self.name = self.key = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.overload_name = overload_name
        self.fwd_thread = fwd_thread
        self.scope = scope
        self.is_async, self.is_remote = is_async, is_remote
        self.sequence_nr, self.node_id = sequence_nr, node_id
        self.device_type = device_type
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes: list[Any] = list(input_shapes or ())
        self.kernel_time = 0.0
        self.self_cpu_memory_usage = cpu_memory_usage
        self.self_device_memory_usage = device_memory_usage
        self.flops = flops
        self.stack: list[str] = list(stack or ())
        self.use_device = use_device
        self.is_user_annotation = is_user_annotation

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that happened inside of this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the enclosing event."""
        self.cpu_parent = parent

    def __repr__(self) -> str:
        return (f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} cpu_time={self.cpu_time_str} "
                f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
                f"cpu_children={[child.id for child in self.cpu_children]} input_shapes={self.input_shapes} "
                f"cpu_memory_usage={self.cpu_memory_usage}>")

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from start to end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds outside of the events inside of it."""
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0.0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of the device, without the events inside of it."""
        return self.kernel_time

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of the device."""
        return self.kernel_time + sum(child.device_time_total for child in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes allocated on the host minus those freed."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def device_memory_usage(self) -> int:
        """Bytes allocated on other devices minus those freed."""
        return self.self_device_memory_usage + sum(child.device_memory_usage for child in self.cpu_children)


class FunctionEventAvg(_Times):
    """The sum of events with the same name; ``cpu_time`` and ``device_time`` are per call.

    Attributes are those of ``FunctionEvent``, and ``count``.
    """

    device_type = DeviceType.CPU
    is_async = is_remote = is_legacy = False
    node_id = -1
    overload_name = ""
    _SUMS = ("cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
             "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage", "flops",
             "count")

    def __init__(self, key: str | None = None, input_shapes: Any = "", stack: list[str] | None = None) -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.stack = stack or []
        self.use_device: str | None = None
        self.is_user_annotation = False
        for name in self._SUMS:
            setattr(self, name, 0)

    def __repr__(self) -> str:
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
                f"cpu_time={self.cpu_time_str} self_device_time={self.self_device_time_total_str} "
                f"device_time={self.device_time_str} count={self.count}>")

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or a sum of events; the first one determines the key."""
        if self.key is None:
            self.key, self.input_shapes, self.stack = str(other.key), other.input_shapes, other.stack
        for name in self._SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.use_device = self.use_device or other.use_device
        self.is_user_annotation = self.is_user_annotation or other.is_user_annotation
        return self

    __iadd__ = add


class EventList(list[Any]):
    """Events, or averages of them.

    Args:
        events: Its first events.
        shapes: Whether input shapes are known, for ``table``.
        memory: Whether memory was measured.
        flops: Whether operations were counted.
        stacks: Whether source lines were recorded.
    """

    def __init__(self, events: Iterable[Any] = (), *, shapes: bool = False, memory: bool = False, flops: bool = False,
                 stacks: bool = False) -> None:
        super().__init__(events)
        self.shapes = shapes
        self.memory = memory
        self.flops = flops
        self.stacks = stacks

    def __str__(self) -> str:
        return self.table()

    def _populate_cpu_children(self) -> None:
        """Determine the nesting of events from threads and times."""
        threads: dict[Any, list[FunctionEvent]] = {}
        for event in self:
            if not event.is_async and event.device_type is DeviceType.CPU:
                threads.setdefault((event.thread, event.node_id), []).append(event)
        for events in threads.values():
            around: list[FunctionEvent] = []
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while around and (event.time_range.start >= around[-1].time_range.end
                                  or event.time_range.end > around[-1].time_range.end):
                    around.pop()
                if around:
                    around[-1].append_cpu_child(event)
                    event.set_cpu_parent(around[-1])
                around.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host, summed over the events."""
        return float(sum(event.self_cpu_time_total for event in self))

    @property
    def self_device_time_total(self) -> float:
        """Microseconds on devices, summed over the events."""
        return float(sum(event.self_device_time_total for event in self))

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """Return the sums over events with the same name.

        Args:
            group_by_input_shapes: Whether events with different input shapes are separate.
            group_by_stack_n: Number of source lines by which events are separated.
            group_by_overload_name: Ignored: overloads are one operator.
        """
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else ""
            stack = event.stack[:group_by_stack_n]
            place = event.key, str(shapes), tuple(stack)
            if place not in found:
                found[place] = FunctionEventAvg(event.key, shapes, stack)
            found[place].add(event)
        return EventList(found.values(), shapes=group_by_input_shapes, memory=self.memory, flops=self.flops,
                         stacks=group_by_stack_n > 0)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:
        """Return the events as text, one line each.

        Args:
            sort_by: An attribute, largest first: ``cpu_time_total``, ``self_device_time_total``, ``count`` ...
            row_limit: Largest number of lines; -1 for all.
            max_src_column_width: Width of the column with source lines.
            max_name_column_width: Width of the column with names.
            max_shapes_column_width: Width of the column with shapes.
            header: Line above the table.
            top_level_events_only: Whether nested events are omitted.
            time_unit: ``s``, ``ms`` or ``us``; the one that fits if not given.

        Raises:
            AttributeError: Events have no such attribute.
        """
        from .table import table_of

        widths = {"Name": max_name_column_width, "Input Shapes": max_shapes_column_width,
                  "Source Location": max_src_column_width}
        return table_of(self, sort_by, row_limit, widths, header, top_level_events_only, time_unit)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write the events for ``chrome://tracing`` and Perfetto; compressed if the path ends with ``.gz``."""
        from .exports import write_chrome_trace

        write_chrome_trace(path, self)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the attributes that ``export_stacks`` can use as weights."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write ``function;function;... microseconds`` lines, the input of flame graph programs.

        Raises:
            ArgumentError: The metric does not exist.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ArgumentError("export_stacks", f"metric {metric!r}", "the metric is a time of an event alone",
                                f"use one of {self.supported_export_stacks_metrics()}")
        lines = [";".join(line.replace(";", ",") for line in reversed(event.stack)) + f" {int(getattr(event, metric))}"
                 for event in self if event.stack and int(getattr(event, metric)) > 0]
        Path(path).write_text("".join(line + "\n" for line in lines), "utf-8")


__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "memory_text", "time_text"]
