"""Decisions about what each process reads and writes."""

from __future__ import annotations

from .parts import DefaultLoadPlanner, DefaultSavePlanner

__all__: list[str] = ["DefaultLoadPlanner", "DefaultSavePlanner"]
