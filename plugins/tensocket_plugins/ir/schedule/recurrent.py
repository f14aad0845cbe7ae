"""Recurrent layers on a processor: one kernel walks through time, with the product of a step in vector registers.

Examples do not meet each other, so that a task takes a few of them through all moments. The sums of all gates of some
units stand in registers together; what becomes of them is computed at once, while they are in the first cache.

Arrays: inputs [T, N, gates * H] (times their weight already), outputs and cells [T, N, H], saved [T, N, values * H] is
what the way back needs. Moment s of a walk is ``start + s * step``, so that a walk may begin at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...contract.dtypes import DType
from ..nodes import (
    Assign,
    Buffer,
    Declare,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Stmt,
    Store,
    Var,
    cast,
    const,
    loop,
    select,
)
from .nest import smaller
from .recurrent_cells import CELLS
from .tiles import Tile, index, lanes, numbers

#: Vectors of units in a tile of the way back.
COLUMNS: Final = 4


def fitting_rows(count: int, columns: int) -> int:
    """Examples in a tile whose rows have some vectors: so many that sums fill registers and few rows are nobody's."""
    most = min(24 // columns, 12)
    return min(count, min(range(most, most // 2, -1), key=lambda rows: -(-count // rows) * rows))


def weights(source: DType, work: DType, gates: int, biased: bool) -> Program:
    """``out[u, k, g, lane] = weight[g * H + unit, k]`` with ``unit = u * lanes + lane``, and the bias for ``k = H``.

    Parameters: result, weight, bias; then the number of vectors of units, H, and the weight's strides.
    """
    scalars, (tiles, units, row_step, step) = numbers("tiles units row_step step")
    u, k, g, lane, row, at = map(index, ("u", "k", "g", "lane", "row", "at"))
    width = lanes(work)
    value = Var("value", work)
    bias = cast(Load("bias", row + lane, source), work) if biased else const(0, work)

    def line(place: Expr, found: Expr) -> Stmt:
        return loop(lane, width, [
            Declare(value, const(0, work)),
            If(u * width + lane < units, (Assign(value, found),)),
            Store("out", place + lane, value)], LoopKind.VECTOR)

    body = loop(u, tiles, [loop(g, gates, [
        Let(row, g * units + u * width),
        Let(at, u * ((units + 1) * (gates * width)) + g * width),
        loop(k, units, [line(at + k * (gates * width),
                             cast(Load("weight", (row + lane) * row_step + k * step, source), work))]),
        line(at + units * (gates * width), bias),
    ])], LoopKind.PARALLEL)
    buffers = [Buffer("out", work, True), Buffer("weight", source), *([Buffer("bias", source)] if biased else [])]
    return Program("recurrent_weights", (*buffers, *scalars), (Kernel("recurrent_weights", (body,)),))


def columns(source: DType, work: DType) -> Program:
    """``out[u, k, c] = weight[k, u * COLUMNS * lanes + c]``, 0 beyond the last unit.

    Parameters: result, weight; then the number of blocks of units, rows of the weight, H, and the weight's strides.
    """
    scalars, (blocks, rows, units, row_step, step) = numbers("blocks rows units row_step step")
    u, k, c, at, unit = map(index, ("u", "k", "c", "at", "unit"))
    width, value = COLUMNS * lanes(work), Var("value", work)
    body = loop(u, blocks, [loop(k, rows, [
        Let(at, (u * rows + k) * width),
        loop(c, width, [
            Let(unit, u * width + c),
            Declare(value, const(0, work)),
            If(unit < units, (Assign(value, cast(Load("weight", k * row_step + unit * step, source), work)),)),
            Store("out", at + c, value)]),
    ])], LoopKind.PARALLEL)
    return Program("recurrent_columns", (Buffer("out", work, True), Buffer("weight", source), *scalars),
                   (Kernel("recurrent_columns", (body,)),))


class _Units:
    """Statements about a vector of units of one example: reads and writes between the arrays and named values."""

    def __init__(self, tile: Tile, unit: Expr, units: Expr, whole: bool) -> None:
        self._tile = tile
        self._inside = None if whole else tile.over(unit) < units
        self._unit = unit
        self.work = tile.dtype
        self.statements: list[Stmt] = []

    def at(self, first: Expr) -> Expr:
        """The position of this lane's unit in a line that begins at ``first``."""
        return self._tile.over(first + self._unit)

    def read(self, name: str, buffer: str, first: Expr, dtype: DType) -> Var:
        """A value of this lane's unit; 0 beyond the last one."""
        var, value = Var(name, self.work), cast(Load(buffer, self.at(first), dtype), self.work)
        if self._inside is None:
            self.statements.append(Let(var, value))
        else:
            self.statements += [Declare(var, const(0, self.work)), If(self._inside, (Assign(var, value),))]
        return var

    def write(self, stores: Sequence[tuple[str, Expr, Expr, DType]]) -> None:
        """Store values of this lane's unit: array, where its line begins, the value and the array's dtype."""
        body = [Store(buffer, self.at(first), cast(value, dtype)) for buffer, first, value, dtype in stores]
        self.statements += body if self._inside is None else [If(self._inside, tuple(body))]

    def name(self, name: str, value: Expr) -> Var:
        """A name for a value."""
        var = Var(name, self.work)
        self.statements.append(Let(var, value))
        return var


def forward(kind: str, result: DType, work: DType, rows: int, saving: bool, whole: bool) -> Program:
    """A layer of cells through time.

    Parameters: outputs, cells and saved (where there are such), states (two times rows of all tasks, H; scratch), cell
    states (scratch), inputs, first outputs and first cell states, the weight as ``weights`` makes it; then the numbers
    of tasks, of tiles in a task, of all tiles, of moments, examples and units, and the first moment and the step.

    Args:
        kind: A name of ``CELLS``.
        result: Element type of inputs, outputs and cells.
        work: Element type of sums, states and what is saved.
        rows: Examples in a tile.
        saving: Whether what the way back needs is saved.
        whole: Whether units are a multiple of a vector.
    """
    cell = CELLS[kind]
    scalars, (tasks, group, all_tiles, moments, count, units, start, step) = numbers(
        "tasks group all_tiles moments count units start step")
    task, s, u, r, n, t, q, last = map(index, ("task", "s", "u", "r", "n", "t", "q", "last"))
    first, line, now, later, block = map(index, ("first", "line", "now", "later", "block"))
    width, plane = lanes(work), all_tiles * (rows * units)
    tile = Tile(rows, cell.gates, work)
    span = cell.gates * width
    saves = saving and cell.saved > 0
    fill = _Units(tile, u * width, units, whole)
    begun = [("state", (first + r) * units, fill.read("output", "first_output", n * units, result), work)]
    if cell.state:
        begun.append(("cell", (first + r) * units, fill.read("before", "first_cell", n * units, result), work))
    fill.write(begun)
    finish = _Units(tile, u * width, units, whole)
    inputs = [finish.read(f"input{g}", "inputs", line * (cell.gates * units) + g * units, result)
              for g in range(cell.gates)]
    sums = [finish.name(f"gate{g}", Load("spill", tile.over((r * cell.gates + g) * width), work))
            for g in range(cell.gates)]
    output = finish.read("output", "state", now + (first + r) * units, work)
    before = finish.read("before", "cell", (first + r) * units, work) if cell.state else output
    new, new_cell, saved = cell.forward(inputs, sums, output, before)
    made = finish.name("new", new)
    stores: list[tuple[str, Expr, Expr, DType]] = [("out", line * units, made, result),
                                                   ("state", later + (first + r) * units, made, work)]
    if new_cell is not None:
        kept = finish.name("new_cell", new_cell)
        stores += [("cells", line * units, kept, result), ("cell", (first + r) * units, kept, work)]
    if saves:
        stores += [("saved", line * (cell.saved * units) + k * units, value, work) for k, value in enumerate(saved)]
    finish.write(stores)
    example = Let(n, smaller(first + r, count - 1))
    body = loop(task, tasks, [
        Let(last, smaller((task + 1) * group, all_tiles)),
        loop(q, last, [
            Let(first, q * rows),
            loop(r, rows, [example, loop(u, _tiles(units, width), [tile.vectors(fill.statements)])])],
            start=task * group),
        loop(s, moments, [
            Let(t, start + s * step),
            Let(now, s % 2 * plane),
            Let(later, plane - now),
            loop(u, _tiles(units, width), [Let(block, u * ((units + 1) * span)), loop(q, last, [
                Let(first, q * rows),
                tile.vectors([tile.put(row, g, Load("weight", tile.over(block + units * span, g), work))
                              for row in range(rows) for g in range(cell.gates)]),
                tile.multiply(units, ("state", [now + (first + row) * units for row in range(rows)], 1),
                              ("weight", block, span)),
                tile.vectors([Store("spill", tile.over(const((row * cell.gates + g) * width, s.dtype)),
                                    tile.at(row, g)) for row in range(rows) for g in range(cell.gates)]),
                loop(r, rows, [example, Let(line, t * count + n), tile.vectors(finish.statements)]),
            ], start=task * group)]),
        ]),
    ], LoopKind.PARALLEL)
    buffers = [Buffer("out", result, True)]
    buffers += [Buffer("cells", result, True)] if cell.state else []
    buffers += [Buffer("saved", work, True)] if saves else []
    buffers += [Buffer("state", work, True)] + ([Buffer("cell", work, True)] if cell.state else [])
    buffers += [Buffer("inputs", result), Buffer("first_output", result)]
    buffers += [Buffer("first_cell", result)] if cell.state else []
    kernel = Kernel(f"{kind}_layer", (body,), (*tile.arrays, Local("spill", work, rows * span)))
    return Program(f"{kind}_layer", (*buffers, Buffer("weight", work), *scalars), (kernel,))


def _tiles(units: Expr, width: int) -> Expr:
    return (units + (width - 1)) // width


def backward(kind: str, result: DType, work: DType, rows: int, given: tuple[bool, bool], whole: bool) -> Program:
    """The way back of ``forward``.

    Parameters: gradients of inputs, of hidden sums (where they differ), of first outputs and first cell states (both
    for rows of all tasks; where there are cells), the hidden sums' gradients of one moment (scratch, for rows of all
    tasks), gradients of outputs and of cells (where given), saved (where there is something), outputs, cells, first
    outputs, first cell states, the weight as ``columns`` makes it; then the numbers of tasks, moments, examples and
    units, and the first moment and the step of the way there.

    Args:
        kind: A name of ``CELLS``.
        result: Element type of all but what is named next.
        work: Element type of sums, states and what is saved.
        rows: Examples in a tile.
        given: Whether there are gradients of outputs, and of cells.
        whole: Whether units are a multiple of a vector.
    """
    cell = CELLS[kind]
    scalars, (tasks, moments, count, units, start, step) = numbers("tasks moments count units start step")
    task, s, u, r, n, t = map(index, ("task", "s", "u", "r", "n", "t"))
    first, line, past, block, own = map(index, ("first", "line", "past", "block", "own"))
    width, differ = lanes(work), kind == "gru"
    tile = Tile(rows, COLUMNS, work)
    span, depth = COLUMNS * width, cell.gates * units
    clear = _Units(tile, u * width, units, whole)
    zero = const(0, work)
    clear.write([("hidden", own * units, zero, work), *([("cell", own * units, zero, work)] if cell.state else [])])
    unit = _Units(tile, u * width, units, whole)
    _step_back(kind, result, unit, given, (own, line, past, n, units, s >= moments - 1))
    r_at = (first + r) * units
    sums = []
    for column in range(COLUMNS):
        part = _Units(tile, block + column * width, units, False)
        old = part.read(f"old{column}", "hidden", r_at, work)
        part.write([("hidden", r_at, old + Load("spill", tile.over((r * COLUMNS + column) * width), work), work)])
        sums += part.statements
    body = loop(task, tasks, [
        Let(first, task * rows),
        loop(r, rows, [Let(own, first + r), loop(u, _tiles(units, width), [tile.vectors(clear.statements)])]),
        loop(s, moments, [
            Let(t, start + (moments - 1 - s) * step),
            loop(r, rows, [
                Let(own, first + r),
                Let(n, smaller(own, count - 1)),
                Let(line, t * count + n),
                Let(past, line - select(s >= moments - 1, const(0, s.dtype), step) * count),
                loop(u, _tiles(units, width), [tile.vectors(unit.statements)])]),
            loop(u, _tiles(units, span), [
                Let(block, u * span),
                tile.zero(),
                tile.multiply(depth, ("row", [(first + row) * depth for row in range(rows)], 1),
                              ("weight", u * (depth * span), span)),
                tile.vectors([Store("spill", tile.over(const((row * COLUMNS + c) * width, s.dtype)), tile.at(row, c))
                              for row in range(rows) for c in range(COLUMNS)]),
                loop(r, rows, [tile.vectors(sums)]),
            ]),
        ]),
    ], LoopKind.PARALLEL)
    buffers = [Buffer("changes", result, True)] + ([Buffer("passed", result, True)] if differ else [])
    buffers += [Buffer("hidden", work, True)] + ([Buffer("cell", work, True)] if cell.state else [])
    buffers += [Buffer("row", work, True)]
    buffers += [Buffer(name, result) for name, there in zip(("given", "given_cell"), given, strict=True) if there]
    buffers += [Buffer("saved", work)] if cell.saved else []
    names = ["cells", "first_cell"] if cell.state else ["out", "first_output"] if differ else ["out"]
    buffers += [Buffer(name, result) for name in names]
    kernel = Kernel(f"{kind}_layer_back", (body,), (*tile.arrays, Local("spill", work, rows * span)))
    return Program(f"{kind}_layer_back", (*buffers, Buffer("weight", work), *scalars), (kernel,))


def _step_back(kind: str, result: DType, unit: _Units, given: tuple[bool, bool], places: tuple[Expr, ...]) -> None:
    """What one moment's gates make of the gradients that arrive at it."""
    cell, work, differ = CELLS[kind], unit.work, kind == "gru"
    own, line, past, n, units, begins = places
    depth, zero = cell.gates * units, const(0, unit.work)
    hidden: Expr = unit.read("hidden_grad", "hidden", own * units, work)
    if given[0]:
        hidden = unit.name("hidden_sum", hidden + unit.read("given", "given", line * units, result))
    total: Expr = unit.read("cell_grad", "cell", own * units, work) if cell.state else zero
    if given[1]:
        total = unit.name("cell_sum", total + unit.read("given_cell", "given_cell", line * units, result))
    saved = [unit.read(f"saved{k}", "saved", line * (cell.saved * units) + k * units, work) for k in range(cell.saved)]
    nothing: list[Expr] = [zero] * 4
    if cell.state:
        after = unit.read("after", "cells", line * units, result)
        chosen = _chosen(unit, "before", "cells", "first_cell", (past, n, units, begins), result)
        nothing = [zero, after, chosen, zero]
    elif differ:
        nothing[3] = _chosen(unit, "last", "out", "first_output", (past, n, units, begins), result)
    else:
        nothing[0] = unit.read("output", "out", line * units, result)
    changes, through, rest, rest_cell = cell.backward(hidden, total, saved, *nothing)
    made = [unit.name(f"change{g}", change) for g, change in enumerate(changes)]
    same = [k for k, (a, b) in enumerate(zip(changes, through, strict=True)) if a is b]
    passed = [made[k] if k in same else unit.name(f"through{k}", x) for k, x in enumerate(through)]
    stores: list[tuple[str, Expr, Expr, DType]] = [
        ("changes", line * depth + g * units, x, result) for g, x in enumerate(made)]
    stores += [("passed", line * depth + g * units, x, result) for g, x in enumerate(passed)] if differ else []
    stores += [("row", own * depth + g * units, x, work) for g, x in enumerate(passed)]
    stores.append(("hidden", own * units, zero if rest is None else rest, work))
    if rest_cell is not None:
        stores.append(("cell", own * units, rest_cell, work))
    unit.write(stores)


def _chosen(unit: _Units, name: str, buffer: str, first: str, place: tuple[Expr, Expr, Expr, Expr],
            dtype: DType) -> Expr:
    """What stood in ``buffer`` a moment before; in the first moment what stands in ``first``."""
    past, n, units, begins = place
    return unit.name(name, select(begins, unit.read(f"{name}_first", first, n * units, dtype),
                                  unit.read(f"{name}_past", buffer, past * units, dtype)))
