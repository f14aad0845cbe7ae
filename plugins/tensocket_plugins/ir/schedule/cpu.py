"""Kernels for a processor: outer PARALLEL loops stay for the backend's threads, reductions become loops.

A long reduction keeps ``LANES`` independent partial results in a stack array and advances them together in a VECTOR
loop, which a compiler turns into vector instructions without being allowed to reorder float additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...contract.dtypes import DType
from ..nodes import Expr, For, If, Kernel, Let, Load, Local, LoopKind, Reduce, Stmt, Store, Var, const, loop
from .nest import Names, smaller
from .reduce import BLOCK, accumulate, declare, fold_into

#: Partial results that advance together: enough to hide the latency of an addition with the widest vectors.
LANES: Final = 32


def _lower(body: Iterable[Stmt], reduction: Callable[[Reduce], Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """``body`` with every reduction replaced."""
    result: list[Stmt] = []
    for statement in body:
        match statement:
            case Reduce():
                result += reduction(statement)
            case For(var, start, stop, step, inside, kind):
                result.append(For(var, start, stop, step, _lower(inside, reduction), kind))
            case If(condition, inside):
                result.append(If(condition, _lower(inside, reduction)))
            case _:
                result.append(statement)
    return tuple(result)


def schedule_loops(kernel: Kernel, names: Names) -> Kernel:
    """Reductions as plain loops; best where they are short."""
    return Kernel(kernel.name, _lower(kernel.body, lambda reduce: accumulate(reduce, names)), kernel.locals)


def schedule_vectors(kernel: Kernel, names: Names) -> Kernel:
    """Reductions as loops over vectors of partial results; best where the innermost loop is long."""
    arrays: list[Local] = []

    def array(dtype: DType) -> str:
        arrays.append(Local(names.fresh("partial"), dtype, LANES))
        return arrays[-1].name

    def reduction(reduce: Reduce) -> list[Stmt]:
        return _Vectors(reduce, [array(result.dtype) for result in reduce.results], names).build()

    body = _lower(kernel.body, reduction)
    return Kernel(kernel.name, body, (*kernel.locals, *arrays))


class _Vectors:
    """Builds the loops of one reduction over arrays of partial results."""

    def __init__(self, reduce: Reduce, arrays: Sequence[str], names: Names) -> None:
        self._reduce = reduce
        self._arrays = arrays
        self._names = names
        self._dtype = reduce.loops[0][0].dtype

    def build(self) -> list[Stmt]:
        """The results, declared and computed."""
        *outer, (var, extent) = self._reduce.loops
        block = self._names.var(f"{var.name}_block", self._dtype)
        inside: Sequence[Stmt] = [loop(block, extent, self._block(var, extent, block), step=LANES * BLOCK)]
        for outer_var, outer_extent in reversed(outer):
            inside = [loop(outer_var, outer_extent, inside)]
        return [*declare(self._reduce.results, self._reduce.identity), *inside]

    def _block(self, var: Var, extent: Expr, block: Var) -> list[Stmt]:
        """Add one block of the innermost loop to the results."""
        end, tail = self._names.var("end", self._dtype), self._names.var("tail", self._dtype)
        chunk, at = self._names.var("chunk", self._dtype), self._names.var("at", self._dtype)
        first = const(0, self._dtype)
        return [
            Let(end, smaller(block + LANES * BLOCK, extent)),
            Let(tail, end - (end - block) % LANES),
            loop(at, LANES, self._put(at, self._reduce.identity), LoopKind.VECTOR),
            loop(chunk, tail, [
                loop(at, LANES, [Let(var, chunk + at), *self._reduce.body, *self._fold(at, self._reduce.values)],
                     LoopKind.VECTOR),
            ], start=block, step=LANES),
            loop(var, end, [*self._reduce.body, *self._fold(var - tail, self._reduce.values)], start=tail),
            *self._halve(at),
            *fold_into(self._reduce.combine, self._reduce.results, self._get(first)),
        ]

    def _halve(self, at: Var) -> list[Stmt]:
        """Fold the upper half of the arrays into the lower one until one element is left."""
        sizes = [LANES >> level for level in range(1, LANES.bit_length())]
        return [loop(at, size, self._fold(at, self._get(at + size)), LoopKind.VECTOR) for size in sizes]

    def _get(self, at: Expr) -> list[Expr]:
        return [Load(array, at, result.dtype) for array, result in zip(self._arrays, self._reduce.results, strict=True)]

    def _put(self, at: Expr, values: Sequence[Expr]) -> list[Stmt]:
        return [Store(array, at, value) for array, value in zip(self._arrays, values, strict=True)]

    def _fold(self, at: Expr, values: Sequence[Expr]) -> list[Stmt]:
        """Combine ``values`` into element ``at`` of the arrays."""
        combine = self._reduce.combine
        return [
            *(Let(var, value) for var, value in zip(combine.right, values, strict=True)),
            *(Let(var, value) for var, value in zip(combine.left, self._get(at), strict=True)),
            *self._put(at, combine.values),
        ]
