"""Reproducible timing of statements, and tables of the results."""

from __future__ import annotations

from .timer import Compare, Measurement, TaskSpec, Timer, timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]
