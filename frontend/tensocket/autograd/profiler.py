"""PyTorch's older profiler: ``profile`` without schedules, and ranges for vendors' tools."""

from __future__ import annotations

from typing import Any

from ..profiler import ProfilerActivity, kineto_available, record_function
from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.profiling import profile as _profile


class profile:
    """``with profile() as p:`` — measure a block.

    Args:
        enabled: False disables the profile.
        use_cuda: Whether devices are measured.
        use_device: Name of the devices that are measured.
        record_shapes: Whether to record the shapes of arguments.
        with_flops: Whether to count operations.
        profile_memory: Whether to track the memory of results.
        with_stack: Whether to record the source lines of calls.
        with_modules: Whether calls of modules are events.
        others: ``use_kineto``, ``use_cpu`` and other options of PyTorch; ignored.
    """

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
                 record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_modules: bool = False, **others: Any) -> None:
        self.enabled = enabled
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if use_cuda or use_device else [])]
        self._profile = _profile(activities=activities, record_shapes=record_shapes, with_flops=with_flops,
                                 profile_memory=profile_memory, with_stack=with_stack, with_modules=with_modules)

    def __enter__(self) -> profile:
        if self.enabled:
            self._profile.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            self._profile.stop()

    def __str__(self) -> str:
        return "<unfinished profile>" if self._profile._events is None else str(self.function_events)

    @property
    def function_events(self) -> EventList:
        """All events."""
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host."""
        return self.function_events.self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """Return the sums over events with the same name."""
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False) -> str:
        """Return the events as text; see ``EventList.table``."""
        return self.function_events.table(sort_by, row_limit, max_src_column_width, max_name_column_width,
                                          max_shapes_column_width, header, top_level_events_only)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        return self.function_events.total_average()

    def export_chrome_trace(self, path: str, metadata: dict[str, str] | None = None,
                            use_python_export: bool = False) -> None:
        """Write a trace for ``chrome://tracing``, with texts by name."""
        for key, value in (metadata or {}).items():
            self._profile.add_metadata(key, value)
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the time of each source location, for flame graphs."""
        self._profile.export_stacks(path, metric)


class _Ranges:
    """Operators as ranges of a vendor's tool. No such tool is supported, so the block runs as it is."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class emit_nvtx(_Ranges):
    """``with emit_nvtx():`` — no ranges are emitted; use ``profile`` and its Chrome trace."""


class emit_itt(_Ranges):
    """``with emit_itt():`` — no ranges are emitted; use ``profile`` and its Chrome trace."""


__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "kineto_available", "profile",
           "record_function"]
