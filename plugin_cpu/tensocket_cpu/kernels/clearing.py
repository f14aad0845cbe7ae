"""Filling part of an array with zeros: by NumPy, or by a kernel while launches are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.ir.nodes import Buffer, Kernel, LoopKind, Program, Scalar, Store, Var, const, loop

if TYPE_CHECKING:
    from ..device import CpuDevice


def zeros(dtype: DType) -> Program:
    """Return the program ``out[row * pitch + first + k] = 0`` for ``rows`` rows and k below ``count``."""
    names = ("rows", "count", "pitch", "first")
    rows, count, pitch, first = (Var(name, int64) for name in names)
    row, k = Var("row", int64), Var("k", int64)
    body = loop(k, count, (Store("out", row * pitch + (first + k), const(0, dtype)),))
    return Program("zeros", (Buffer("out", dtype, True), *(Scalar(name, int64) for name in names)),
                   (Kernel("zeros", (loop(row, rows, (body,), LoopKind.PARALLEL),)),))


def clear(device: CpuDevice, array: Any, first: int, dtype: DType, stream: Stream) -> None:
    """Fill the rows of a contiguous array [rows, columns] with zeros from column ``first`` on.

    A recording does not see writes by NumPy, so a kernel writes the zeros while one runs.
    """
    if not RECORDERS:
        array[:, first:] = 0
    elif first < array.shape[1]:
        run = device.program(zeros, dtype)
        run((array,), (array.shape[0], array.shape[1] - first, array.shape[1], first), stream)
