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


def find_dependencies(operations: Sequence[Operation]) -> list[Dependencies]:
    """Return the dependencies of every operation."""
    writers: dict[int, list[tuple[Operation, Region]]] = {}
    readers: dict[int, list[tuple[Operation, Region]]] = {}
    found = []
    for operation in operations:
        one = Dependencies()
        for region in operation.reads:
            last = [(x, y) for x, y in writers.get(region.buffer.number, ()) if y.overlaps(region)]
            one.sources.append(Source(*last[-1]) if last and last[-1][1].covers(region) else None)
            one.reads += [x for x, _ in last]
        for region in operation.number_reads:
            one.reads += [x for x, y in writers.get(region.buffer.number, ()) if y.overlaps(region)]
        for region in operation.writes:
            number = region.buffer.number
            one.overwrites += [(x, y) for x, y in [*writers.get(number, ()), *readers.get(number, ())]
                               if y.overlaps(region)]
        for region in (*operation.reads, *operation.number_reads):
            readers.setdefault(region.buffer.number, []).append((operation, region))
        for region in operation.writes:
            known = writers.setdefault(region.buffer.number, [])
            known[:] = [(x, y) for x, y in known if not region.covers(y)]
            known.append((operation, region))
        found.append(one)
    return found
