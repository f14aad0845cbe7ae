"""Attention by blocks of queries and keys (``attention_forward.py``, ``attention_backward.py``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Executable, Stream
from tensocket_plugins.contract.dtypes import DType, bool_, dtype_from_name, float32
from tensocket_plugins.kit.bounded import BoundedCache

from .attention_backward import backward
from .attention_blocks import KEYS, ROWS, VECTORS, Form, columns
from .attention_forward import forward, lines
from .tiles import lanes

if TYPE_CHECKING:
    from ..device import CpuDevice

_DTYPES: Final = ("float32", "float64", "float16", "bfloat16")
#: The number of plans that are cached.
_PLANS: Final = 256

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class _Copy:
    """A copy of an operand in lines: its shape [A, B, i, pitch], and the program with its scalars."""

    shape: Sizes
    run: Executable
    scalars: Sizes


@dataclass(frozen=True)
class _Plan:
    """The plan that follows from shapes and strides: scalars, and copies of operands that kernels cannot read."""

    run: Executable
    query: _Copy | None
    key: _Copy
    value: _Copy | None
    room: int
    scalars: Sizes




class Attention:
    """The attention kernels of one device: ``attend`` and its backward pass.

    ``attend`` writes results [A, B, L, V] and logarithms of sums [A, B, L]. It reads queries [A, B, L, E], keys
    [A, H, S, E] and values [A, H, S, V], where the number of heads H divides B, and a mask that is expanded to
    [A, B, L, S] (or None). Its scalars are whether attention is causal, and the scale. ``attend_gradients`` writes the
    gradients of queries, keys and values. It reads the gradient of the results, the same operands, the results and the
    logarithms of sums. Written arrays are contiguous, and no array is empty.
    """

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        self._plans: BoundedCache[Any, _Plan] = BoundedCache(_PLANS)
        for name in _DTYPES:
            dtype = dtype_from_name(name)
            work = dtype if dtype.itemsize >= 4 else float32
            for operator, run in (("attend", self._forward), ("attend_gradients", self._backward)):
                device.kernels.register(operator, partial(run, dtype, work), dtypes=(name,), recorded=True)

    def _forward(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                 stream: Stream) -> None:
        (out, sums), (query, key, value, mask), (causal, scale) = outs, ins, scalars
        mask = None if mask is None else _neighbours(mask)
        given = (dtype, causal, query.shape, query.strides, key.strides, value.shape, value.strides, out.strides,
                 None if mask is None else (mask.dtype, mask.strides))
        plan = self._plans.get(given)
        if plan is None:
            plan = self._plans[given] = self._plan(dtype, work, out, query, key, value, mask, causal)
        plan.run([
            out, sums, self._device.empty((plan.room,), work, stream), *(() if mask is None else (mask,)),
            query if plan.query is None else self._copied(plan.query, query, work, stream),
            self._copied(plan.key, key, work, stream),
            value if plan.value is None else self._copied(plan.value, value, work, stream)],
            (*plan.scalars, scale), stream)

    def _plan(self, dtype: DType, work: DType, out: Any, query: Any, key: Any, value: Any, mask: Any,
              causal: bool) -> _Plan:
        (batch, heads, length, depth), (_, groups, keys, size) = query.shape, value.shape
        form = _form(dtype, work, mask, causal, depth, size)
        turned = self._lines(dtype, work, key.swapaxes(2, 3), 1)
        rows = None if dtype is work and query.strides[3] == query.itemsize else self._lines(dtype, work, query, 1)
        values = self._rows(dtype, work, value, form.values)
        blocks, span = -(-length // ROWS), form.values * lanes(work)
        pitch, tasks = -(-size // span) * span, batch * heads * blocks
        numbers = (tasks, blocks, heads, heads // groups, length, keys, depth, size, pitch, turned.shape[3],
                   *_steps(out), *_mask_steps(mask), *_read_steps(query, rows), *_read_steps(value, values))
        return _Plan(self._device.program(forward, form), rows, turned, values, tasks * ROWS * pitch,
                     numbers)

    def _backward(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                  stream: Stream) -> None:
        (grad, query, key, value, mask, out, sums), (causal, scale) = ins, scalars
        (batch, heads, length, depth), (_, groups, keys, size) = query.shape, value.shape
        mask = None if mask is None else _neighbours(mask)
        form = _form(dtype, work, mask, causal, depth, size)
        turned = [self._copied(self._lines(dtype, work, x.swapaxes(2, 3), 1), x, work, stream) for x in (key, value)]
        read = []
        for x, vectors in ((query, form.keys), (key, form.keys), (grad, form.values)):
            copy = self._rows(dtype, work, x, vectors)
            read.append(x if copy is None else self._copied(copy, x, work, stream))
        out = out if out.strides[3] == out.itemsize else np.ascontiguousarray(out)
        blocks, tasks = -(-length // ROWS), batch * groups
        pitches = [-(-n // (c * lanes(work))) * c * lanes(work) for n, c in ((depth, form.keys), (size, form.values))]
        sizes = (batch * heads * blocks * ROWS * pitches[0], tasks * KEYS * pitches[0],
                 tasks * KEYS * pitches[1], batch * heads * length)
        rooms = [self._device.empty((n,), work, stream) for n in sizes]
        self._device.program(backward, form)(
            [*outs, *rooms, *(() if mask is None else (mask,)), read[0], turned[0], read[1], turned[1], read[2], out,
             np.ascontiguousarray(sums)],
            (tasks, groups, heads // groups, length, keys, depth, size, blocks, *pitches,
             *(x.shape[3] for x in turned), *_mask_steps(mask), *(step for x in read for step in _steps(x)),
             *_steps(out), scale), stream)

    def _rows(self, dtype: DType, work: DType, x: Any, vectors: int) -> _Copy | None:
        """Return the copy of an array whose rows are read in tiles of ``vectors`` vectors; None if it needs none."""
        if dtype is work and x.strides[3] == x.itemsize and x.shape[3] % (vectors * lanes(work)) == 0:
            return None
        return self._lines(dtype, work, x, vectors)

    def _lines(self, dtype: DType, work: DType, x: Any, vectors: int) -> _Copy:
        """Return a copy [A, B, i, j] whose lines are padded with zeros to a multiple of ``vectors`` vectors."""
        span = vectors * lanes(work) if vectors > 1 else VECTORS * lanes(work)
        pitch = -(-x.shape[3] // span) * span
        steps = tuple(s // x.itemsize for s in x.strides)
        return _Copy((*x.shape[:3], pitch), self._device.program(lines, dtype, work, steps[3] == 1),
                     (math.prod(x.shape[:3]), x.shape[1], x.shape[2], x.shape[3], pitch, *steps))

    def _copied(self, copy: _Copy, x: Any, work: DType, stream: Stream) -> Any:
        out = self._device.empty(copy.shape, work, stream)
        copy.run((out, x), copy.scalars, stream)
        return out


def _form(dtype: DType, work: DType, mask: Any, causal: bool, depth: int, size: int) -> Form:
    kind = None if mask is None else bool_ if mask.dtype == np.bool_ else dtype
    return Form(dtype, work, kind, causal, columns(depth, work), columns(size, work))


def _neighbours(mask: Any) -> Any:
    """Return a mask whose elements for adjacent keys are adjacent; rows that share memory still share it."""
    if mask.strides[3] == mask.itemsize or mask.shape[3] == 1:
        return mask
    own = tuple(slice(None, 1 if step == 0 else None) for step in mask.strides[:3])
    return np.broadcast_to(np.ascontiguousarray(mask[own]), mask.shape)


def _steps(x: Any) -> Sizes:
    """Return the strides of all dimensions but the last, in elements."""
    a, b, row, _ = x.strides
    size = x.itemsize
    return a // size, b // size, row // size


def _mask_steps(mask: Any) -> Sizes:
    return (0, 0, 0) if mask is None else _steps(mask)


def _read_steps(x: Any, copy: _Copy | None) -> Sizes:
    """Return the strides of an operand or, if it is copied, of its copy."""
    if copy is None:
        return _steps(x)
    _, heads, rows, pitch = copy.shape
    return heads * rows * pitch, rows * pitch, pitch
