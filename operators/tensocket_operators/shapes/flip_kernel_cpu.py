"""Copies with the last dimension reversed, for CPUs."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, element_strides
from tensocket_core.launch.kernel_handles import moved_handle
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import moves
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.element_types import MOVED_AS
from tensocket_plugins.ir.nodes import Let, LoopKind, Program, Var, loop
from tensocket_plugins.ir.strategies import Strategy

from ..kinds.programs import Programs

_PROGRAMS: Final = Programs("flip", cpu=True, simt=False)


def reversal_nest(dtype: DType, rank: int) -> Program:
    """Return the nest ``out0[i..., j] = in0[i..., n - 1 - j]``, where both arrays have stride 1 over j.

    The sizes are those of i and j; the strides are those of the result and of the input over i, which may be negative.
    A number states the position of the input's last element in the first row.
    """
    index = dtypes.int64
    nest = ProgramBuilder("reversal", index)
    nest.buffer("out0", MOVED_AS.get(dtype, dtype), writable=True)
    nest.buffer("in0", MOVED_AS.get(dtype, dtype))
    (*sizes, width), rows = nest.sizes("n", rank + 1), nest.variables("i", rank)
    target, source = (nest.strides(array, rank) for array in ("out0", "in0"))
    last, start, to, j = nest.number("last", index), Var("start", index), Var("to", index), Var("j", index)
    return nest.program(parallel(rows, sizes, [
        Let(start, last + dot(rows, source)), Let(to, dot(rows, target)),
        loop(j, width, moves("out0", to + j, "in0", start - j, dtype), LoopKind.PARALLEL)]))


def reverse_array(state: DeviceState, out: Any, source: Any, axes: tuple[int, ...], dtype: DType) -> bool:
    """Copy ``source``, reversed along ``axes``, into ``out`` of its shape; return whether the kernel applies."""
    rank = len(source.shape)
    steps = list(element_strides(source))
    if not _PROGRAMS.of(state) or rank - 1 not in axes or steps[-1:] != [1] or (
            element_strides(out)[-1:] != (1,)):
        return False
    last = 0
    for axis in axes:
        last += (source.shape[axis] - 1) * steps[axis]
        steps[axis] = -steps[axis]
    (*sizes, width), ((*written, _), (*read, step)) = coalesce(source.shape, [element_strides(out), tuple(steps)])
    if step != -1:
        return False
    if not sizes:
        sizes, written, read = [1], [0], [0]
    launch(state, ("reversal", dtype, len(sizes)), lambda: reversal_nest(dtype, len(sizes)), Strategy.GROUP,
           [moved_handle(out, dtype), moved_handle(source, dtype)], [*sizes, width, *written, *read, last])
    return True
