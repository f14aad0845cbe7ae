"""The command ``tensocket conformance``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from . import report
from .case import DEFAULT_TIER, TIERS, Outcome, Result
from .runner import Run, open_run
from .suite import BadProfile, NothingSelected, Selection, UnknownSubject, all_cases, subject

_USAGE = 2
_PROFILE = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments after ``tensocket conformance``; None takes those of the process.

    Returns:
        0 if nothing failed, 1 after a failure, 2 if not every case could run, 3 for a bad profile.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    repeat = arguments[:1] == ["repro"]
    options = _repro_parser().parse_args(arguments[1:]) if repeat else _parser().parse_args(arguments)
    try:
        return _repeat(options) if repeat else _run(options)
    except (UnknownSubject, NothingSelected) as error:
        print(f"tensocket conformance: {error}", file=sys.stderr)
        return _USAGE
    except BadProfile as error:
        print(f"tensocket conformance: {error}", file=sys.stderr)
        return _PROFILE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tensocket conformance", description="Validate the backend of a device.",
        epilog="'tensocket conformance repro CASE_ID --device NAME --seed N' repeats one case.")
    parser.add_argument("device", metavar="NAME", help="the device: opencl, or opencl:1")
    parser.add_argument("--tier", choices=TIERS, help=f"highest tier to run (default: {DEFAULT_TIER})")
    parser.add_argument("--quick", action="store_true", help="a sample that takes less than a minute")
    parser.add_argument("--select", metavar="GLOB", help="only cases whose id matches, and what they need")
    parser.add_argument("--shard", metavar="I/N", type=_shard, default=(1, 1), help="only the I-th of N parts")
    parser.add_argument("--seed", type=int, default=0, help="changes the random values (default: %(default)s)")
    parser.add_argument("--report", metavar="FILE", type=Path, help="write a JSON report")
    parser.add_argument("--list", action="store_true", help="print the ids of the selected cases and run nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every case")
    return parser


def _shard(text: str) -> tuple[int, int]:
    """Return the numbers of ``I/N``.

    Raises:
        ArgumentTypeError: These are not two numbers with 1 <= I <= N.
    """
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with 1 <= I <= N, such as 2/8")
    return int(part), int(parts)


def _repro_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tensocket conformance repro", description="Repeat one case.")
    parser.add_argument("case", metavar="CASE_ID")
    parser.add_argument("--device", metavar="NAME", required=True)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _run(options: argparse.Namespace) -> int:
    tested = subject(options.device, options.seed)
    available = all_cases(tested.dtypes)
    selection = Selection(options.tier, options.quick, options.select, options.shard)
    chosen = selection.apply(available)
    if options.list:
        print("\n".join(case.id for case in chosen))
        return 0
    console = Console(highlight=False, soft_wrap=True)
    run = open_run(tested, available)
    start = time.perf_counter()
    results = run.all(chosen, lambda result: _tell(console, result, options.verbose))
    seconds = time.perf_counter() - start
    report.show(console, run, results, selection, len(available), seconds)
    if options.report is not None:
        report.write(options.report, report.as_dict(run, results, selection, len(available), seconds))
    return report.exit_code(results)


def _tell(console: Console, result: Result, verbose: bool) -> None:
    if verbose or result.outcome is Outcome.FAIL:
        seconds = f"{result.seconds * 1000:8.1f} ms" if verbose else ""
        console.print(Text(f"{result.outcome.value:<11} {result.case.id} {seconds}"))
        if result.message:
            console.print(Text(f"            {result.message}", style="dim"))


def _repeat(options: argparse.Namespace) -> int:
    tested = subject(options.device, options.seed)
    cases = {case.id: case for case in all_cases(tested.dtypes)}
    if options.case not in cases:
        print(f"tensocket conformance: {options.device!r} has no case {options.case!r}", file=sys.stderr)
        return _USAGE
    # Run without prerequisites: whoever repeats a case wants to see only this one.
    run = Run(tested, {})
    result = run.one(cases[options.case])
    console = Console(highlight=False, soft_wrap=True)
    _tell(console, result, verbose=True)
    if result.metric is not None:
        console.print(f"            worst element {result.metric.index}: {result.metric.got!r}, expected "
                      f"{result.metric.expected!r}; {result.metric.error:.3g} of the allowed error")
    if result.log:
        console.print(Text(result.log))
    return report.exit_code([result])
