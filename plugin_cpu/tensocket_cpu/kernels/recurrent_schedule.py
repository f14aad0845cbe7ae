"""Recurrent layers on a CPU: one kernel walks through time, with the product of a step in vector registers.

Examples are independent, so a task takes a few of them through all time steps. Registers hold the sums of all gates of
some units together; the kernel finishes these units at once, while their sums are in the first-level cache.

Arrays: inputs [T, N, gates * H] (already multiplied by their weight), outputs and cells [T, N, H], and saved values
[T, N, values * H] for the backward pass. Step s of a walk is the time step ``start + s * step``, so that a walk may
begin at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.nodes import (
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
from tensocket_plugins.ir.schedule.nest import smaller

from .recurrent_cells import CELLS
from .tiles import Tile, index, lanes, numbers

#: The vectors of units in a tile of the backward pass.
COLUMNS: Final = 4


def fitting_rows(count: int, columns: int) -> int:
    """Return the number of examples in a tile with ``columns`` vectors per row.

    Sums then fill the registers, and few rows go unused.
    """
    most = min(24 // columns, 12)
    return min(count, min(range(most, most // 2, -1), key=lambda rows: -(-count // rows) * rows))


def sums(kind: str, folded: bool) -> int:
    """Return the vectors of sums of a unit: one more than gates if folded inputs stay separate for one gate."""
    return CELLS[kind].gates + (folded and CELLS[kind].separate_last_gate)


def weights(source: DType, work: DType, kind: str, folded: bool, biased: bool) -> Program:
    """Return the program that packs weights as ``forward`` reads them: in blocks of units, ``lanes`` units per line.

    Each block has the lines of inputs if they are folded in, then the lines of states, then the biases. Gates that add
    both parts have the sum of both biases.

    Parameters: result, the weight of inputs (folded), the weight of states, the bias of inputs (folded), the bias of
    states; then the number of vectors of units, H, size and strides of the weight of inputs, strides of the weight of
    states.
    """
    gates, columns, width = CELLS[kind].gates, sums(kind, folded), lanes(work)
    scalars, (tiles, units, depth, in_row, in_step, row_step, step) = numbers(
        "tiles units depth in_row in_step row_step step")
    u, k, lane, at = map(index, ("u", "k", "lane", "at"))
    value, unit = Var("value", work), u * width + lane

    def line(place: Expr, found: Expr) -> Stmt:
        return loop(lane, width, [
            Declare(value, const(0, work)),
            If(unit < units, (Assign(value, found),)),
            Store("out", place + lane, value)], LoopKind.VECTOR)

    def part(name: str, first: Expr, count: Expr, strides: tuple[Expr, Expr]) -> list[Stmt]:
        return [loop(k, count, [
            line(first + (k * gates + g) * width,
                 cast(Load(name, (unit + units * g) * strides[0] + k * strides[1], source), work))
            for g in range(gates)])]

    def bias(column: int) -> Expr:
        if not biased:
            return const(0, work)
        both = [cast(Load(name, unit + units * min(column, gates - 1), source), work)
                for name in (("in_bias", "bias") if folded else ("bias",))]
        if columns > gates and column >= gates - 1:  # the last gate's parts stay separate
            return both[column - gates + 1]
        return both[0] if len(both) == 1 else both[0] + both[1]

    states, ends = at + depth * (gates * width), at + (depth + units) * (gates * width)
    body = loop(u, tiles, [
        Let(at, u * (((depth + units) * gates + columns) * width)),
        *(part("in_weight", at, depth, (in_row, in_step)) if folded else []),
        *part("weight", states, units, (row_step, step)),
        *(line(ends + column * width, bias(column)) for column in range(columns)),
    ], LoopKind.PARALLEL)
    names = [*(["in_weight"] if folded else []), "weight", *(["in_bias"] if folded and biased else []),
             *(["bias"] if biased else [])]
    buffers = Buffer("out", work, True), *(Buffer(name, source) for name in names)
    return Program("recurrent_weights", (*buffers, *scalars), (Kernel("recurrent_weights", (body,)),))


def columns(source: DType, work: DType) -> Program:
    """Return the program ``out[u, k, c] = weight[k, u * COLUMNS * lanes + c]``, 0 beyond the last unit.

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
    """A builder of statements for a vector of units of one example: reads arrays into named values, and writes them."""

    def __init__(self, tile: Tile, unit: Expr, units: Expr, whole: bool) -> None:
        self._tile = tile
        self._inside = None if whole else tile.over(unit) < units
        self._unit = unit
        self.work = tile.dtype
        self.statements: list[Stmt] = []

    def at(self, first: Expr) -> Expr:
        """Return the position of this lane's unit in a line that begins at ``first``."""
        return self._tile.over(first + self._unit)

    def read(self, name: str, buffer: str, first: Expr, dtype: DType) -> Var:
        """Return a value of this lane's unit; 0 beyond the last unit."""
        var, value = Var(name, self.work), cast(Load(buffer, self.at(first), dtype), self.work)
        if self._inside is None:
            self.statements.append(Let(var, value))
        else:
            self.statements += [Declare(var, const(0, self.work)), If(self._inside, (Assign(var, value),))]
        return var

    def write(self, stores: Sequence[tuple[str, Expr, Expr, DType]]) -> None:
        """Store values of this lane's unit; a store is an array, the offset of its line, the value and a dtype."""
        body = [Store(buffer, self.at(first), cast(value, dtype)) for buffer, first, value, dtype in stores]
        self.statements += body if self._inside is None else [If(self._inside, tuple(body))]

    def recall(self, name: str, buffer: str, first: Expr) -> Var:
        """Return a value as ``read`` does, from an array whose lines are whole vectors."""
        return self.name(name, Load(buffer, self.at(first), self.work))

    def recall_spill(self, name: str, first: Expr) -> Var:
        """Return a lane of the spilled sums."""
        return self.name(name, Load("spill", self._tile.over(first), self.work))

    def keep(self, stores: Sequence[tuple[str, Expr, Expr]]) -> None:
        """Store values as ``write`` does, to arrays whose lines are whole vectors."""
        self.statements += [Store(buffer, self.at(first), value) for buffer, first, value in stores]

    def name(self, name: str, value: Expr) -> Var:
        """Bind a value to a name, and return the variable."""
        var = Var(name, self.work)
        self.statements.append(Let(var, value))
        return var


