"""Plans of C libraries: the steps of a run, with sizes that change as variables, and a place for every block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import CompileError, TensocketError
from tensocket_plugins.ir.nodes import Program

from ..memory.plan import last_uses, plan_memory
from .device import Check, Launch, Routine
from .polynomials import DEGREE, Polynomial, fit, grid
from .runs import Block, Run, Step
from .tidying import without_unused, written_out_program


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a step.

    Attributes:
        value: It, or a polynomial of the sizes.
        form: How it follows from the polynomial: ``int``, ``float``, or ``inverse`` for one divided by it.
    """

    value: float | Polynomial
    form: str = "float"


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a step: its block, its first element there, and its dtype."""

    block: int
    offset: Polynomial
    dtype: DType
    written: bool


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step.

    Attributes:
        kind: ``kernel``, ``check``, ``fill`` or the name of a routine.
        program: The program, the routine, or the check.
        operands: Its arrays, then its temporaries.
        numbers: Its numbers.
    """

    kind: str
    program: Program | Routine | Check | None
    operands: tuple[Operand, ...]
    numbers: tuple[Number, ...]


@dataclass(slots=True)
class Plan:
    """Everything that the C code needs to know.

    Attributes:
        steps: The steps.
        blocks: The blocks.
        offsets: Place of each temporary in the arena, in bytes.
        arena: Bytes of the arena.
        programs: The different programs, whose kernels have names of their own.
        shapes: Shapes of the outputs.
    """

    steps: list[PlannedStep]
    blocks: list[Block]
    offsets: dict[int, int]
    arena: int
    programs: list[Program] = field(default_factory=list)
    shapes: list[list[Polynomial]] = field(default_factory=list)


#: Runs that must agree on their steps: those that give the numbers, and two that confirm them.
_NEEDED: Final = DEGREE + 3
#: Most runs until as many agree. A size that happens to be that of another dimension may change the steps of its run.
_TRIES: Final = 16


def make_plan(trace: Callable[[tuple[int, ...]], Run], lows: Sequence[int], highs: Sequence[int]) -> Plan:
    """Return the plan of a program for a range of sizes.

    Runs with large sizes give the steps: their kernels are right for other sizes, too, because no program contains a
    size. Numbers are polynomials of the sizes, which runs with further sizes confirm.

    Args:
        trace: Runs the program with some sizes.
        lows: The smallest sizes.
        highs: The largest sizes.

    Raises:
        CompileError: A number of a launch is no such polynomial, or runs with similar sizes differ in their steps.
    """
    run = cache(trace)
    points = _agreeing(run, lows, highs)
    runs = [run(point) for point in grid(points[:DEGREE + 1])]
    if not all(_is_same(runs[0], other) for other in runs):
        raise _differ(runs[0].sizes)
    others = [run(point) for point in points[DEGREE + 1:]]
    far = [x for x in map(run, _far(lows, highs)) if _is_same(runs[0], x)]
    return _Planner(runs, [*others, *far], highs).plan()


def _agreeing(run: Callable[[tuple[int, ...]], Run], lows: Sequence[int], highs: Sequence[int]
              ) -> list[tuple[int, ...]]:
    """Return sizes whose runs make the same steps: large ones, and larger ones if the range is small.

    Raises:
        CompileError: Too few of them do.
    """
    inside = [tuple([max(high - step - 3 * axis, low) for axis, (low, high) in enumerate(
        zip(lows, highs, strict=True))]) for step in range(_TRIES)]
    above = [tuple([high + step + 3 * axis for axis, high in enumerate(highs)]) for step in range(1, _TRIES)]
    groups: list[list[tuple[int, ...]]] = []
    for point in dict.fromkeys([*inside, *above]):
        try:
            found = run(point)
        except TensocketError:
            if point in inside:
                raise
            break  # the program is for its range alone
        group = next((x for x in groups if _is_same(run(x[0]), found)), None)
        if group is None:
            groups.append(group := [])
        group.append(point)
        if len(group) == _NEEDED or not point:
            return group
    raise _differ(inside[0])


def _differ(sizes: tuple[int, ...]) -> CompileError:
    return CompileError("compile_c", f"a program whose launches differ for similar sizes, such as {list(sizes)}",
                        "one list of launches serves all sizes in the ranges",
                        "export it with fixed sizes, or with other ranges")


