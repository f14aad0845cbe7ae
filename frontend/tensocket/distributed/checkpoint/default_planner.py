"""Decisions about what each process reads and writes."""

from __future__ import annotations

from .refusals import Refused


class DefaultLoadPlanner(Refused):
    """Decides what each process reads: not supported."""


class DefaultSavePlanner(Refused):
    """Decides what each process writes: not supported."""


__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]
