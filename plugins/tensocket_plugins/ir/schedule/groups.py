"""One group per outer iteration: its lanes share every reduction and every inner loop of a row.

The result of a reduction is the same on all lanes, and so is any value computed from it outside of inner loops; lane 0
alone stores such values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...contract.dtypes import DType
from ..nodes import Atomic, Barrier, Expr, For, If, Kernel, Local, LoopKind, Reduce, Stmt, Store, Var, loop
from ..target import Target
from .nest import Names, index_dtype, loads, peel, product, recover, stored, walk
from .reduce import accumulate, flatten, tree
from .simt import UNLIMITED, group_size, groups_frame, outputs, serialize


class LocalArrays:
    """Local arrays of one element per lane, shared by the reductions of a kernel."""

    def __init__(self, lanes: int, names: Names) -> None:
        self._lanes = lanes
        self._names = names
        self._arrays: dict[DType, list[str]] = {}
        #: Whether lanes may still be reading an array.
        self.busy = False

    def take(self, dtypes: Iterable[DType]) -> list[str]:
        """Return the names of distinct arrays of the given dtypes."""
        counts: Counter[DType] = Counter()
        taken = []
        for dtype in dtypes:
            arrays = self._arrays.setdefault(dtype, [])
            if counts[dtype] == len(arrays):
                arrays.append(self._names.fresh(f"shared_{dtype.short}"))
            taken.append(arrays[counts[dtype]])
            counts[dtype] += 1
        return taken

    def all(self) -> tuple[Local, ...]:
        """Return the arrays that the kernel needs."""
        return tuple(Local(name, dtype, self._lanes) for dtype, names in self._arrays.items() for name in names)


class _Row:
    """Lowering of the statements of one outer iteration for a group of lanes."""

    def __init__(self, lane: Var, lanes: int, arrays: LocalArrays, names: Names) -> None:
        self._lane = lane
        self._lanes = lanes
        self._arrays = arrays
        self._names = names
        self._read: set[str] = set()
        self._written: set[str] = set()

    def lower(self, body: Iterable[Stmt]) -> list[Stmt]:
        """Return ``body`` for all lanes of the group, each of which runs it."""
        result: list[Stmt] = []
        for statement in body:
            result += self._order(statement)
            result += self._statement(statement)
        return result

    def _statement(self, statement: Stmt) -> list[Stmt]:
        match statement:
            case Reduce():
                return self._reduce(statement)
            case For(kind=LoopKind.PARALLEL):
                return [self._parallel(statement)]
            case For(var, start, stop, step, inside, kind):
                return [For(var, start, stop, step, self._repeated(inside), kind)]
            case Store() | Atomic():
                return [self._alone(statement)]
            case If(condition, inside):
                # A condition must not contain a barrier, so one lane runs all statements inside it.
                return [self._alone(If(condition, serialize(inside, self._names)))]
        return [statement]

    def _alone(self, statement: Stmt) -> Stmt:
        return If(self._lane < 1, (statement,))

    def _reduce(self, reduce: Reduce) -> list[Stmt]:
        """Let lanes stride over all iterations; a tree over local memory combines their results."""
        flat = flatten(reduce, self._names)
        arrays = self._arrays.take(result.dtype for result in flat.results)
        wait: list[Stmt] = [Barrier()] if self._arrays.busy else []
        self._arrays.busy = True
        self._settled()
        return [
            *accumulate(flat, self._names, self._lane, self._lanes),
            *wait,
            *tree(flat, self._names, self._lane, self._lanes, arrays),
        ]

    def _parallel(self, statement: For) -> Stmt:
        """Let lanes stride over the iterations of perfectly nested PARALLEL loops."""
        axes, inside = peel((statement,))
        body = serialize(inside, self._names)
        if len(axes) == 1:
            (var, extent), lets = axes[0], []
        else:
            var = self._names.var("element", statement.var.dtype)
            extent = product((size for _, size in axes), var.dtype)
            lets = recover(var, axes, self._names)
        return loop(var, extent, [*lets, *body], start=self._lane, step=self._lanes)

    def _repeated(self, inside: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return the body of a loop that all lanes run together."""
        if not any(isinstance(s, Reduce | For | Store | Atomic) for s in walk(inside)):
            return inside
        self._arrays.busy = False
        body = self.lower(inside)
        self._arrays.busy = False
        self._settled()
        return (Barrier(), *body, Barrier())

    def _order(self, statement: Stmt) -> list[Stmt]:
        """Return a barrier if ``statement`` accesses data that other lanes wrote, or writes data that they read."""
        reads, writes = {load.buffer for load in loads((statement,))}, stored((statement,))
        wait: list[Stmt] = []
        if (reads | writes) & self._written or writes & self._read:
            self._settled()
            wait = [Barrier()]
        self._read |= reads
        self._written |= writes
        return wait

    def _settled(self) -> None:
        self._read.clear()
        self._written.clear()


def schedule_groups(kernel: Kernel, target: Target, names: Names) -> Kernel | None:
    """Give each iteration of the outer loops a group; return None if the target has too little local memory."""
    axes, inner = peel(kernel.body)
    lanes = group_size(target)
    arrays = LocalArrays(lanes, names)

    def body(number: Expr, lane: Var) -> list[Stmt]:
        row = _Row(lane, lanes, arrays, names)
        # A group that takes several outer iterations uses the local arrays again.
        wait: list[Stmt] = [Barrier()] if target.max_groups < UNLIMITED else []
        return [*wait, *recover(number, axes, names), *row.lower(inner)]

    frame = groups_frame(outputs(axes, index_dtype(kernel)), lanes, target, names, body)
    if sum(array.size * array.dtype.itemsize for array in arrays.all()) > target.local_bytes:
        return None
    return Kernel(kernel.name, (frame,), arrays.all())
