"""Removal of operations that compute again what an earlier one has computed: common subexpressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..capture.numbers import SymFloat
from ..capture.recorder import Operation
from ..memory.regions import Buffer, Region, row_major
from .moves import Moves, find_fixed, find_single_writes
from .purity import is_repeatable

#: Types whose values are told apart by their text: 1, 1.0 and True differ, as do 0.0 and -0.0.
_PLAIN: Final = (type(None), bool, int, float, complex, str)
#: Bytes of the largest constant that is compared by content, which takes 0.1 ms; tables of positions are smaller.
_COMPARED: Final = 1 << 20


def remove_common(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    """Return the operations without those that repeat an earlier one on the same values.

    Only temporaries that nothing else writes to go, and results of the graph keep memory of their own.

    Args:
        operations: The operations.
        results: Regions that the program reads afterwards.
    """
    single, fixed = find_single_writes(operations), find_fixed(operations, results)
    values, moves = Values(), Moves()
    known: dict[Any, Operation] = {}
    kept = []
    for recorded in operations:
        operation = moves(recorded)
        buffers = {x.buffer for x in operation.results}
        if is_repeatable(operation) and buffers <= single:
            earlier = known.setdefault(_key(operation, values), operation)
            if earlier is not operation and fixed.isdisjoint(buffers):
                for old, new in zip(operation.results, earlier.results, strict=True):
                    moves.add(old, new)
                continue
        values.note_writes(operation)
        kept.append(operation)
    return kept


def _key(operation: Operation, values: Values) -> Any:
    """Return what decides the results of an operation, and their layout."""
    layouts = [(x.offset, x.shape, x.strides, x.dtype, x.buffer.nbytes) for x in operation.results]
    return (operation.operator, operation.device, operation.compute, values.key(operation.args),
            values.key(operation.keywords), tuple(layouts))


class Values:
    """Keys of values at one place in the order of operations; equal keys are equal values."""

    def __init__(self) -> None:
        self._versions: dict[Buffer, int] = {}
        self._contents: dict[Buffer, Any] = {}

    def note_writes(self, operation: Operation) -> None:
        """Note that an operation gives its targets other values."""
        for region in operation.writes:
            self._versions[region.buffer] = self._versions.get(region.buffer, 0) + 1

    def key(self, value: Any) -> Any:
        """Return the key of an argument; it holds as long as the argument lives."""
        if isinstance(value, Region):
            return (self._memory(value.buffer), value.offset, value.shape, value.strides, value.dtype)
        if type(value) in _PLAIN:
            return type(value), repr(value)
        if type(value) is SymFloat:
            return SymFloat, self.key(value.expression)
        if isinstance(value, dict):
            return dict, tuple([(name, self.key(x)) for name, x in sorted(value.items())])
        if type(value) in (list, tuple):
            return type(value), tuple([self.key(x) for x in value])
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and type(value).__eq__ is not object.__eq__:
            return type(value), tuple([self.key(getattr(value, x.name)) for x in dataclasses.fields(value)])
        return type(value), id(value)

    def _memory(self, buffer: Buffer) -> Any:
        if buffer.kind != "constant":
            return buffer, self._versions.get(buffer, 0)
        if buffer not in self._contents:
            array = buffer.array
            compares = type(array) is np.ndarray and buffer.nbytes <= _COMPARED
            self._contents[buffer] = row_major(array).tobytes() if compares else buffer
        return self._contents[buffer]
