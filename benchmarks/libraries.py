"""Measure models of libraries that are written for PyTorch, with tensocket and with PyTorch.

    python benchmarks/libraries.py --peer-path FOLDER          # FOLDER has torch; this environment has the libraries
    python benchmarks/libraries.py --peer-python PYTHON        # an environment with torch and the libraries
    python benchmarks/libraries.py --peer-python PYTHON --only 'gpt2*' --below 1.0

Transformers generate text and train adapters, a vision transformer and a ResNet train, a U-net denoises, and a network
of graph convolutions trains. Each library has a process of its own, with equally many threads; the processes take
turns, and the least time of the runs counts, which other programs on the machine hardly affect. Weights and data are
equal, so that results must agree. The ratio is PyTorch's time over tensocket's: above 1, tensocket is faster.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from library_workloads import ROWS

#: The runs before the first measured one, in which operators get their final paths; the measured ones, and the seconds
#: of these, at most.
WARM: Final = 30
RUNS: Final = 20
SECONDS: Final = 20.0
#: By how much results may differ, relative to PyTorch's.
TOLERANCE: Final = 1e-2


class Process:
    """A process that runs one row with one library, whenever it is told to."""

    def __init__(self, command: Sequence[str], row: str, threads: int, path: Path | None = None) -> None:
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        quiet = {"TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}
        paths = [str(path)] if path is not None else []
        searched = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [*command, __file__, "--worker", row, "--threads", str(threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **counts, **quiet, "PYTHONPATH": searched})

    def run(self) -> tuple[float, float]:
        """Return the seconds of a run, and its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("run", file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a process ended with exit code {self._process.wait()}: {self._process.args!r}")
        seconds, result = json.loads(answer)
        return seconds, result

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve(row: str, threads: int) -> None:
    """Run a row for every line of the standard input, and write the seconds and the result of each run."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    run = ROWS[row](torch)
    for _ in sys.stdin:
        began = time.perf_counter()
        result = run()
        print(json.dumps([time.perf_counter() - began, result]), file=answers, flush=True)


def compare(pair: Sequence[Process], runs: int) -> tuple[list[float], bool]:
    """Return the least milliseconds of each process, and whether the first results agree."""
    results = [process.run()[1] for process in pair]
    for _ in range(WARM - 1):
        for process in pair:
            process.run()
    least, began = [math.inf] * len(pair), time.perf_counter()
    for _ in range(runs):
        for k, process in enumerate(pair):
            least[k] = min(least[k], 1e3 * process.run()[0])
        if time.perf_counter() - began > SECONDS:
            break
    return least, math.isclose(*results, rel_tol=TOLERANCE)


def report(rows: Sequence[dict[str, Any]]) -> None:
    """Print the last lines of the table."""
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    share = sum(row["ratio"] >= 1 for row in rows) / len(rows)
    print(f"{len(rows)} rows, {share:.0%} at least 1.0, geometric mean {mean:.2f}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter with tensocket and the libraries")
    parser.add_argument("--peer-python", help="interpreter with PyTorch and the libraries (default: as --python)")
    parser.add_argument("--peer-path", type=Path, help="folder with PyTorch, searched before the interpreter's")
    parser.add_argument("--threads", type=int, default=1, help="of each library (default: %(default)s)")
    parser.add_argument("--only", action="append", help="rows by shell pattern")
    parser.add_argument("--runs", type=int, default=RUNS, help="measured runs of a row (default: %(default)s)")
    parser.add_argument("--below", type=float, help="exit with 1 if a ratio is lower")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit code."""
    options = parse(arguments)
    if options.worker:
        serve(options.worker, options.threads)
        return 0
    names = [row for row in ROWS if not options.only or any(fnmatchcase(row, only) for only in options.only)]
    if not names:
        raise SystemExit(f"no row matches; the rows are {', '.join(ROWS)}")
    rows: list[dict[str, Any]] = []
    print(f"{'row':28}{'tensocket ms':>14}{'torch ms':>12}{'ratio':>8}")
    for name in names:
        pair = [Process([options.python, "-m", "tensocket.as_torch"], name, options.threads),
                Process([options.peer_python or options.python], name, options.threads, options.peer_path)]
        ms, agree = compare(pair, options.runs)
        rows.append({"row": name, "ms": ms, "ratio": ms[1] / ms[0], "agree": agree})
        print(f"{name:28}{ms[0]:14.2f}{ms[1]:12.2f}{rows[-1]['ratio']:8.2f}{'' if agree else '  results differ'}",
              flush=True)
        for process in pair:
            process.close()
    report(rows)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), "utf-8")
    wrong = any(not row["agree"] for row in rows)
    return int(wrong or (options.below is not None and any(row["ratio"] < options.below for row in rows)))


if __name__ == "__main__":
    sys.exit(main())
