"""Removal of copies that nobody can tell from their sources.

A gradient is copied into the layout of its parameter. If nothing else reads the gradient, the copy takes its place; if
it is the transpose of a matrix product, the product of the transposes gives it in the right layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ..capture.recorder import Operation
from ..memory.regions import Buffer, Region

_COPIES: Final = frozenset({"clone", "contiguous_copy"})


def remove_copies(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    """Return the operations without copies whose source has no other reader.

    Args:
        operations: The operations.
        results: Regions that the program reads afterwards.
    """
    uses: dict[Buffer, int] = {}
    for region in results:
        uses[region.buffer] = uses.get(region.buffer, 0) + 1
    makers: dict[Buffer, Operation] = {}
    for operation in operations:
        for region in (*operation.reads, *operation.number_reads, *operation.writes):
            uses[region.buffer] = uses.get(region.buffer, 0) + 1
        for region in operation.results:
            makers.setdefault(region.buffer, operation)
    kept = list(operations)
    for copy in operations:
        if copy.name not in _COPIES or len(copy.reads) != 1:
            continue
        source, target = copy.reads[0], copy.results[0]
        maker = makers.get(source.buffer)
        # One use is the maker's write, the other one this copy.
        if maker is None or source.buffer.kind != "temporary" or uses[source.buffer] != 2 or len(
                maker.results) != 1 or maker.operator.schema.is_mutable or target.offset:
            continue
        made = maker.results[0]
        if source == made and _alike(source, target):
            replacement = _with(maker, maker.args, target)
        elif maker.name == "matmul" and _is_transpose(source, made) and target.dense:
            first, second = maker.args
            replacement = _with(maker, (_transposed(second), _transposed(first)), target)
        else:
            continue
        kept[kept.index(maker)] = replacement
        kept.remove(copy)
        makers[target.buffer] = replacement
    return kept


def _with(operation: Operation, args: tuple[Any, ...], result: Region) -> Operation:
    return replace(operation, args=args, results=(result,), writes=(result,))


def _alike(one: Region, other: Region) -> bool:
    return (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)


def _is_transpose(region: Region, matrix: Region) -> bool:
    return (len(matrix.shape) == 2 and matrix.dense and region.offset == matrix.offset
            and region.dtype is matrix.dtype and region.shape == matrix.shape[::-1]
            and region.strides == matrix.strides[::-1])


def _transposed(region: Region) -> Region:
    return replace(region, shape=region.shape[::-1], strides=region.strides[::-1])
