"""The parts of profiles, under PyTorch's module path."""

from __future__ import annotations

from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg, Interval

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]
