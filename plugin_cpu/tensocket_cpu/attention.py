"""Attention by blocks of queries and keys (``ir/schedule/attention.py``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Executable, Stream
from tensocket_plugins.contract.dtypes import DType, bool_, dtype_from_name, float32
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.schedule import attention as programs
from tensocket_plugins.ir.schedule.tiles import lanes
from tensocket_plugins.ir.target import Target

if TYPE_CHECKING:
    from .device import CpuDevice

_DTYPES: Final = ("float32", "float64", "float16", "bfloat16")


class Attention:
    """The kernels of one device: ``attend`` and its way back.

    ``attend``: results [A, B, L, V] and logarithms of sums [A, B, L]; queries [A, B, L, E], keys [A, H, S, E] and
    values [A, H, S, V] of H heads that divide B, and a mask that is expanded to [A, B, L, S] (or None); whether it is
    causal, and the scale. ``attend_gradients``: gradients of queries, keys and values; the gradient of the results, the
    operands as before, results and logarithms of sums. What is written is contiguous, and no array is empty.
    """

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        self._programs: dict[Any, Executable] = {}
        for name in _DTYPES:
            dtype = dtype_from_name(name)
            work = dtype if dtype.itemsize >= 4 else float32
            device.kernels.register("attend", partial(self._forward, dtype, work), dtypes=(name,))
            device.kernels.register("attend_gradients", partial(self._backward, dtype, work), dtypes=(name,))

    def _program(self, make: Any, *args: Any) -> Executable:
        found = self._programs.get((make, *args))
        if found is None:
            found = self._device.compile_ir(decompose(make(*args), Target(kind="cpu")))
            self._programs[make, *args] = found
        return found

    def _forward(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                 stream: Stream) -> None:
        (out, sums), (query, key, value, mask), (causal, scale) = outs, ins, scalars
        (batch, heads, length, depth), (_, groups, keys, size) = query.shape, value.shape
        form, mask, mask_steps = self._form(dtype, work, mask, causal, depth, size)
        turned = self._lines(dtype, work, key.swapaxes(2, 3), 1, stream)
        rows = query if dtype is work and query.strides[3] == query.itemsize else (
            self._lines(dtype, work, query, 1, stream))
        values = self._rows(dtype, work, value, form.values, stream)
        blocks, span = -(-length // programs.ROWS), form.values * lanes(work)
        pitch, tasks = -(-size // span) * span, batch * heads * blocks
        room = self._device.empty((tasks * programs.ROWS * pitch,), work, stream)
        self._program(programs.forward, form)(
            [out, sums, room, *mask, rows, turned, values],
            (tasks, blocks, heads, heads // groups, length, keys, depth, size, pitch, turned.shape[3],
             *_steps(out), *mask_steps, *_steps(rows), *_steps(values), scale), stream)

    def _backward(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                  stream: Stream) -> None:
        (grad, query, key, value, mask, out, sums), (causal, scale) = ins, scalars
        (batch, heads, length, depth), (_, groups, keys, size) = query.shape, value.shape
        form, mask, mask_steps = self._form(dtype, work, mask, causal, depth, size)
        turned_key, turned_value = (self._lines(dtype, work, x.swapaxes(2, 3), 1, stream) for x in (key, value))
        queries, rows = (self._rows(dtype, work, x, form.keys, stream) for x in (query, key))
        grads = self._rows(dtype, work, grad, form.values, stream)
        out = out if out.strides[3] == out.itemsize else np.ascontiguousarray(out)
        blocks, tasks = -(-length // programs.ROWS), batch * groups
        pitches = [-(-n // (c * lanes(work))) * c * lanes(work) for n, c in ((depth, form.keys), (size, form.values))]
        sizes = (batch * heads * blocks * programs.ROWS * pitches[0], tasks * programs.KEYS * pitches[0],
                 tasks * programs.KEYS * pitches[1], batch * heads * length)
        rooms = [self._device.empty((n,), work, stream) for n in sizes]
        self._program(programs.backward, form)(
            [*outs, *rooms, *mask, queries, turned_key, rows, turned_value, grads, out, np.ascontiguousarray(sums)],
            (tasks, groups, heads // groups, length, keys, depth, size, blocks, *pitches, turned_key.shape[3],
             turned_value.shape[3], *mask_steps, *_steps(queries), *_steps(rows), *_steps(grads), *_steps(out), scale),
            stream)

    def _form(self, dtype: DType, work: DType, mask: Any, causal: bool, depth: int, size: int
              ) -> tuple[programs.Form, list[Any], tuple[int, ...]]:
        """The programs' form, the mask with neighbouring elements for neighbouring keys, and its strides."""
        kind = None if mask is None else bool_ if mask.dtype == np.bool_ else dtype
        form = programs.Form(dtype, work, kind, causal, programs.columns(depth, work), programs.columns(size, work))
        if mask is None:
            return form, [], (0, 0, 0)
        if mask.strides[3] != mask.itemsize and mask.shape[3] > 1:
            # What is the same for several queries, or heads, is copied once.
            own = tuple(slice(None, 1 if step == 0 else None) for step in mask.strides[:3])
            mask = np.broadcast_to(np.ascontiguousarray(mask[own]), mask.shape)
        return form, [mask], _steps(mask)

    def _rows(self, dtype: DType, work: DType, x: Any, vectors: int, stream: Stream) -> Any:
        """An array whose rows can be read in tiles of some vectors: itself, where this is so."""
        span = vectors * lanes(work)
        if dtype is work and x.strides[3] == x.itemsize and x.shape[3] % span == 0:
            return x
        return self._lines(dtype, work, x, vectors, stream)

    def _lines(self, dtype: DType, work: DType, x: Any, vectors: int, stream: Stream) -> Any:
        """A copy [A, B, i, j] with zeros behind each line, up to a multiple of some vectors."""
        span = vectors * lanes(work) if vectors > 1 else programs.VECTORS * lanes(work)
        pitch = -(-x.shape[3] // span) * span
        steps = tuple(s // x.itemsize for s in x.strides)
        out = self._device.empty((*x.shape[:3], pitch), work, stream)
        self._program(programs.lines, dtype, work, steps[3] == 1)(
            (out, x), (math.prod(x.shape[:3]), x.shape[1], x.shape[2], x.shape[3], pitch, *steps), stream)
        return out


def _steps(x: Any) -> tuple[int, int, int]:
    """Strides of all dimensions but the last, in elements."""
    a, b, row = (s // x.itemsize for s in x.strides[:3])
    return a, b, row
