"""A timer for statements whose devices may run asynchronously."""

from __future__ import annotations

import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import tensocket
from tensocket_core.device import device_states
from tensocket_operators import get_num_threads, set_num_threads


def timer() -> float:
    """Return the time in seconds, after all work on opened devices has finished."""
    for entry in device_states():
        if entry.holds_data:
            entry.runtime.synchronize()
    return timeit.default_timer()


@dataclass(frozen=True)
class TaskSpec:
    """The subject of a measurement: the statement, its setup, and its names in tables."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        return ": ".join(filter(None, [self.label or self.stmt.strip(), self.sub_label]))


@dataclass
class Measurement:
    """Times of runs of one statement.

    Attributes:
        number_per_run: Number of executions of the statement in each run.
        raw_times: Seconds of the runs.
        task_spec: The measured task.
        metadata: Any other data.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[str, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds per execution of the statement in each run."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        """Median in seconds."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Mean in seconds."""
        return statistics.mean(self.times)

    @property
    def iqr(self) -> float:
        """Interquartile range in seconds; 0 for a single run."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        """Return the title of the measured task."""
        return self.task_spec.title

    def __repr__(self) -> str:
        runs = len(self.raw_times)
        return (f"<tensocket.utils.benchmark.Measurement>\n{self.title}\n  Median: {_in_unit(self.median)}\n"
                f"  IQR:    {_in_unit(self.iqr)}\n  {runs} measurement{'s' if runs > 1 else ''}, "
                f"{self.number_per_run} runs per measurement, {self.task_spec.num_threads} "
                f"thread{'s' if self.task_spec.num_threads > 1 else ''}")


def _in_unit(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.2f} ns"


class Timer:
    """A timer of a statement, by default on one thread.

    Args:
        stmt: The statement; the common indentation of several lines is removed.
        setup: Statement that runs once before each measurement.
        global_setup: Accepted as in PyTorch, for other languages than Python.
        timer: A function that returns seconds.
        globals: Names that the statement uses, in addition to ``torch``.
        label: Its name in tables, with those that follow.
        sub_label: Its row.
        description: Its column.
        env: Description of the environment.
        num_threads: Number of threads of large kernels.
        language: Accepted as in PyTorch.
    """

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
                 timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None, label: str | None = None,
                 sub_label: str | None = None, description: str | None = None, env: str | None = None,
                 num_threads: int = 1, language: Any = 0) -> None:
        stmt, setup = (textwrap.dedent(code).removeprefix("\n").rstrip() for code in (stmt, setup))
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = timeit.Timer(stmt, setup, timer, {"torch": tensocket, **(globals or {})})

    def _timed(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return self._timer.timeit(number)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement ``number`` times and take one measurement."""
        self._timed(max(1, number // 100))
        return Measurement(number, [self._timed(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> list[float]:
        """Return the seconds of ``repeat`` measurements of ``number`` runs."""
        return [self._timed(max(1, number)) for _ in range(max(1, repeat))]

    def _block(self, shortest: float) -> int:
        """Return the number of runs after which the time for reading the clock is negligible."""
        number = 1
        while self._timed(number) < shortest:
            number *= 10
        return number

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
                          ) -> Measurement:
        """Measure blocks of runs until they have taken ``min_run_time`` seconds in total.

        Args:
            callback: Called with the number of runs and the seconds of each block.
            min_run_time: Seconds.
        """
        number, times = self._block(min(1e-3, min_run_time)), list[float]()
        while sum(times) < min_run_time:
            times.append(self._timed(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable[[int, float], Any] | None = None) -> Measurement:
        """Measure until the times spread by less than ``threshold`` times their median, or ``max_run_time`` is over."""
        number, times = self._block(min(1e-3, min_run_time)), list[float]()
        while sum(times) < max_run_time:
            times.append(self._timed(number))
            if callback is not None:
                callback(number, times[-1])
            measured = Measurement(number, times, self._task_spec)
            if sum(times) >= min_run_time and len(times) > 3 and measured.iqr <= threshold * measured.median:
                break
        return Measurement(number, times, self._task_spec)


class Compare:
    """A table of measurements: a row for each statement, a column for each description.

    Args:
        results: Measurements.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Do nothing: times have three digits."""

    def colorize(self, rowwise: bool = False) -> None:
        """Do nothing: tables are plain text."""

    def __str__(self) -> str:
        rows = list(dict.fromkeys((result.title, result.task_spec.num_threads) for result in self._results))
        columns = list(dict.fromkeys(result.task_spec.description or "" for result in self._results))
        cells = {(result.title, result.task_spec.num_threads, result.task_spec.description or ""):
                 _in_unit(result.median) for result in self._results}
        lines = [["", *columns]]
        lines += [[f"{title} ({threads} threads)", *(cells.get((title, threads, column), "") for column in columns)]
                  for title, threads in rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                         for line in lines)

    def print(self) -> None:
        """Print the table."""
        print(self)
