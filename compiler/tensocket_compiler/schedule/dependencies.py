"""Dependencies between the operations of a run, by the memory that they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tensocket_operators.kinds.host_library import HostOperator
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise

from ..capture.recorder import Operation
from ..memory.regions import Region

#: Operators that NumPy computes and that raise no error for any elements.
_TOTAL: Final = frozenset({"fft_c2c", "fft_r2c", "fft_c2r"})


@dataclass(frozen=True, slots=True)
class Source:
    """The value that a read gets: a result of an operation that wrote exactly the memory that is read.

    Attributes:
        operation: The writer.
        region: The region that it wrote.
    """

    operation: Operation
    region: Region


@dataclass(slots=True)
class Dependencies:
    """The dependencies of one operation.

    Attributes:
        sources: For each region among its arguments, the value if one operation wrote all of it, or None.
        reads: Operations that wrote memory which this one reads, and one that may raise before this one changes
            memory that was there before the run.
        overwrites: Operations that read or wrote memory which this one writes.
    """

    sources: list[Source | None] = field(default_factory=list)
    reads: list[Operation] = field(default_factory=list)
    overwrites: list[tuple[Operation, Region]] = field(default_factory=list)


#: An access of an operation: the region, and its first byte and end in the buffer.
_Access = tuple[Operation, Region, int, int]


def find_dependencies(operations: Sequence[Operation]) -> list[Dependencies]:
    """Return the dependencies of every operation."""
    writers: dict[int, list[_Access]] = {}
    readers: dict[int, list[_Access]] = {}
    found = []
    raising: Operation | None = None
    for operation in operations:
        one = Dependencies()
        reads = _accesses(operation, (*operation.reads, *operation.number_reads))
        writes = _accesses(operation, operation.writes)
        for number, (_, region, begin, end) in enumerate(reads):
            last = [x for x in writers.get(region.buffer.number, ()) if x[2] < end and begin < x[3]]
            if number < len(operation.reads):
                one.sources.append(Source(*last[-1][:2]) if last and last[-1][1].covers(region) else None)
            one.reads += [x[0] for x in last]
        for _, region, begin, end in writes:
            number = region.buffer.number
            one.overwrites += [(x[0], x[1]) for x in (*writers.get(number, ()), *readers.get(number, ()))
                               if x[2] < end and begin < x[3]]
        for access in reads:
            readers.setdefault(access[1].buffer.number, []).append(access)
        for access in writes:
            known = writers.setdefault(access[1].buffer.number, [])
            known[:] = [x for x in known if not access[1].covers(x[1])]
            known.append(access)
        if raising is not None and changes_inputs(operation):
            one.reads.append(raising)
        raising = operation if may_raise(operation) else raising
        found.append(one)
    return found


def may_raise(operation: Operation) -> bool:
    """Whether an operation raises an error for some elements of its operands.

    These are quotients of integers by elements, on devices whose memory the host reads, and decompositions. Indices are
    checked before a graph runs.
    """
    record = operation.operator.origin if isinstance(operation.operator, InPlace) else operation.operator
    if isinstance(record, HostOperator):
        return operation.name not in _TOTAL
    if not isinstance(record, Pointwise) or not record.guard_values or operation.compute is None:
        return False
    divides = operation.compute.category < 2 and isinstance(operation.args[1], Region)
    return divides and bool(operation.device.runtime.profile.host_resident)


def changes_inputs(operation: Operation) -> bool:
    """Whether an operation writes memory that was there before the run."""
    return any(region.buffer.kind == "input" for region in operation.writes)


def _accesses(operation: Operation, regions: Sequence[Region]) -> list[_Access]:
    return [(operation, region, *region.span) for region in regions]
