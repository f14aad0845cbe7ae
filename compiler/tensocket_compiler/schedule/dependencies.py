"""Dependencies between the operations of a run, by the memory that they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..capture.recorder import Operation
from ..memory.regions import Region


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
        reads: Operations that wrote memory which this one reads.
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
        found.append(one)
    return found


def _accesses(operation: Operation, regions: Sequence[Region]) -> list[_Access]:
    return [(operation, region, *region.span) for region in regions]
