"""Measure the time of a call with next to nothing to compute: the least of many short runs.

Some short runs fall between two disturbances, so the least time is stable even on a busy machine, unlike a mean or the
best of a few long runs. All rows take turns, so that a disturbance hits all of them alike.

    python benchmarks/overhead.py                                    # this interpreter
    python benchmarks/overhead.py --tree ../before --tree .          # two checkouts by turns, with the ratio
    python benchmarks/overhead.py --python a/bin/python --python b/bin/python --json out.json
    python benchmarks/overhead.py --only add --only 'sum*'
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import timeit
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TextIO

#: The calls of a row in one short run, and the number of short runs.
CALLS: Final = 200
REPETITIONS: Final = 700
#: The calls before the first run; operators get native entries after some thousands.
WARM: Final = 10_000

#: The variables of the rows. Each row has its own.
SETUP: Final = """
one, other = ts.ones(1, device=device), ts.ones(1, device=device)
leaf = ts.ones(1, device=device, requires_grad=True)
a, b, m = (ts.randn(*shape, device=device) for shape in ((3, 5), (3, 5), (5, 5)))
wanting = ts.randn(3, 5, device=device, requires_grad=True)
layer = ts.nn.Linear(5, 4).to(device)
F = ts.nn.functional
def chain():
    y = leaf
    for _ in range(50):
        y = y * 1.01 + 0.1
    y.sum().backward()
"""

#: Maps a row to its statement and the statement's rough cost in additions; the run has that many times fewer calls.
ROWS: Final[dict[str, tuple[str, int]]] = {
    "add": ("one + other", 1),
    "add, gradient": ("leaf + other", 2),
    "multiply by a number": ("one * 2.0", 1),
    "exp": ("one.exp()", 1),
    "view": ("one.view(-1)", 2),
    "item of a tensor": ("one[0]", 2),
    "sum": ("one.sum()", 2),
    "compare": ("one > other", 1),
    "add in place": ("other.add_(1.0)", 1),
    "multiply 3×5": ("a * b", 1),
    "multiply 3×5, gradient": ("wanting * b", 2),
    "mean of a dimension 3×5": ("a.mean(1)", 4),
    "matrix product 3×5": ("a @ m", 1),
    "transpose 3×5": ("a.t()", 2),
    "slice 3×5": ("a[1:, ::2]", 4),
    "concatenate 3×5": ("ts.cat([a, b])", 4),
    "relu 3×5": ("F.relu(a)", 1),
    "softmax 3×5": ("ts.softmax(a, -1)", 2),
    "where 3×5": ("ts.where(a > b, a, b)", 2),
    "linear, relu, backward 3×5": ("ts.relu(layer(a)).sum().backward()", 50),
    "chain of 100, backward": ("chain()", 200),
    "zeros 10×10": ("ts.zeros(10, 10, device=device)", 2),
}


def calls_of(row: str, calls: int) -> int:
    """Return the number of calls of a row in a run in which an addition has ``calls`` calls."""
    return max(1, calls // ROWS[row][1])


def serve(device: str, warm: int, requests: Iterable[str], out: TextIO) -> None:
    """Time the rows that each request names, ``{"rows": [...], "calls": 200}``; answer in microseconds per call."""
    import tensocket as ts

    timers = {}
    for row, (statement, _) in ROWS.items():
        space: dict[str, Any] = {"ts": ts, "device": device}
        exec(SETUP, space)
        timers[row] = timeit.Timer(statement, globals=space)
    for request in requests:
        asked = json.loads(request)
        if asked.get("warm"):
            for row in asked["rows"]:
                timers[row].timeit(calls_of(row, warm))
            gc.collect()
            gc.freeze()
        counts = {row: calls_of(row, asked["calls"]) for row in asked["rows"]}
        found = {row: timers[row].timeit(count) / count * 1e6 for row, count in counts.items()}
        print(json.dumps(found), file=out, flush=True)


class Worker:
    """A process that times rows on request, under an interpreter of its own."""

    def __init__(self, python: str, device: str, warm: int) -> None:
        self.python = python
        # One thread: more threads add noise, and small calls do not use them.
        environment = {**os.environ, "TENSOCKET_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        command = [python, str(Path(__file__).resolve()), "--worker", "--device", device, "--warm", str(warm)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self, rows: Sequence[str], calls: int, *, warm: bool = False) -> dict[str, float]:
        """Return the microseconds per call in one run of each row."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"rows": rows, "calls": calls, "warm": warm}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{self.python} ended with status {self._process.wait()}")
        return {row: float(value) for row, value in json.loads(answer).items()}

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def measure(workers: Sequence[Worker], rows: Sequence[str], calls: int, repetitions: int) -> list[dict[str, float]]:
    """Return each row's least time under each worker; the workers take turns, and each turn runs all rows."""
    least = [worker.time(rows, calls, warm=True) for worker in workers]
    for _ in range(repetitions - 1):
        for best, worker in zip(least, workers, strict=True):
            for row, value in worker.time(rows, calls).items():
                best[row] = min(best[row], value)
    return least


def report(names: Sequence[str], least: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Print the table, and return the contents of the JSON file."""
    compared = len(least) == 2
    heads = ["first µs", "second µs", "ratio"] if compared else ["µs a call"]
    for number, name in enumerate(names):
        print(f"{('first', 'second')[number] + ': ' if compared else ''}{name}")
    print(f"{'row':28}" + "".join(f"{head:>12}" for head in heads))
    rows: list[dict[str, Any]] = []
    for row in least[0]:
        times = [best[row] for best in least]
        ratio = {"ratio": times[1] / times[0]} if compared else {}
        rows.append({"row": row, "us": times, **ratio})
        print(f"{row:28}" + "".join(f"{value:12.3f}" for value in [*times, *ratio.values()]))
    if compared:
        print(f"{'geometric mean':28}{math.exp(sum(math.log(row['ratio']) for row in rows) / len(rows)):36.3f}")
    return {"interpreters": list(names), "rows": rows}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options; ``python`` holds the interpreters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", action="append", default=[], help="checkout with a .venv; two are compared")
    parser.add_argument("--python", action="append", default=[], help="interpreter to measure; two are compared")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", action="append", help="rows by shell pattern")
    parser.add_argument("--calls", type=int, default=CALLS, help="calls in a short run (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="runs of a row (default: %(default)s)")
    parser.add_argument("--warm", type=int, default=WARM, help="calls before the first run (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = "Scripts" if os.name == "nt" else "bin"
    trees = [str(Path(tree).absolute() / ".venv" / folder / "python") for tree in options.tree]
    options.python = [*trees, *options.python] or [sys.executable]
    if len(options.python) > 2:
        parser.error("two environments can be compared, not more")
    if min(options.calls, options.repetitions) < 1:
        parser.error("--calls and --repetitions are at least 1")
    options.rows = [row for row in ROWS if not options.only or any(fnmatchcase(row, only) for only in options.only)]
    if not options.rows:
        parser.error(f"no row matches; the rows are {', '.join(ROWS)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = parsed(arguments)
    if options.worker:
        serve(options.device, options.warm, sys.stdin, sys.stdout)
        return 0
    workers = [Worker(python, options.device, options.warm) for python in options.python]
    try:
        found = report(options.python, measure(workers, options.rows, options.calls, options.repetitions))
    finally:
        for worker in workers:
            worker.close()
    if options.json is not None:
        found = {"calls": options.calls, "repetitions": options.repetitions, **found}
        options.json.write_text(json.dumps(found, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
