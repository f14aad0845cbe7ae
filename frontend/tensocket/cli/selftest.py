"""A computation that is easy to check, in its own process: a crashing driver ends only that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

import tensocket

#: Timeout in seconds; building the first kernel of a cold driver may take a while.
TIMEOUT: Final = 120.0
_EXPECTED: Final = [2.0, 3.0, 4.0]
_CHILD: Final = "from tensocket.cli.selftest import compute; import sys; print(compute(sys.argv[1]))"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a self-test.

    Attributes:
        passed: Whether the device computed the correct numbers.
        summary: One line.
        output: The process's output on stderr if it failed.
    """

    passed: bool
    summary: str
    output: str = ""


def compute(device: str) -> list[float]:
    """Add one to three elements on ``device``, using only public names."""
    return list((tensocket.tensor([1.0, 2.0, 3.0], device=device) + 1).tolist())


def run(device: str, *, timeout: float = TIMEOUT) -> Outcome:
    """Compute on ``device`` in a child process with the same ``sys.path``, and compare the results."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        # -P removes the working directory from the child's path; otherwise a stray numpy.py in it would be imported.
        child = subprocess.run([sys.executable, "-P", "-c", _CHILD, device], capture_output=True, text=True,
                               encoding="utf-8", errors="replace", timeout=timeout, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(False, f"failed: no result after {timeout:g} s")
    if child.returncode < 0:
        return Outcome(False, f"failed: the process was ended by {_signal(-child.returncode)}", child.stderr)
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Outcome(False, f"failed: {last}", child.stderr)
    got = (child.stdout.strip().splitlines() or ["nothing"])[-1]
    if got != str(_EXPECTED):
        return Outcome(False, f"failed: [1, 2, 3] + 1 gave {got}", child.stderr)
    return Outcome(True, f"passed: [1, 2, 3] + 1 gave {got} in {time.perf_counter() - start:.1f} s")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
