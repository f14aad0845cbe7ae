"""Run fuzzers from the command line: ``python tests/fuzz [FUZZER [WORD ...]] [--seconds S] [--seed N] ...``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))


def fuzzers() -> list[str]:
    """Names of the modules beside this one that have a function ``fuzz``."""
    names = [path.stem for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith(("_", "test_", "conftest"))]
    return [name for name in names if hasattr(importlib.import_module(f"fuzz.{name}"), "fuzz")]


def main(arguments: list[str]) -> int:
    """Run one fuzzer, or each of them for its share of the time; the status is 1 if any found a difference."""
    from fuzz.campaign import Campaign, new_seed

    names = fuzzers()
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=main.__doc__)
    parser.add_argument("fuzzer", nargs="?", choices=names, help="default: all of them")
    parser.add_argument("words", nargs="*", help="given to the fuzzer, such as names of operators")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("TENSOCKET_FUZZ", "60")))
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--cases", type=int, default=None, help="number of cases instead of seconds")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    given = parser.parse_intermixed_args(arguments)
    chosen = [given.fuzzer] if given.fuzzer else names
    seed = new_seed() if given.seed is None else given.seed
    status = 0
    for name in chosen:
        seconds = None if given.cases is not None else given.seconds / len(chosen)
        campaign = Campaign(name, seed, seconds, given.cases, given.first, tuple(given.words), loud=True)
        print(f"{name}: seed {seed}", flush=True)
        importlib.import_module(f"fuzz.{name}").fuzz(campaign)
        print(campaign.summary(), flush=True)
        status |= bool(campaign.differences)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
