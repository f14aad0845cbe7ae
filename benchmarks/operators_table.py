"""Print the table of ``results/operators.md`` from runs that time every operator of PyTorch's database.

    python benchmarks/operators_table.py --forward RUN1.json RUN2.json --gradient RUN3.json --machine "2-core …" \
        > benchmarks/results/operators.md

The files have a list ``rows`` of ``name``, ``size`` (small or medium), ``subject_us``, ``peer_us`` and ``ratio``, and a
list ``skipped``. A ratio is PyTorch's time over this one's; the lower one of all runs counts.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

#: Ratios below which rows are listed.
_LISTED: Final = 0.5
_BOUNDS: Final = (0.5, 0.8, 1.0, 2.0, 4.0)


class Row(NamedTuple):
    """One operator at one size: times in microseconds of the run with the lower ratio."""

    name: str
    size: str
    ours: float
    theirs: float
    ratio: float


def lowest(paths: Iterable[str]) -> dict[tuple[str, str], Row]:
    """Return the row with the lower ratio of all runs, by name and size."""
    found: dict[tuple[str, str], Row] = {}
    for path in paths:
        with open(path) as file:
            rows: Sequence[Mapping[str, Any]] = json.load(file)["rows"]
        for row in rows:
            key = row["name"], row["size"]
            made = Row(*key, row["subject_us"], row["peer_us"], row["ratio"])
            if key not in found or made.ratio < found[key].ratio:
                found[key] = made
    return found


def summary(name: str, rows: Sequence[Row]) -> str:
    """Return the line of a table for the distribution of ratios."""
    ratios = [row.ratio for row in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    edges = [0.0, *_BOUNDS, math.inf]
    counts = [sum(low <= x < high for x in ratios) for low, high in itertools.pairwise(edges)]
    share = sum(x >= 1 for x in ratios) / len(ratios)
    return f"| {name} | {len(ratios)} | {share:.0%} | {mean:.2f} | " + " | ".join(map(str, counts)) + " |"


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forward", nargs="+", required=True)
    parser.add_argument("--gradient", nargs="+", default=[])
    parser.add_argument("--machine", required=True)
    options = parser.parse_args()
    groups: list[tuple[str, list[Row]]] = []
    for title, paths in (("forward", options.forward), ("forward and backward", options.gradient)):
        every = lowest(paths).values()
        groups += [(f"{title}, {size}", [row for row in every if row.size == size])
                   for size in ("small", "medium") if any(row.size == size for row in every)]
    print("# Every operator of PyTorch's database beside PyTorch\n")
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(f"{today}, {options.machine}. Ratios: PyTorch's time over this one's, above 1 is faster; the lowest of all "
          "runs.\nSmall is the database's first sample, medium the same with about 64 K elements.\n")
    bounds = [f"below {_BOUNDS[0]}", *[f"to {x}" for x in _BOUNDS[1:]], f"from {_BOUNDS[-1]}"]
    print("| rows | number | at least 1.0 | geometric mean | " + " | ".join(bounds) + " |")
    print("|" + "---|" * (4 + len(bounds)))
    for name, rows in groups:
        print(summary(name, rows))
    for name, rows in groups:
        print(f"\n## Below {_LISTED}: {name}\n")
        print("| operator | ours, µs | PyTorch's, µs | ratio |\n|---|---|---|---|")
        for row in sorted(rows, key=lambda row: row.ratio):
            if row.ratio < _LISTED:
                print(f"| `{row.name}` | {row.ours:.1f} | {row.theirs:.1f} | {row.ratio:.2f} |")


if __name__ == "__main__":
    main()