def forward(kind: str, result: DType, work: DType, rows: int, saving: bool, whole: bool, folded: bool) -> Program:
    """Return a layer of cells through time.

    Parameters: outputs, cells and saved values (if the layer has them), states (two times rows of all tasks, whole
    vectors of units; scratch), cell states (scratch), inputs, first outputs and first cell states, the weight packed by
    ``weights``; then the numbers of tasks, tiles in a task, all tiles, time steps, examples, elements of an input and
    units, and the first time step and the increment.

    Args:
        kind: A name of ``CELLS``.
        result: Element type of inputs, outputs and cells.
        work: Element type of sums, states and saved values.
        rows: Examples in a tile.
        saving: Whether to save the values that the backward pass needs.
        whole: Whether units are a multiple of a vector.
        folded: Whether the kernel multiplies inputs by their weight; they are of type ``work``.
    """
    cell = CELLS[kind]
    scalars, (tasks, group, all_tiles, moments, count, depth, units, start, step) = numbers(
        "tasks group all_tiles moments count depth units start step")
    task, s, u, r, n, t, q, last = map(index, ("task", "s", "u", "r", "n", "t", "q", "last"))
    first, line, now, later, pitch = map(index, ("first", "line", "now", "later", "pitch"))
    width, plane = lanes(work), all_tiles * rows * pitch
    tile = Tile(rows, sums(kind, folded), work)
    saves = saving and cell.saved > 0
    fill = _Units(tile, u * width, units, whole)
    begun = [("state", (first + r) * pitch, fill.read("output", "first_output", n * units, result))]
    if cell.state:
        begun.append(("cell", (first + r) * pitch, fill.read("before", "first_cell", n * units, result)))
    fill.keep(begun)
    finish = _Units(tile, u * width, units, whole)
    _step(kind, result, finish, folded, saves, (line, r, units, now + (first + r) * pitch,
                                                later + (first + r) * pitch, (first + r) * pitch))
    example = Let(n, smaller(first + r, count - 1))
    body = loop(task, tasks, [
        Let(last, smaller((task + 1) * group, all_tiles)),
        Let(pitch, _tiles(units, width) * width),
        loop(q, last, [
            Let(first, q * rows),
            loop(r, rows, [example, loop(u, _tiles(units, width), [tile.vectors(fill.statements)])])],
            start=task * group),
        loop(s, moments, [
            Let(t, start + s * step),
            Let(now, s % 2 * plane),
            Let(later, plane - now),
            loop(u, _tiles(units, width), [loop(q, last, [
                Let(first, q * rows),
                *_products(kind, tile, folded, (u, now, first, t, count, depth, units, pitch)),
                tile.vectors([Store("spill", tile.over(const((row * tile.columns + g) * width, s.dtype)),
                                    tile.at(row, g)) for row in range(rows) for g in range(tile.columns)]),
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
    kernel = Kernel(f"{kind}_layer", (body,), (*tile.arrays, Local("spill", work, rows * tile.columns * width)))
    return Program(f"{kind}_layer", (*buffers, Buffer("weight", work), *scalars), (kernel,))


def _products(kind: str, tile: Tile, folded: bool, places: tuple[Expr, ...]) -> list[Stmt]:
    """Return the statements for the sums of a tile: biases, products of states, and of inputs if folded in."""
    u, now, first, t, count, depth, units, pitch = places
    gates, block, width = CELLS[kind].gates, index("block"), lanes(tile.dtype)
    span, places_of = gates * width, [(row, g) for row in range(tile.rows) for g in range(tile.columns)]
    states = block + depth * span
    through = [*range(gates - 1), tile.columns - 1]
    parts = [Let(block, u * ((depth + units) * span + tile.columns * width)), tile.vectors([
        tile.put(row, g, Load("weight", tile.over(states + units * span, g), tile.dtype)) for row, g in places_of])]
    if folded:
        given = [(t * count + smaller(first + row, count - 1)) * depth for row in range(tile.rows)]
        parts.append(tile.multiply(depth, ("inputs", given, 1), ("weight", block, span), columns=range(gates)))
    parts.append(tile.multiply(units, ("state", [now + (first + row) * pitch for row in range(tile.rows)], 1),
                               ("weight", states, span), columns=through))
    return parts


def _step(kind: str, result: DType, unit: _Units, folded: bool, saves: bool, places: tuple[Expr, ...]) -> None:
    """Add the statements that compute a unit's outputs from its sums."""
    cell, work, width = CELLS[kind], unit.work, lanes(unit.work)
    line, r, units, now, later, own = places
    columns = sums(kind, folded)
    total = [unit.recall_spill(f"gate{g}", (r * columns + g) * width) for g in range(columns)]
    inputs: list[Expr | None] = [None] * cell.gates
    if not folded:
        inputs = [unit.read(f"input{g}", "inputs", line * (cell.gates * units) + g * units, result)
                  for g in range(cell.gates)]
    elif cell.separate_last_gate:
        inputs[-1], total = total[-2], [*total[:-2], total[-1]]
    output = unit.recall("output", "state", now)
    before = unit.recall("before", "cell", own) if cell.state else output
    new, new_cell, saved = cell.forward(inputs, total, output, before)
    made = unit.name("new", new)
    stores: list[tuple[str, Expr, Expr, DType]] = [("out", line * units, made, result)]
    kept: list[tuple[str, Expr, Expr]] = [("state", later, made)]
    if new_cell is not None:
        state = unit.name("new_cell", new_cell)
        stores.append(("cells", line * units, state, result))
        kept.append(("cell", own, state))
    if saves:
        stores += [("saved", line * (cell.saved * units) + k * units, unit.name(f"kept{k}", value), work)
                   for k, value in enumerate(saved)]
    unit.keep(kept)
    unit.write(stores)


def _tiles(units: Expr, width: int) -> Expr:
    return (units + (width - 1)) // width


def backward(kind: str, result: DType, work: DType, rows: int, given: tuple[bool, bool], whole: bool) -> Program:
    """Return the backward pass of ``forward``.

    Parameters: gradients of inputs, of hidden sums (if they differ), of first outputs and of first cell states (both
    for rows of all tasks; the latter if the kind has cells), the hidden sums' gradients of one time step (scratch, for
    rows of all tasks), gradients of outputs and of cells (if given), saved values (if any), outputs, cells, first
    outputs, first cell states, the weight packed by ``columns``; then the numbers of tasks, time steps, examples and
    units, and the first time step and the increment of the forward pass.

    Args:
        kind: A name of ``CELLS``.
        result: Element type of everything that ``work`` does not name.
        work: Element type of sums, states and saved values.
        rows: Examples in a tile.
        given: Whether gradients of outputs, and of cells, are parameters.
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
    """Add the statements that propagate gradients through the gates of one time step."""
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
    """Return the value of ``buffer`` at the previous time step; at the first time step, that of ``first``."""
    past, n, units, begins = place
    return unit.name(name, select(begins, unit.read(f"{name}_first", first, n * units, dtype),
                                  unit.read(f"{name}_past", buffer, past * units, dtype)))
