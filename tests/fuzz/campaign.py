"""Count what a fuzzer calls, collect the differences that it finds, and print a line that reproduces each.

A fuzzer is a function over a ``Campaign``. It asks for cases, each with random numbers of its own, so that a single
case can be repeated by its number.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

#: Seconds after which a case that is watched has hung.
SLOW = 300


@dataclass(frozen=True)
class Difference:
    """A result that is not the reference's.

    Attributes:
        what: The call and both results, in a few lines.
        again: The command that runs the case again.
    """

    what: str
    again: str


@dataclass
class Campaign:
    """One run of one fuzzer.

    Attributes:
        fuzzer: Its name, which is also the name of its module.
        seed: Where its random numbers begin.
        seconds: How long it asks for new cases; None: no limit.
        cases: How many cases it runs; None: no limit.
        first: Number of the first case.
        options: Words behind the fuzzer's name on the command line, such as the names of operators.
        loud: Whether to print each difference when it is found.
        most: Differences after which it stops.
        trace: A file that has the number of the current case, so that it is known if the process dies.
        calls: Calls made so far.
        differences: Those found so far.
    """

    fuzzer: str
    seed: int = 0
    seconds: float | None = None
    cases: int | None = None
    first: int = 0
    options: tuple[str, ...] = ()
    loud: bool = False
    most: int = 100
    trace: Path | None = None
    calls: int = 0
    ran: int = 0
    differences: list[Difference] = field(default_factory=list)
    number: int = 0

    def each(self) -> Iterator[tuple[int, np.random.Generator]]:
        """Number and random numbers of each case, until the budget is spent."""
        if self.seconds is None and self.cases is None:
            raise ValueError("a campaign needs a number of seconds or of cases")
        end = None if self.seconds is None else time.monotonic() + self.seconds
        number = self.first
        while (self.cases is None or number < self.first + self.cases) and len(self.differences) < self.most:
            if end is not None and time.monotonic() >= end:
                break
            self.number = number
            if self.trace is not None:
                self.trace.write_text(str(number))
                faulthandler.dump_traceback_later(SLOW, exit=True)
            yield number, np.random.default_rng([self.seed, number])
            self.ran += 1
            number += 1
        faulthandler.cancel_dump_traceback_later()

    def called(self, count: int = 1) -> None:
        """Count calls of the project."""
        self.calls += count

    def differ(self, what: str) -> None:
        """Note that the current case gave a wrong result."""
        options = "".join(f" {word}" for word in self.options)
        again = f"python tests/fuzz {self.fuzzer}{options} --seed {self.seed} --first {self.number} --cases 1"
        self.differences.append(Difference(what, again))
        if self.loud:
            print(f"{what}\n    {again}", flush=True)

    def summary(self) -> str:
        """How much was done and found, in one line."""
        return (f"{self.fuzzer}: seed {self.seed}, {self.ran} cases from {self.first}, {self.calls} calls, "
                f"{len(self.differences)} differences")

    def check(self) -> None:
        """Fail with a reproducer for each difference.

        Raises:
            AssertionError: There are differences, or nothing was called.
        """
        lines = [f"{x.what}\n    {x.again}" for x in self.differences]
        assert not lines, "\n".join([self.summary(), *lines])
        assert self.calls, "the fuzzer called nothing"


def new_seed() -> int:
    """A seed that differs from run to run."""
    return int.from_bytes(np.random.default_rng().bytes(4), sys.byteorder)
