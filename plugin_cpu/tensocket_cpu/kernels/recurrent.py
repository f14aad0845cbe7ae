"""Recurrent layers by one kernel for all time steps (``recurrent_schedule.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.dtypes import DType, bfloat16, dtype_from_name, float32
from tensocket_plugins.ir.scalar import float32_to_bfloat16

from . import recurrent_schedule as programs
from .recurrent_cells import CELLS
from .tiles import lanes

if TYPE_CHECKING:
    from ..device import CpuDevice

_DTYPES: Final = ("float32", "float64", "float16", "bfloat16")
#: Tasks for each thread, so that one delayed thread does not delay all.
_SHARES: Final = 2


class Recurrences:
    """The recurrent kernels of one device: each kind of layer, and its backward pass.

    A layer ``KIND_layer`` writes outputs, cells (of an LSTM) and saved values (or None). It reads inputs, their weight
    and bias (both None if the inputs are already multiplied), first output, first cell state (of an LSTM), weight and
    bias (or None); its scalar is whether it runs in reverse. Of two weights, both or neither have biases. The backward
    pass ``KIND_layer_gradients`` writes gradients of inputs, of hidden sums (of a GRU), of the first output and of the
    first cell state (of an LSTM). It reads gradients of outputs and of cells (or None), first output, first cell state
    (of an LSTM), weight, outputs, cells (of an LSTM) and saved values. No array is empty.
    """

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        for name in _DTYPES:
            dtype = dtype_from_name(name)
            work = dtype if dtype.itemsize >= 4 else float32
            for kind in CELLS:
                for operator, run in ((f"{kind}_layer", self._forward), (f"{kind}_layer_gradients", self._backward)):
                    device.kernels.register(operator, partial(run, kind, dtype, work), dtypes=(name,), recorded=True)

    def _forward(self, kind: str, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any],
                 scalars: Sequence[Any], stream: Stream) -> None:
        cell = CELLS[kind]
        *outs, saved = outs
        inputs, in_weight, in_bias, *first, weight, bias = ins
        folded = in_weight is not None
        (moments, count, units), width = outs[0].shape, lanes(work)
        depth, columns = inputs.shape[2] if folded else 0, programs.sums(kind, folded)
        rows, tiles = programs.fitting_rows(count, columns), -(-units // width)
        blocks = -(-count // rows)
        group = -(-blocks // (_SHARES * self._device.pool.threads))
        packed = self._empty(tiles * ((depth + units) * cell.gates + columns) * width, work, stream)
        given = [x for x in (in_weight, weight, in_bias, bias) if x is not None]
        self._device.program(programs.weights, dtype, work, kind, folded, bias is not None)(
            [packed, *[x if x.ndim == 2 else np.ascontiguousarray(x) for x in given]],
            (tiles, units, depth, *(_strides(in_weight) if folded else (0, 0)), *_strides(weight)), stream)
        scratch = [self._empty(parts * blocks * rows * tiles * width, work, stream)
                   for parts in (2, 1)[:1 + cell.state]]
        arrays = [*outs, *([] if saved is None or not cell.saved else [saved]), *scratch,
                  *map(np.ascontiguousarray, (inputs, *first)), packed]
        run = self._device.program(programs.forward, kind, dtype, work, rows, saved is not None, units % width == 0,
                                   folded)
        run(arrays, (-(-blocks // group), group, blocks, moments, count, depth, units, *_walk(moments, *scalars)),
            stream)

    def _backward(self, kind: str, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any],
                  scalars: Sequence[Any], stream: Stream) -> None:
        cell = CELLS[kind]
        firsts = 1 + cell.state
        changes, starts = outs[:len(outs) - firsts], outs[len(outs) - firsts:]
        given, first, rest = ins[:firsts], ins[firsts:2 * firsts], ins[2 * firsts:]
        weight, states, saved = rest[0], rest[1:-1], rest[-1]
        (moments, count, units), width = states[0].shape, lanes(work)
        tile, blocks = programs.fitting_rows(count, programs.COLUMNS), -(-units // (programs.COLUMNS * width))
        tasks = -(-count // tile)
        rows = tasks * tile
        packed = self._empty(blocks * len(weight) * programs.COLUMNS * width, work, stream)
        self._device.program(programs.columns, dtype, work)(
            (packed, weight), (blocks, len(weight), units, *_strides(weight)), stream)
        ends = [self._empty(rows * units, work, stream) for _ in starts]
        arrays = [*changes, *ends, self._empty(rows * len(weight), work, stream),
                  *[x for x in given if x is not None], *([saved] if cell.saved else []),
                  states[-1], *(first[-1:] if kind in ("lstm", "gru") else ()), packed]
        there = (given[0] is not None, cell.state and given[1] is not None)
        run = self._device.program(programs.backward, kind, dtype, work, tile, there, units % width == 0)
        run([*changes, *map(np.ascontiguousarray, arrays[len(changes):])],
            (tasks, moments, count, units, *_walk(moments, *scalars)), stream)
        for start, end in zip(starts, ends, strict=True):
            end = end.reshape(rows, units)[:count]
            start[...] = float32_to_bfloat16(end) if dtype is bfloat16 else end

    def _empty(self, size: int, dtype: DType, stream: Stream) -> Any:
        return self._device.empty((size,), dtype, stream)


def _walk(moments: int, reverse: bool) -> tuple[int, int]:
    """Return the first time step and the increment."""
    return (moments - 1, -1) if reverse else (0, 1)


def _strides(matrix: Any) -> tuple[int, int]:
    rows, columns = matrix.strides
    return rows // matrix.itemsize, columns // matrix.itemsize
