"""Row formulas whose results are also summed over rows, in one pass over the operands, for processors.

Rows are divided into blocks. One iteration runs through a block's rows; values that are summed over rows are added to
one line of sums per block, which stays in the L1 cache, and a second kernel adds up these lines. Blocks depend on sizes
alone, so that results do not depend on the number of threads; a block has few additions per sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.plan import Plan, Result
from tensocket_core.launch.programs import program
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.strategies import Strategy

from .reduction import accumulation_dtype

if TYPE_CHECKING:
    from tensocket_plugins.ir.nodes import Expr, Kernel, Program, Stmt


#: Most rows of a block, elements up to which all rows are one block, and rows from which blocks have the most rows.
_ROWS: Final = 32
_SMALL: Final = 1 << 15
_MANY: Final = 16 * _ROWS
#: Elements of a row up to which fewer lanes suffice.
_FEW: Final = 512

#: Layout of an operand: ``full`` is a matrix of rows, ``row`` has one value per row, ``column`` one per position.
RowLayout = Literal["full", "row", "column"]


@dataclass(frozen=True)
class RowsAndColumnSums:
    """A formula over rows with one result of the rows' shape, and results that are summed over all rows.

    Attributes:
        name: Name of the programs.
        formula: ``formula(row, *operands, *numbers)``, whose operands are functions of the position or None; returns a
            function of the position for the result and one for every sum.
        sums: Number of sums.
    """

    name: str
    formula: Callable[..., tuple[Any, ...]]
    sums: int

    def plan(self, state: DeviceState, operands: Sequence[tuple[DType, RowLayout] | None], shape: tuple[int, ...],
             sizes: tuple[int, int], numbers: int, view: tuple[int, ...]) -> Plan:
        """Return the plan for contiguous arrays: the result, and the sums of ``sizes[1]`` elements each.

        Args:
            state: A processor.
            operands: Dtypes and layouts of the operands; the first one is ``full``. The plan takes no arrays for
                operands that are None.
            shape: Shape of the result, whose dtype is the first operand's.
            sizes: Numbers of rows and of positions, neither of them 0.
            numbers: Number of numbers that the formula takes.
            view: Shape in which sums are returned.
        """
        assert operands[0] is not None
        (rows, length), dtype = sizes, operands[0][0]
        work, accumulator, lying = arithmetic_dtype(dtype), accumulation_dtype(state, dtype), tuple(operands)
        size = block_size(rows, length)
        kernel = program(state, (self.name, lying, accumulator, rows > size),
                         lambda: _program(self, lying, accumulator, numbers, rows > size),
                         Strategy.SMALL if length <= _FEW else Strategy.GROUP)
        total = Result((length,), work, state.key | dtype_bit(work), None, view if view != (length,) else None)
        results = Result(shape, dtype, state.key | dtype_bit(dtype)), *[total] * self.sums
        return Plan(kernel, (-(-rows // size), rows, length, size), results)


def block_size(rows: int, length: int) -> int:
    """Return the number of rows of a block."""
    if rows <= _ROWS and rows * length <= _SMALL:
        return rows
    return _ROWS if rows >= _MANY or rows * length <= _SMALL else -(-rows // 16)


def _program(record: RowsAndColumnSums, operands: Sequence[tuple[DType, RowLayout] | None], accumulator: DType,
             numbers: int, several: bool) -> Program:
    """Build the program. Parameters: results, operands; counts of blocks, rows, positions, rows per block; numbers.

    The sums of a single block are the results.
    """
    from tensocket_plugins.ir.build.math import ExprMath
    from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
    from tensocket_plugins.ir.nodes import Let, Load, Program, Store, Temporary, Var, cast, const, loop
    from tensocket_plugins.ir.schedule.nest import smaller

    from .normalized_row_nest import RowMath

    index = dtypes.int64
    nest = ProgramBuilder(record.name, index)
    dtype = next(x[0] for x in operands if x is not None)
    work = arithmetic_dtype(dtype)
    nest.buffer("out", dtype, writable=True)
    totals = [nest.buffer(f"total{k}", work, writable=True) for k in range(record.sums)]
    for k, operand in enumerate(operands):
        if operand is not None:
            nest.buffer(f"in{k}", operand[0])
    blocks, rows, length, size = nest.sizes("n", 4)
    block, i, j, number = (Var(name, index) for name in ("block", "i", "j", "number"))
    lets: list[Stmt] = [Let(number, block * size + i)]
    values = [None if x is None else _value(f"in{k}", *x, number, length, lets) for k, x in enumerate(operands)]
    row = RowMath(nest, ExprMath(work), [length], accumulator)
    made = record.formula(row, *values, *[nest.number(f"x{k}", work) for k in range(numbers)])
    parts = [f"part{k}" for k in range(record.sums)] if several else totals
    at = block * length + j
    # All reads come before the writes, because compilers cannot know that the arrays are disjoint.
    found = [Var(f"found{k}", work) for k in range(len(made))]
    first, *terms = [value((j,)) for value in made]
    sums = [Load(part, at, work) + term for part, term in zip(parts, terms, strict=True)]
    stores: list[Stmt] = [Let(var, value) for var, value in zip(found, [first, *sums], strict=True)]
    stores.append(Store("out", number * length + j, cast(found[0], dtype)))
    stores += [Store(part, at, var) for part, var in zip(parts, found[1:], strict=True)]
    zero = [Store(part, at, const(0, work)) for part in parts]
    walk = loop(i, smaller(rows - block * size, size), [*lets, *row.statements, *parallel([j], [length], stores)])
    made_of = nest.program(parallel([block], [blocks], [*parallel([j], [length], zero), walk]))
    if not several:
        return made_of
    kernels = (*made_of.kernels, _added(record.name, parts, totals, (blocks, length), (work, accumulator)))
    lines = tuple([Temporary(part, work, blocks * length) for part in parts])
    return Program(record.name, made_of.params, kernels, lines)


def _added(name: str, parts: Sequence[str], totals: Sequence[str], sizes: tuple[Expr, Expr],
           types: tuple[DType, DType]) -> Kernel:
    """Return the kernel that adds up the sums of all blocks."""
    from tensocket_plugins.ir.build.nest import parallel
    from tensocket_plugins.ir.nodes import Combine, Kernel, Let, Load, Reduce, Store, Var, cast, const

    (blocks, length), (work, wide) = sizes, types
    j, b = (Var(name, dtypes.int64) for name in ("j", "b"))
    elements, lefts, rights, results = (
        tuple([Var(f"{stem}{k}", wide) for k in range(len(parts))]) for stem in ("element", "left", "right", "sum"))
    reduce = Reduce(
        results=results, loops=((b, blocks),),
        body=tuple([Let(element, cast(Load(part, b * length + j, work), wide))
                    for element, part in zip(elements, parts, strict=True)]),
        values=elements, identity=tuple([const(0, wide) for _ in parts]),
        combine=Combine(lefts, rights, tuple([a + b for a, b in zip(lefts, rights, strict=True)])))
    stores = [Store(total, j, cast(result, work)) for total, result in zip(totals, results, strict=True)]
    return Kernel(f"{name}_added", parallel([j], [length], [reduce, *stores]))


def _value(array: str, dtype: DType, lies: RowLayout, number: Expr, length: Expr,
           lets: list[Stmt]) -> Callable[[Any], Expr]:
    """Return an operand as a function of the position; an operand with one value per row is read once."""
    from tensocket_plugins.ir.build.elements import load
    from tensocket_plugins.ir.nodes import Let, Var, cast, const

    work = arithmetic_dtype(dtype)
    if lies == "row":
        known = Var(f"{array}_value", work)
        lets.append(Let(known, cast(load(array, number, dtype), work)))
        return lambda position: known
    first = number * length if lies == "full" else const(0, dtypes.int64)
    return lambda position: cast(load(array, first + position[0], dtype), work)

