"""Times of statements, measured in a way that repeats, and tables of them."""

from __future__ import annotations

from .timer import Compare, Measurement, TaskSpec, Timer, timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]
