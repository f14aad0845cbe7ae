"""Time statements with two libraries by turns, in one process, and print the ratios.

Every short run counts the least time, which other programs on the machine hardly affect.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import timeit
from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Final

#: The seconds of a short run, and the number of short runs of each library.
SECONDS: Final = 0.002
REPETITIONS: Final = 200
#: The calls before the first run; operators get native entries after some thousands.
WARM: Final = 10_000
#: The seconds that these calls may take at most.
WARM_SECONDS: Final = 1.0


def make_timers(libraries: Sequence[Any], setup: str, table: dict[str, str]) -> dict[str, list[timeit.Timer]]:
    """Return for each row a timer per library; all rows have variables of their own."""
    timers: dict[str, list[timeit.Timer]] = {}
    for row, statement in table.items():
        timers[row] = []
        for library in libraries:
            space: dict[str, Any] = {"T": library}
            exec(setup, space)
            timers[row].append(timeit.Timer(statement, globals=space))
    return timers


def warm_up(timer: timeit.Timer) -> float:
    """Call a statement until its paths are the final ones; return the seconds of a call."""
    calls, seconds = 0, 0.0
    while calls < WARM and seconds < WARM_SECONDS:
        seconds += timer.timeit(100)
        calls += 100
    return seconds / calls


def measure(timers: dict[str, list[timeit.Timer]], repetitions: int) -> dict[str, list[float]]:
    """Return each row's least microseconds per call with each library; rows and libraries take turns."""
    counts = {row: [max(1, int(SECONDS / warm_up(timer))) for timer in pair] for row, pair in timers.items()}
    gc.collect()
    gc.freeze()
    least = {row: [math.inf] * len(pair) for row, pair in timers.items()}
    for _ in range(repetitions):
        for row, pair in timers.items():
            for k, (timer, count) in enumerate(zip(pair, counts[row], strict=True)):
                least[row][k] = min(least[row][k], timer.timeit(count) / count * 1e6)
    return least


def report(least: dict[str, list[float]], peer: str) -> list[dict[str, Any]]:
    """Print the table, and return the contents of the JSON file."""
    print(f"{'row':28}{'tensocket µs':>14}{peer + ' µs':>12}{'ratio':>8}")
    rows: list[dict[str, Any]] = [{"row": row, "us": us, "ratio": us[1] / us[0]} for row, us in least.items()]
    for row in rows:
        print(f"{row['row']:28}{row['us'][0]:14.2f}{row['us'][1]:12.2f}{row['ratio']:8.2f}")
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    share = sum(row["ratio"] >= 1 for row in rows) / len(rows)
    print(f"{len(rows)} rows, {share:.0%} at least 1.0, geometric mean {mean:.2f}")
    return rows


def main(description: str | None, setup: str, table: dict[str, str], arguments: Sequence[str] | None = None) -> int:
    """Run the command of a script.

    Args:
        description: The script's docstring.
        setup: Statements that make the variables of a row; ``T`` is the library.
        table: Statements by row.
        arguments: Words of the command line; by default those of the process.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default="torch", help="library to compare with (default: %(default)s)")
    parser.add_argument("--only", action="append", help="rows by shell pattern")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="runs of a row (default: %(default)s)")
    parser.add_argument("--below", type=float, help="exit with 1 if a ratio is lower")
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args(arguments)
    rows = {row: statement for row, statement in table.items()
            if not options.only or any(fnmatchcase(row, only) for only in options.only)}
    if not rows:
        parser.error(f"no row matches; the rows are {', '.join(table)}")
    libraries = [import_module("tensocket"), import_module(options.peer)]
    found = report(measure(make_timers(libraries, setup, rows), options.repetitions), options.peer)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1), "utf-8")
    return int(options.below is not None and any(row["ratio"] < options.below for row in found))
