"""Invariants of the operations of a graph, which every pass keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_plugins.contract.errors import CompileError

from ..capture.recorder import Operation
from ..memory.regions import Buffer, Region


@dataclass(slots=True)
class Verification:
    """How much is checked while a graph is made.

    Attributes:
        is_thorough: Whether operations are checked before and after each pass, which takes up to 5 % of the time of a
            compilation; otherwise they are checked after the last one only, which takes 0.6 %.
    """

    is_thorough: bool = False


VERIFICATION: Final = Verification()
_ADVICE: Final = "report the program; torch.compiler.disable keeps it eager"


def verify(name: str, operations: Sequence[Operation], arguments: Sequence[Region],
           results: Sequence[Region]) -> None:
    """Check operations.

    Args:
        name: The pass that returned them, for the error.
        operations: The operations.
        arguments: Regions of the arguments of the graph.
        results: Regions that the graph returns.

    Raises:
        CompileError: They break an invariant.
    """
    there = {x.buffer for x in arguments}
    for operation in operations:
        reads = (*operation.reads, *operation.number_reads)
        for region in reads:
            if region.buffer.kind == "temporary" and region.buffer not in there:
                raise CompileError(name, f"{operation!r:.200} that reads {region}",
                                   "an operation before makes what an operation reads", _ADVICE)
        _verify_writes(name, operation, there)
        for region in (*reads, *operation.writes):
            if not _is_inside(region):
                raise CompileError(
                    name, f"{operation!r:.200} with {region} at bytes {region.span} of {region.buffer.nbytes}",
                    "a region lies inside of its buffer", _ADVICE)
        if not _has_right_dtypes(operation):
            raise CompileError(name, f"{operation!r:.200} with results of {[x.dtype.name for x in operation.results]}",
                               "dtypes of results are those that the operator computes", _ADVICE)
        there.update([x.buffer for x in operation.writes])
    made = {x.buffer for operation in operations for x in operation.results}
    for region in results:
        if region.buffer not in made:
            raise CompileError(name, f"a graph without an operation that makes its result {region}",
                               "operations make all results", _ADVICE)


def _verify_writes(name: str, operation: Operation, there: set[Buffer]) -> None:
    """Check the targets of an operation; ``there`` are the buffers that exist before it."""
    mutates = operation.operator.schema.is_mutable
    for region in operation.writes:
        if region.buffer.kind == "constant":
            raise CompileError(name, f"{operation!r:.200} that writes {region}", "nothing writes to constants", _ADVICE)
        if not mutates and (region.buffer.kind != "temporary" or region.buffer in there):
            raise CompileError(name, f"{operation!r:.200} that makes {region} again",
                               "results of an operation are new memory", _ADVICE)
        if mutates and region.buffer.kind == "temporary" and region.buffer not in there:
            raise CompileError(name, f"{operation!r:.200} that modifies {region}",
                               "an operation before makes what an operation modifies", _ADVICE)


def _is_inside(region: Region) -> bool:
    begin, end = region.span
    return 0 <= begin <= end <= region.buffer.nbytes or begin == end


def _has_right_dtypes(operation: Operation) -> bool:
    """Whether the results of a pointwise operator have the dtype that it computes."""
    record, made = operation.operator, operation.results[0].dtype
    if isinstance(record, InPlace):
        return made is operation.args[0].dtype
    if not isinstance(record, Pointwise) or operation.compute is None:
        return True
    return made is record.result_dtype(operation.compute)
