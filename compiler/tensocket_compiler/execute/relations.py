"""Comparisons of numbers that the captured run made: a call that they come out differently for takes another graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..capture.numbers import COMPARISONS, Reads, Relation, SymFloat, compiled, regions_in, replaced
from ..capture.recorder import CannotRecord, Operation, Recording
from ..memory.regions import Region
from .elements import elements_reader
from .frames import moved

#: Dtypes in which sums and products round as those of Python's numbers, rounded again, do.
_EXACT: Final = ("float32", "float64")


def relations_at_start(recording: Recording) -> list[Relation]:
    """Return the comparisons of a run as comparisons of elements that were there before it.

    Raises:
        CannotRecord: One depends on elements that the run computed otherwise than by one sum or product.
    """
    found = [Relation(one.name, replaced(one.left, before), replaced(one.right, before), one.held, one.reads)
             for one in recording.notes.relations for before in [_before(one.reads, recording.operations)]]
    return list({(x.name, x.left, x.right): x for x in found}.values())


def _before(reads: Reads, operations: Sequence[Operation]) -> dict[Region, Any]:
    """Return what elements were when they were read, as expressions of elements before the run."""
    found = {region: _stepped(region, writer, operations) for region, writer in reads}
    if len(found) < len(reads):
        raise CannotRecord("it compares counts before and after they change")
    return found


def _stepped(region: Region, writer: Operation | None, operations: Sequence[Operation]) -> Any:
    """Return an element, as it was or after one sum or product with a number, as an expression."""
    if writer is None and region.buffer.kind == "input":
        return region
    step = _step_of(region, writer, operations) if writer is not None else None
    if step is None:
        raise CannotRecord("it depends on the value of a step count")
    number = step.args[1]
    other = replaced(number.expression, _before(number.reads, operations)) if type(number) is SymFloat else (
        float(number))
    if region.dtype.name == "float64":
        return step.name, region, other
    return "float32", (step.name, region, ("float32", other))


def _step_of(region: Region, writer: Operation, operations: Sequence[Operation]) -> Operation | None:
    """Return the sum or product with a number whose result was copied to an element; None if it changed otherwise."""
    first = next(x for x in operations if any(y.buffer is region.buffer for y in x.writes))
    if first is not writer or writer.name != "copy_" or writer.args[0] != region or region.buffer.kind != "input":
        return None
    made = next((x for x in operations if writer.args[1] in x.results), None)
    if made is None or made.name not in ("add", "mul") or made.args[0] != region or made.keywords or len(
            made.args) != 2 or type(made.args[1]) not in (int, float, SymFloat):
        return None
    return made if made.results[0].dtype is region.dtype and region.dtype.name in _EXACT else None


def holds_for(relations: Sequence[Relation], inputs: Sequence[Region]) -> Callable[[Sequence[Any]], bool]:
    """Return whether comparisons come out as they did in the captured run, for the arguments of a call.

    Args:
        relations: Comparisons of elements before a call.
        inputs: Regions of the arguments.
    """
    if not relations:
        return lambda tensors: True
    regions = list(dict.fromkeys(x for one in relations for side in (one.left, one.right) for x in regions_in(side)))
    position = {x.buffer: k for k, x in enumerate(inputs)}
    # Arguments, and numbers among their elements, are the only regions of their buffers.
    given = [(None, position[x.buffer], x) if x.buffer in position else (x.array(x.buffer.array), -1, x)
             for x in regions]
    tests = [(COMPARISONS[x.name], compiled(x.left, regions), compiled(x.right, regions), x.held) for x in relations]
    read = elements_reader(regions)

    def holds(tensors: Sequence[Any]) -> bool:
        values = read([_element(tensors[k]._array, x, inputs[k]) if array is None else array for array, k, x in given])
        try:
            return all(test(left(*values), right(*values)) is held for test, left, right, held in tests)
        except (ArithmeticError, TypeError):  # the function itself raises it
            return False

    return holds


def _element(array: Any, region: Region, home: Region) -> Any:
    return array if region == home else moved(region, home, array)
