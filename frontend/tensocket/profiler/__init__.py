"""A profiler of time and memory: ``profile`` measures operators, backward passes and blocks."""

from __future__ import annotations

from .annotate import record_function
from .collector import _profiler_enabled as _profiler_enabled
from .events import DeviceType
from .profiling import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
