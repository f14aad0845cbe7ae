"""Counters that programs add to, by name."""

from __future__ import annotations

import time
from typing import Any


class AggregationType:
    """How the values of a counter are combined."""

    SUM = 0
    AVG = 1



class LockingLogger:
    """Counters, summed or averaged."""

    def __init__(self) -> None:
        self._values: dict[str, list[int]] = {}
        self._kinds: dict[str, Any] = {}

    def set_aggregation_type(self, name: str, kind: Any) -> None:
        """Set whether a counter is a sum or an average."""
        self._kinds[name] = kind

    def get_counter_val(self, name: str) -> int:
        """Return the value of a counter, 0 without values."""
        values = self._values.get(name, [])
        if not values:
            return 0
        return sum(values) // len(values) if self._kinds.get(name) == AggregationType.AVG else sum(values)

    def add_stat_value(self, name: str, value: int) -> None:
        """Add a value to a counter."""
        self._values.setdefault(name, []).append(value)


class NoopLogger(LockingLogger):
    """A logger that keeps nothing."""

    def add_stat_value(self, name: str, value: int) -> None:
        """Keep nothing."""


_logger: list[LockingLogger] = [NoopLogger()]


def set_logger(logger: LockingLogger) -> LockingLogger:
    """Set the logger and return the former one."""
    before, _logger[0] = _logger[0], logger
    return before


def add_stat_value(name: str, value: int) -> None:
    """Add a value to a counter."""
    _logger[0].add_stat_value(name, value)


def time_point() -> int:
    """Return the time in nanoseconds."""
    return time.perf_counter_ns()


__all__ = ["LockingLogger", "NoopLogger", "add_stat_value", "set_logger", "time_point"]
