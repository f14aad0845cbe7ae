"""Run fuzzers from the command line: ``python tests/fuzz [FUZZER [WORD ...]] [--seconds S] [--seed N] ...``."""

from __future__ import annotations

import argparse
import importlib
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
#: Status of a process that ended with differences; 1 is that of one that hung.
FOUND = 3
sys.path.insert(0, str(FOLDER.parent))

campaigns = importlib.import_module("fuzz.campaign")


def fuzzers() -> list[str]:
    """Names of the modules beside this one that have a function ``fuzz``."""
    names = [path.stem for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith(("_", "test_", "conftest"))]
    return [name for name in names if hasattr(importlib.import_module(f"fuzz.{name}"), "fuzz")]


def main(arguments: list[str]) -> int:
    """Run one fuzzer, or each of them for its share of the time; the status is 1 if any found a difference."""
    names = fuzzers()
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=main.__doc__)
    parser.add_argument("fuzzer", nargs="?", choices=names, help="default: all of them")
    parser.add_argument("words", nargs="*", help="given to the fuzzer, such as names of operators")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("TENSOCKET_FUZZ", "60")))
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--cases", type=int, default=None, help="number of cases instead of seconds")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--list", action="store_true", help="what the fuzzer never draws, and no campaign")
    parser.add_argument("--trace", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args(arguments)
    if given.list:
        for name in [given.fuzzer] if given.fuzzer else names:
            module = importlib.import_module(f"fuzz.{name}")
            print(module.listing() if hasattr(module, "listing") else f"{name} draws from no list", flush=True)
        return 0
    chosen = [given.fuzzer] if given.fuzzer else names
    seed = campaigns.new_seed() if given.seed is None else given.seed
    status = 0
    for name in chosen:
        seconds = None if given.cases is not None else given.seconds / len(chosen)
        campaign = campaigns.Campaign(name, seed, seconds, given.cases, given.first, tuple(given.words), loud=True,
                            trace=given.trace)
        if given.trace is None:
            status |= watched(campaign)
            continue
        importlib.import_module(f"fuzz.{name}").fuzz(campaign)
        print(campaign.summary(), flush=True)
        status = FOUND if campaign.differences else status
    return status


def echoed(command: list[str]) -> int:
    """Run a command and print what it says, but for what LAPACK says of NaN; its status."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout or ():
            if "DLASCL" not in line:
                print(line, end="", flush=True)
    return process.returncode


def watched(campaign: Any) -> int:
    """Run a campaign in a child process, and go on behind the case in which it dies."""
    print(f"{campaign.fuzzer}: seed {campaign.seed}", flush=True)
    end = math.inf if campaign.seconds is None else time.monotonic() + campaign.seconds
    last = math.inf if campaign.cases is None else campaign.first + campaign.cases
    first, status = campaign.first, 0
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "case"
        while first < last and time.monotonic() < end:
            budget = ["--seconds", str(end - time.monotonic())] if campaign.cases is None else [
                "--cases", str(last - first)]
            ended = echoed([sys.executable, "-X", "faulthandler", str(FOLDER), campaign.fuzzer, *campaign.options,
                            "--seed", str(campaign.seed), "--first", str(first), *budget, "--trace", str(trace)])
            status |= ended != 0
            if ended in (0, FOUND):
                break
            campaign.number = int(trace.read_text())
            campaign.differ(f"the process died: status {ended}")
            first = campaign.number + 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
