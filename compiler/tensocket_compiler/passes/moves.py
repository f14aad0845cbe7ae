"""Moves: readers of a value read it at another place, so that the operation that made it can go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..capture.recorder import Operation
from ..memory.regions import Buffer, Region


class Moves:
    """Values that readers find in other buffers, in the same layout."""

    def __init__(self) -> None:
        self._places: dict[Buffer, tuple[Buffer, int]] = {}

    def add(self, old: Region, new: Region) -> None:
        """Let readers of the buffer that ``old`` is all of read ``new``, which is no moved value itself."""
        self._places[old.buffer] = new.buffer, new.offset - old.offset

    def __call__(self, operation: Operation) -> Operation:
        """Return an operation that reads values at their new places."""
        if all(x.buffer not in self._places for x in operation.reads):
            return operation
        return replace(operation, args=self._moved(operation.args), keywords=self._moved(operation.keywords))

    def _moved(self, value: Any) -> Any:
        if isinstance(value, Region):
            place = self._places.get(value.buffer)
            return value if place is None else replace(value, buffer=place[0], offset=value.offset + place[1])
        if isinstance(value, dict):
            return {name: self._moved(x) for name, x in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self._moved(x) for x in value])
        return value


def find_single_writes(operations: Sequence[Operation]) -> set[Buffer]:
    """Return the temporaries that one operation makes and nothing else writes to."""
    writes = Counter([x.buffer for operation in operations for x in operation.writes])
    made = {x.buffer for operation in operations if not operation.operator.schema.is_mutable
            for x in operation.results}
    return {x for x in made if writes[x] == 1 and x.kind == "temporary"}


def find_fixed(operations: Sequence[Operation], results: Sequence[Region]) -> set[Buffer]:
    """Return the buffers that readers must find where they are.

    Results of the graph have memory of their own, and symbolic numbers read elements where they were recorded.
    """
    return {x.buffer for x in results} | {x.buffer for operation in operations for x in operation.number_reads}
