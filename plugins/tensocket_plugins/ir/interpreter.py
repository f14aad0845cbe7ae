"""The reference interpreter: runs any program, scheduled or not, in NumPy. It is the oracle for every printer.

PARALLEL, GROUP and LANE loops become array axes, so all their iterations advance in lock-step; SERIAL and VECTOR loops
run in Python; ``If`` and loops whose extent differs between iterations become masks. A value is an array with one axis
per enclosing array loop (size 1 if it does not vary) or a 0-d array. Large nests run in chunks.

A kernel that reads or writes outside of its arrays, divides an integer by zero or shares local memory without a barrier
raises ``IRError``; masked iterations do not access memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ..contract.arrays import DeviceArray
from ..contract.dtypes import DType
from .launch import lanes_per_group
from .math import written_out
from .memory import LocalArray, Memory, open_array, temporary
from .nodes import (
    Assign,
    Atomic,
    Barrier,
    Call,
    Const,
    Declare,
    Expr,
    For,
    If,
    IRError,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
)
from .scalar import ATOMIC, NUMPY, Values, constant, convert, reinterpret
from .vector_access import LoadVector, StoreVector, VectorAccess, elementwise

#: Maximum number of iterations of array loops that advance together, unless one loop alone needs more.
LANES: Final = 1 << 17
#: Maximum number of elements of one array inside a reduction.
ELEMENTS: Final = 1 << 20


def interpret(program: Program, buffers: Sequence[np.ndarray[Any, Any] | DeviceArray],
              scalars: Sequence[int | float]) -> None:
    """Run ``program`` and write its results to ``buffers``.

    Args:
        program: A verified program.
        buffers: One array per buffer parameter, of its dtype (bfloat16: uint16) and any shape: an ndarray, or a
            ``DeviceArray`` whose storage's buffer is a flat uint8 ndarray. Index 0 is the array's first element;
            indices beyond the span of its shape and strides are errors.
        scalars: One number per scalar parameter.

    Raises:
        IRError: An argument does not fit its parameter, or the program breaks a rule while it runs.
    """
    if len(buffers) != len(program.buffers) or len(scalars) != len(program.scalars):
        raise IRError(f"program {program.name} takes {len(program.buffers)} buffers and {len(program.scalars)} "
                      f"scalars, not {len(buffers)} and {len(scalars)}")
    with np.errstate(all="ignore"):
        arrays: dict[str, Memory] = {
            b.name: open_array(b, handle) for b, handle in zip(program.buffers, buffers, strict=True)}
        variables = {s.name: _argument(s.name, value, s.dtype)
                     for s, value in zip(program.scalars, scalars, strict=True)}
        for t in program.temporaries:
            size = _Run(program.kernels[0], variables, {}).value(t.size)
            arrays[t.name] = temporary(t.name, t.dtype, int(size))
        for kernel in program.kernels:
            run = _Run(kernel, variables, arrays)
            run.block(kernel.body)


def _argument(name: str, value: int | float, dtype: DType) -> Values:
    try:
        return constant(value, dtype)
    except OverflowError as error:
        raise IRError(f"scalar {name}: {value} does not fit into {dtype.name}") from error


class _Run:
    """One run of one kernel: variables, arrays, and the space of iterations that advance together."""

    def __init__(self, kernel: Kernel, scalars: dict[str, Values], arrays: dict[str, Memory]) -> None:
        self.kernel = kernel
        # Each variable with the number of axes of the space at its definition.
        self.variables: dict[str, tuple[Values, int]] = {name: (value, 0) for name, value in scalars.items()}
        self.arrays = dict(arrays)
        self.shape: tuple[int, ...] = ()
        self.mask: Values | None = None
        # Position among the lanes and groups, for local memory; groups are the axes before the first other loop.
        self.lane: Values = np.zeros((), np.int64)
        self.lane_depth = 0
        self.lanes = 1
        self.group: Values = np.zeros((), np.int64)
        self.group_depth = 0
        # Sizes of the arrays that each lane has for itself, and the number of lanes that have one.
        self.private = {local.name: local.size for local in kernel.locals if local.private}
        self.most_lanes = lanes_per_group(kernel)
        self.open_locals(())

    # ---------------------------------------------------------------------------------------------- expressions

    def value(self, expression: Expr) -> Values:
        """Return the value of an expression here."""
        return self._eval(expression, {})

    def values(self, *expressions: Expr) -> list[Values]:
        """Return the values of several expressions, with shared parts evaluated once."""
        known: dict[int, Values] = {}
        return [self._eval(e, known) for e in expressions]

    def _eval(self, e: Expr, known: dict[int, Values]) -> Values:
        if isinstance(e, Var):
            return self._variable(e.name)
        if isinstance(e, Const):
            return constant(e.value, e.dtype)
        if id(e) in known:
            return known[id(e)]
        if isinstance(e, Load):
            index = self._eval(e.index, known)
            result = self._array(e.buffer).load(index, self.mask, self._owner(e.buffer))
        elif isinstance(e, Call):
            if e.function == "rarely":
                result = self._eval(written_out(e), dict(known))
            else:
                result = self._call(e, [self._eval(a, known) for a in e.args])
        else:
            raise IRError(f"kernel {self.kernel.name}: {type(e).__name__} is not an expression")
        known[id(e)] = result
        return result

    def _variable(self, name: str) -> Values:
        try:
            value, depth = self.variables[name]
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: variable {name} is not defined") from None
        return self._deepen(value, depth)

    def _deepen(self, value: Values, depth: int) -> Values:
        """Return a value defined ``depth`` axes deep, with axes of size 1 for the loops entered since then."""
        more = len(self.shape) - depth
        return value.reshape(value.shape + (1,) * more) if more and value.ndim else value

    def _call(self, e: Call, args: list[Values]) -> Values:
        if e.function == "cast":
            return convert(args[0], e.args[0].dtype, e.dtype)
        if e.function == "bitcast":
            return reinterpret(args[0], e.dtype)
        if e.function in ("idiv", "imod"):
            zero = np.equal(args[1], 0)
            if np.any(zero if self.mask is None else zero & self.mask):
                raise IRError(f"kernel {self.kernel.name}: {e.function} by zero")
        try:
            return NUMPY[e.function](*args)
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: unknown scalar function {e.function!r}") from None

    def _array(self, name: str) -> Memory:
        try:
            return self.arrays[name]
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: array {name} is not defined") from None

    def _owner(self, name: str) -> tuple[Values, Values]:
        group, lane = self._deepen(self.group, self.group_depth), self._deepen(self.lane, self.lane_depth)
        return (group * self.most_lanes + lane, lane) if name in self.private else (group, lane)

    # ----------------------------------------------------------------------------------------------- statements

    def block(self, statements: Sequence[Stmt]) -> None:
        """Run statements in order."""
        for statement in statements:
            try:
                run = _STATEMENTS[type(statement)]
            except KeyError:
                raise IRError(f"kernel {self.kernel.name}: {type(statement).__name__} is not a statement") from None
            run(self, statement)

    def define(self, var: Var, value: Values) -> None:
        """Set a variable in the current space."""
        self.variables[var.name] = (np.asarray(value), len(self.shape))

    def _define(self, s: Let | Declare) -> None:
        self.define(s.var, self.value(s.value))

    def _assign(self, s: Assign) -> None:
        value = self.value(s.value)
        self.define(s.var, value if self.mask is None else np.where(self.mask, value, self._variable(s.var.name)))

    def _store(self, s: Store) -> None:
        index, value = self.values(s.index, s.value)
        self._array(s.buffer).store(index, value, self.mask, self._owner(s.buffer))

    def _vector(self, s: VectorAccess) -> None:
        self.block((elementwise(s, self.private[s.array]),))

    def _atomic(self, s: Atomic) -> None:
        index, value = self.values(s.index, s.value)
        # Every iteration counts, even if neither index nor value depends on it.
        index, value = np.broadcast_to(index, self.shape), np.broadcast_to(value, self.shape)
        self._array(s.buffer).accumulate(ATOMIC[s.function], index, value, self.mask, self._owner(s.buffer))

    def _if(self, s: If) -> None:
        with self.masked(self.value(s.condition)):
            if self.mask is None or self.mask.any():
                self.block(s.body)

    def _barrier(self, s: Barrier) -> None:
        for local in self.kernel.locals:
            array = self.arrays[local.name]
            if isinstance(array, LocalArray):
                array.barrier()

    @contextmanager
    def masked(self, condition: Values) -> Any:
        """Restrict a block to iterations for which ``condition`` holds."""
        before = self.mask
        condition = np.asarray(condition)
        if condition.ndim or not condition:
            self.mask = condition if before is None else before & condition
        yield
        self.mask = before

    # ---------------------------------------------------------------------------------------------------- loops

    def _for(self, s: For) -> None:
        if s.kind in (LoopKind.SERIAL, LoopKind.VECTOR):
            self._serial(s)
        else:
            self._axis(s)

    def _serial(self, s: For) -> None:
        start, stop, step = (np.asarray(v) for v in self.values(s.start, s.stop, s.step))
        if np.any(step <= 0):
            raise IRError(f"kernel {self.kernel.name}: loop {s.var.name} has a step that is not positive")
        if start.size == stop.size == step.size == 1:
            for i in range(start.item(), stop.item(), step.item()):
                self.define(s.var, constant(i, s.var.dtype))
                self.block(s.body)
            return
        position = start
        while True:
            running = position < stop
            if not np.any(running if self.mask is None else running & self.mask):
                return
            self.define(s.var, position)
            with self.masked(running):
                self.block(s.body)
            position = position + step

    def extent(self, stop: Expr) -> tuple[Values, int]:
        """Return a loop's extent, per iteration of the enclosing space, and the largest among unmasked iterations."""
        extent = np.asarray(self.value(stop))
        active = extent if self.mask is None else np.where(self.mask, extent, extent.dtype.type(0))
        return extent, int(active.max()) if active.size else 0

    def _axis(self, s: For) -> None:
        extent, size = self.extent(s.stop)
        occupied = int(np.prod(self.shape, dtype=np.int64))
        # All lanes of a group advance together, whatever their number.
        chunk = size if s.kind is LoopKind.LANE else max(1, LANES // occupied)
        # Without groups, every iteration of a PARALLEL loop has its own local arrays.
        owns_locals = s.kind is LoopKind.GROUP or (s.kind is LoopKind.PARALLEL and bool(self.kernel.locals))
        if owns_locals:
            chunk = max(1, chunk // 256)
        for begin in range(0, size, chunk):
            with self.deeper(s.var, np.arange(begin, min(begin + chunk, size), dtype=s.var.dtype.numpy)):
                if owns_locals:
                    self.open_locals(self.shape)
                if s.kind is LoopKind.LANE:
                    self._enter_lane(s.var, size)
                ragged = extent.ndim and extent.min() != extent.max()
                with self.masked(self._variable(s.var.name) < extent[..., None] if ragged else np.True_):
                    self.block(s.body)

    @contextmanager
    def deeper(self, var: Var | None, positions: Values) -> Any:
        """Add an axis to the space, along which ``var`` takes ``positions``."""
        shape, mask, lane = self.shape, self.mask, (self.lane, self.lane_depth, self.lanes)
        group, arrays = (self.group, self.group_depth), self.arrays
        self.shape = (*shape, len(positions))
        if mask is not None:
            self.mask = mask[..., None] if mask.ndim else mask
        if var is not None:
            self.define(var, positions.reshape((1,) * len(shape) + positions.shape))
        yield
        self.shape, self.mask = shape, mask
        self.lane, self.lane_depth, self.lanes = lane
        (self.group, self.group_depth), self.arrays = group, arrays

    def _enter_lane(self, var: Var, size: int) -> None:
        self.lane = self._deepen(self.lane, self.lane_depth) * size + self._variable(var.name).astype(np.int64)
        self.lane_depth, self.lanes = len(self.shape), self.lanes * size

    def open_locals(self, groups: tuple[int, ...]) -> None:
        """Allocate fresh local arrays for a space of groups."""
        count = int(np.prod(groups, dtype=np.int64))
        self.arrays = dict(self.arrays)
        self.group, self.group_depth = np.arange(count, dtype=np.int64).reshape(groups), len(groups)
        for local in self.kernel.locals:
            self.arrays[local.name] = LocalArray(local, count * self.most_lanes if local.private else count)

    # ----------------------------------------------------------------------------------------------- reductions

    def _reduce(self, s: Reduce) -> None:
        extents = [self.extent(stop) for _, stop in s.loops]
        sizes = [size for _, size in extents]
        total = int(np.prod(sizes, dtype=np.int64)) if min(sizes) > 0 else 0
        ragged = any(extent.ndim and extent.min() != extent.max() for extent, _ in extents)
        occupied = int(np.prod(self.shape, dtype=np.int64))
        chunk = 1 << (max(1, ELEMENTS // occupied).bit_length() - 1)
        partials: list[tuple[int, list[Values]]] = []
        for begin in range(0, total, chunk):
            with self.deeper(None, np.arange(begin, min(begin + chunk, total))):
                count = self.shape[-1]
                self._define_positions(s, sizes, begin, count)
                inside = self._inside(s, [e for e, _ in extents]) if ragged else np.True_
                with self.masked(inside):
                    values = self._contributions(s, inside)
                partial = self._fold(s, values)
                # Merge equal sizes first: with chunks that are powers of two, the tree does not depend on the chunk.
                while partials and partials[-1][0] == count:
                    partial = self._combine(s, partials.pop()[1], partial)
                    count *= 2
                partials.append((count, partial))
        if not partials:
            results = self.values(*s.identity)
        else:
            results = self._merge(s, [values for _, values in partials])
        for var, result in zip(s.results, results, strict=True):
            self.define(var, result)

    def _define_positions(self, s: Reduce, sizes: list[int], begin: int, count: int) -> None:
        rest = np.arange(begin, begin + count).reshape((1,) * (len(self.shape) - 1) + (count,))
        for (var, _), size in zip(reversed(s.loops), reversed(sizes), strict=True):
            position = rest if len(sizes) == 1 else rest % size
            rest = rest // size if len(sizes) > 1 else rest
            self.define(var, position.astype(var.dtype.numpy))

    def _inside(self, s: Reduce, extents: list[Values]) -> Values:
        inside: Values = np.True_
        for (var, _), extent in zip(s.loops, extents, strict=True):
            inside = inside & (self._variable(var.name) < (extent[..., None] if extent.ndim else extent))
        return inside

    def _contributions(self, s: Reduce, inside: Values) -> list[Values]:
        """Return the contributions of all iterations: arrays of one shape, with iterations along the last axis."""
        for let in s.body:
            self._define(let)
        values = self.values(*s.values)
        if np.ndim(inside):
            values = [np.where(inside, v, i) for v, i in zip(values, self.values(*s.identity), strict=True)]
        along = (1,) * (len(self.shape) - 1) + self.shape[-1:]
        return list(np.broadcast_arrays(*values, np.empty(along, np.bool_))[:-1])

    def _fold(self, s: Reduce, values: list[Values]) -> list[Values]:
        """Combine neighbours along the last axis until one is left; an odd one out waits for the next round."""
        while (count := values[0].shape[-1]) > 1:
            even = count - count % 2
            merged = self._combine(s, [v[..., 0:even:2] for v in values], [v[..., 1:even:2] for v in values])
            if count % 2:
                merged = [np.concatenate((m, v[..., -1:]), axis=-1) for m, v in zip(merged, values, strict=True)]
            values = merged
        return values

    def _merge(self, s: Reduce, partials: list[list[Values]]) -> list[Values]:
        with self.deeper(None, np.zeros(1)):
            result = partials.pop()
            while partials:
                result = self._combine(s, partials.pop(), result)
        return [value[..., 0] for value in result]

    def _combine(self, s: Reduce, left: list[Values], right: list[Values]) -> list[Values]:
        for variables, values in ((s.combine.left, left), (s.combine.right, right)):
            for var, value in zip(variables, values, strict=True):
                self.define(var, value)
        merged = self.values(*s.combine.values)
        shape = np.broadcast_shapes(left[0].shape, *(np.shape(m) for m in merged))
        return [np.broadcast_to(m, shape) for m in merged]


_STATEMENTS: Final[dict[type[Stmt], Callable[[_Run, Any], None]]] = {
    Let: _Run._define, Declare: _Run._define, Assign: _Run._assign, Store: _Run._store, Atomic: _Run._atomic,
    If: _Run._if, Barrier: _Run._barrier, For: _Run._for, Reduce: _Run._reduce, LoadVector: _Run._vector,
    StoreVector: _Run._vector,
}
