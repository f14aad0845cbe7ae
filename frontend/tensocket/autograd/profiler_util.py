"""The parts of profiles, at PyTorch's place."""

from __future__ import annotations

from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg, Interval

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]
