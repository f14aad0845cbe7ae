"""The time for compiling: programs that end soon, or that call a function a few times only, lose little by it.

A graph pays if its function is called often enough, which nobody knows beforehand. So a function waits with each step
towards a graph until one of two things holds: the step takes no more time than the function's calls so far took; or all
compiling, the step included, takes a small share of the program's time, and the step itself is short or takes
less than twice as long as these calls. Estimates of a step's time come from the function's earlier steps, else from its
calls; the account shows what steps really took, so that a wrong estimate delays the steps of all functions.
"""

from __future__ import annotations

import math
import os
from time import perf_counter
from typing import Final

from tensocket_plugins.contract.errors import ArgumentError

#: The share of a program's time that compiling may take, beside the first ``CREDIT`` seconds.
SHARE: Final = 0.05
CREDIT: Final = 0.1
#: How many times the function's time without graphs a step may take: in any case, and if the program affords it.
HOT: Final = 1.0
WARM: Final = 2.0
#: Seconds of a short step.
SHORT: Final = 0.1
#: Most calls between two looks at whether the next step may come, and the seconds that these calls may take.
REST: Final = 32
REST_SECONDS: Final = 2e-4
#: The first observation of a function is expected to take some seconds, and the time of some calls of it.
OBSERVATION: Final = (0.005, 6.0)
#: The first capture is expected to take the time of some observations, and at least so many times what the observed run
#: took longer than a plain one: this grows with the operators, and does not contain the guards.
CAPTURE: Final = 4.0
CAPTURE_OF_RUN: Final = 10.0


class _Account:
    """The time of the process.

    Attributes:
        spent: Seconds that compiling took so far.
        observes: Whether a call has been observed.
    """

    def __init__(self) -> None:
        self.spent, self.observes, self._began = 0.0, False, perf_counter()

    def affords(self, seconds: float, share: float) -> bool:
        """Whether compiling may take some more seconds."""
        return self.spent + seconds <= CREDIT + share * (perf_counter() - self._began)


ACCOUNT: Final = _Account()


class Stopwatch:
    """The time since it was made, without the compiling inside."""

    __slots__ = ("_began", "_spent")

    def __init__(self) -> None:
        self._began, self._spent = perf_counter(), ACCOUNT.spent

    def seconds(self) -> float:
        """Return the time so far."""
        return max(perf_counter() - self._began - (ACCOUNT.spent - self._spent), 0.0)


class Budget:
    """The budget of one function.

    Args:
        share: The share of the program's time that compiling may take; infinite for steps at once.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._total, self._least = 0.0, math.inf  # of calls without graphs
        self._rest = self._skipped = self._left = 0
        self._observation: float | None = None
        self._run = 0.0
        self._capture: float | None = None

    def rests(self) -> bool:
        """Whether a call is one of those that nobody looks at, because the step before them had to wait."""
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def add_call(self, watch: Stopwatch) -> None:
        """Add a call that ran without a graph, and those before it that nobody looked at."""
        seconds = watch.seconds()
        self._total += seconds * (1 + self._skipped)
        self._least = min(self._least, seconds)
        self._skipped = self._left

    def add_step(self, watch: Stopwatch, *, captures: bool) -> None:
        """Add a call that was observed or captured: all but the call itself is compiling."""
        seconds = watch.seconds()
        extra = max(seconds - self._least, 0.0) if self._least < math.inf else seconds
        ACCOUNT.spent += extra
        self._total += seconds - extra
        if captures:
            self._capture = extra
        else:
            self._observation = extra

    def add_observed_run(self, watch: Stopwatch) -> None:
        """Add the run of a call that is being observed, without what is made of it.

        The first one of a process does not count: it imports modules.
        """
        if ACCOUNT.observes and self._least < math.inf:
            self._run = max(watch.seconds() - self._least, 0.0)
        ACCOUNT.observes = True

    def add_check(self, watch: Stopwatch) -> None:
        """Add a call that ran both as a graph and without one."""
        ACCOUNT.spent += watch.seconds()

    def admits(self, *, captures: bool) -> bool:
        """Whether the next step may come now: an observation, or a capture."""
        if self._share == math.inf:
            return True
        seconds = self._cost(captures)
        if seconds <= HOT * self._total or (seconds <= max(SHORT, WARM * self._total)
                                            and ACCOUNT.affords(seconds, self._share)):
            self._rest = 0
            return True
        most = int(REST_SECONDS / max(self._least, REST_SECONDS / REST))
        self._rest = self._left = min(2 * self._rest + 1, most)
        return False

    def _cost(self, captures: bool) -> float:
        """Return how long a step is expected to take."""
        fixed, calls = OBSERVATION
        call = self._least if self._least < math.inf else 0.0
        observation = fixed + calls * call if self._observation is None else self._observation
        if not captures:
            return observation
        if self._capture is not None:
            return self._capture
        return max(CAPTURE * observation, CAPTURE_OF_RUN * self._run)


def share_of_environment() -> float:
    """Return the number in ``TENSOCKET_COMPILE_BUDGET``; ``SHARE`` if there is none.

    Raises:
        ArgumentError: It is not a number, or negative.
    """
    return checked_share(os.environ.get("TENSOCKET_COMPILE_BUDGET", SHARE), "TENSOCKET_COMPILE_BUDGET=")


def checked_share(value: object, title: str) -> float:
    """Return a share of the program's time.

    Raises:
        ArgumentError: It is not a number, or negative.
    """
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = -1.0
    if not share >= 0:
        raise ArgumentError("compile", f"{title}{value!r}", "it is the share of the program's time that compiling may "
                            "take", "pass a number from 0 on; float('inf') compiles at once")
    return share
