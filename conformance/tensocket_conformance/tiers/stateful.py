"""Tier T5: compiled programs whose state changes between calls, beside plain ones.

A program is a generator over a world. It makes its tensors and functions, calls them, changes what they read, and
yields what it can tell. Two worlds run it, one whose functions are compiled and one whose functions are plain, and both
must tell the same: values, geometry, versions, gradients, errors. Graphs must serve some of the calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensocket as ts

from ..case import Case, NotRun
from ..numerics import Failure, Metric
from ..subject import Subject
from .compiled import FIRST, OPTIONS, compare_values, form_of, require_no_failure

Program = Callable[["World"], Iterator[Any]]
#: Calls until graphs serve, and some more.
CALLS = FIRST + 3


@dataclass(frozen=True)
class Stateful:
    """A program.

    Attributes:
        program: The generator.
        hits: Least number of calls that graphs must serve.
        quick: Whether the quick run includes it.
    """

    program: Program
    hits: int
    quick: bool = False


class World:
    """The surroundings of a program: the device, random numbers that are the same in both worlds, and ``compile``.

    Args:
        subject: The device under test.
        name: Where random numbers begin.
        compiled: Whether functions are compiled.
    """

    def __init__(self, subject: Subject, name: str, compiled: bool) -> None:
        self.subject, self.device = subject, subject.device
        self._compiles, self._rng = compiled, subject.rng(name)
        self.runs: list[Any] = []

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is to be called in place of a function."""
        if not self._compiles:
            return function
        run: Callable[..., Any] = ts.compile(function, options=OPTIONS)
        self.runs.append(run)
        return run

    def floats(self, *shape: int) -> Any:
        """Return a tensor of floats between -2 and 2."""
        return self.subject.put(self._rng.uniform(-2, 2, shape).astype(np.float32), "f32")

    def integers(self, high: int, *shape: int) -> Any:
        """Return a tensor of integers from 0 to below ``high``."""
        return self.subject.put(self._rng.integers(0, high, shape), "i64")

    def module(self, module: Any) -> Any:
        """Return a module on the device, with random parameters."""
        module.to(self.device)
        with ts.no_grad():
            for x in module.parameters():
                x.copy_(self.floats(*x.shape))
        return module

    def hits(self) -> int:
        """Return the number of calls that graphs served."""
        return sum(ts.compiler.compiled(run).report().hits for run in self.runs)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a call, or the type and the text of its error."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def cases(programs: Mapping[str, Stateful], declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield a case for each program, for a device that declares the element types ``declared``."""
    if {"f32", "i64", "b8"} <= set(declared):
        for name, stateful in programs.items():
            yield _case(name, stateful)


def _case(name: str, stateful: Stateful) -> Case:
    case_id = f"T5.state.{name}"

    def check(subject: Subject) -> Metric | None:
        if not hasattr(getattr(ts, "compiler", None), "compiled"):
            raise NotRun("the compiler is not installed")
        compare_worlds(subject, case_id, stateful)
        return None

    return Case(case_id, check, quick=stateful.quick)


def compare_worlds(subject: Subject, case_id: str, stateful: Stateful) -> None:
    """Run a program in both worlds.

    Raises:
        Failure: Something differs, or graphs served too few calls.
        NotRun: Nothing is captured in this process.
    """
    plain = tell(subject, stateful.program, World(subject, case_id, compiled=False))
    world = World(subject, case_id, compiled=True)
    found = tell(subject, stateful.program, world)
    reports = [ts.compiler.compiled(run).report() for run in world.runs]
    if not any(report.hits or report.break_reasons for report in reports):
        raise NotRun("the compiler makes no graphs in this process")
    for report in reports:
        require_no_failure(report)
    if len(found) != len(plain):
        raise Failure(f"{len(found)} observations, {len(plain)} of the plain program")
    for number, (x, y) in enumerate(zip(found, plain, strict=True)):
        compare(x, y, f"observation {number}")
    subject.graphs[case_id] = "" if world.hits() >= stateful.hits else f"graphs serve {world.hits()} calls"
    if subject.graphs[case_id]:
        raise Failure(f"graphs serve {world.hits()} calls, {stateful.hits} are expected; "
                      f"{[reason for report in reports for reason in report.break_reasons]}")


def tell(subject: Subject, program: Program, world: World) -> list[Any]:
    """Return all that a program tells, as values that later calls leave alone."""
    ts.manual_seed(subject.seed)
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="the compiler failed")
        for each in program(world):
            told.append(_frozen(subject, each))
    told.append(np.array(ts.get_rng_state()))
    return told


def _frozen(subject: Subject, value: Any) -> Any:
    if isinstance(value, ts.Tensor):
        return subject.get(value), f"{form_of(value)} leaf={value.is_leaf} version={value._version}"
    if isinstance(value, (list, tuple)):
        return [_frozen(subject, x) for x in value]
    if isinstance(value, dict):
        return {key: _frozen(subject, x) for key, x in value.items()}
    return repr(value)


def compare(found: Any, wanted: Any, name: str) -> None:
    """Compare two observations.

    Raises:
        Failure: They differ.
    """
    if isinstance(wanted, np.ndarray) and isinstance(found, np.ndarray) and found.shape == wanted.shape:
        compare_values(found, wanted, name, exact=False)
    elif isinstance(wanted, (list, tuple)) and isinstance(found, (list, tuple)) and len(found) == len(wanted):
        for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
            compare(x, y, f"{name}[{k}]")
    elif isinstance(wanted, dict) and isinstance(found, dict) and list(found) == list(wanted):
        for key in wanted:
            compare(found[key], wanted[key], f"{name}[{key!r}]")
    elif type(found) is not type(wanted) or isinstance(wanted, (np.ndarray, list, dict)) or found != wanted:
        raise Failure(f"{name} is {found!r:.120}; that of the plain program is {wanted!r:.120}")