def _far(lows: Sequence[int], highs: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the largest sizes and much smaller ones, for which operators may prefer other kernels."""
    small = tuple([max(low, min(2, high)) for low, high in zip(lows, highs, strict=True)])
    middle = tuple([(low + high) // 2 for low, high in zip(lows, highs, strict=True)])
    return list(dict.fromkeys((tuple(highs), middle, small)))


def _is_same(run: Run, other: Run) -> bool:
    """Whether two runs make the same steps on the same blocks."""
    return [(s.kind, [(u.block, u.dtype) for u in s.uses]) for s in run.steps] == [
        (s.kind, [(u.block, u.dtype) for u in s.uses]) for s in other.steps] and [
        (b.role, b.number, b.data) for b in run.blocks] == [(b.role, b.number, b.data) for b in other.blocks]


class _Planner:
    """Maker of a plan from runs that make the same steps.

    Args:
        runs: The runs of a corner.
        confirming: Other runs.
        highs: The largest sizes.
    """

    def __init__(self, runs: Sequence[Run], confirming: Sequence[Run], highs: Sequence[int]) -> None:
        self._runs, self._all, self._highs = runs, [*runs, *confirming], highs
        self._sizes = [run.sizes for run in runs]
        self._programs: dict[object, Program] = {}

    def plan(self) -> Plan:
        """Return the plan."""
        first = self._runs[0]
        steps = [self._step(number, step) for number, step in enumerate(first.steps)]
        temporaries = [[use.block for use in step.uses if first.blocks[use.block].role == "temporary"]
                       for step in first.steps]
        spans = last_uses(temporaries)
        blocks = [replace(block, nbytes=self._largest([run.blocks[n].nbytes for run in self._all]))
                  for n, block in enumerate(first.blocks)]
        offsets, arena = plan_memory(spans, {n: blocks[n].nbytes for n in spans})
        shapes = [[self._integer([run.shapes[k][d] for run in self._all]) for d in range(len(shape))]
                  for k, shape in enumerate(first.shapes)]
        return Plan(steps, blocks, offsets, arena, list(self._programs.values()), shapes)

    def _step(self, number: int, step: Step) -> PlannedStep:
        all_steps = [run.steps[number] for run in self._all]
        operands = tuple([Operand(use.block, self._integer([x.uses[k].offset for x in all_steps]), use.dtype, writes)
                          for k, (use, writes) in enumerate(zip(step.uses, step.written, strict=True))])
        numbers = tuple([self._number([x.numbers[k] for x in all_steps]) for k in range(len(step.numbers))])
        event = step.event
        program: Program | Routine | Check | None = None
        if isinstance(event, Launch):
            program = event.program
            if isinstance(program, Program):
                program = self._named(step.kind, program)
        elif isinstance(event, Check):
            program = event
        return PlannedStep(str(step.kind[0]), program, operands, numbers)

    def _named(self, key: object, program: Program) -> Program:
        """Return a program whose kernels have names that no other one has."""
        if key not in self._programs:
            prefix, program = f"k{len(self._programs)}", without_unused(written_out_program(program))
            self._programs[key] = replace(program, kernels=tuple([
                replace(kernel, name=f"{prefix}_{kernel.name}") for kernel in program.kernels]))
        return self._programs[key]

    def _largest(self, values: Sequence[int]) -> int:
        """Return the largest number of bytes."""
        found = self._integer(values)
        if any(factor < 0 for powers, factor in found.terms if any(powers)):
            raise CompileError("compile_c", "a program that needs more memory for smaller sizes", "the arena is made "
                               "for the largest sizes", "export it with fixed sizes")
        return found.at(self._highs)

    def _integer(self, values: Sequence[int]) -> Polynomial:
        found = fit(self._sizes, values[:len(self._sizes)])
        if found is None or any(found.at(run.sizes) != x for run, x in zip(self._all, values, strict=True)):
            raise CompileError("compile_c", f"a program with a number that is {list(values)} for sizes "
                               f"{[list(run.sizes) for run in self._all]}", "numbers of launches are polynomials of "
                               "the sizes that change", "export it with fixed sizes, or avoid divisions of these sizes")
        return found

    def _number(self, values: Sequence[int | float]) -> Number:
        if all(type(x) is int for x in values):
            return Number(self._integer([int(x) for x in values]), "int")
        if len({repr(float(x)) for x in values}) == 1:
            return Number(values[0])
        if all(float(x).is_integer() for x in values):
            return Number(self._integer([int(x) for x in values]))
        inverse = [round(1 / x) if x else 0 for x in values]
        if all(n and 1 / n == x for n, x in zip(inverse, values, strict=True)):
            return Number(self._integer(inverse), "inverse")
        raise CompileError("compile_c", f"a program with a number that is {list(values)} for different sizes",
                           "fractions do not change, or are one divided by a polynomial of the sizes",
                           "export it with fixed sizes")
