"""Triangles of matrices."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import element_strides
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.kernel_handles import moved_handle
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.ir.build.elements import MOVED_AS
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.nodes import Load, Program, Store, const, select
from tensocket_plugins.ir.schedule import Strategy

from ..kinds.composite import composite
from ..kinds.view import Custom


def triangle_nest(dtype: DType, rank: int, upper: bool, unit: bool, index: DType) -> Program:
    """Return the nest ``out0[.., i, j] = in0[.., i, j] if i and j are in the triangle else 0``.

    Args:
        dtype: Element type.
        rank: Number of dimensions.
        upper: Whether the triangle lies above the diagonal.
        unit: Whether the input has stride 1 along the last dimension, as the result has.
        index: Integer type of index arithmetic.
    """
    word = MOVED_AS.get(dtype, dtype)
    words = dtype.itemsize // word.itemsize
    nest = ProgramBuilder("triangle", index)
    nest.buffer("out0", word, writable=True)
    nest.buffer("in0", word)
    sizes, places = nest.sizes("n", rank), nest.variables("i", rank)
    one = const(1, index)
    target = dot(places, [*nest.strides("out0", rank - 1), one])
    read = nest.strides("in0", rank)
    source = dot(places, [*read[:-1], one if unit else read[-1]])
    distance, diagonal = places[-1] - places[-2], nest.number("diagonal", index)
    inside = distance >= diagonal if upper else distance <= diagonal
    zero = const(0.0 if word.kind == "float" else 0, word)
    body = [Store("out0", target * words + k, select(inside, Load("in0", source * words + k, word), zero))
            for k in range(words)]
    return nest.program(parallel(places, sizes, body))


def _triangle(state: Any, input: Any, diagonal: int, upper: bool) -> Any:
    source, dtype = input._array, input.dtype
    rows, columns = source.shape[-2:]
    limit = min(max(diagonal, -rows), columns)
    if state.runtime.target is None:
        column = input.new_arange(0, columns, 1)
        first = input.new_arange(0, rows, 1).unsqueeze(1) + limit
        return input.masked_fill(column < first if upper else column > first, 0)
    out = state.runtime.empty(source.shape, dtype, state.stream)
    if 0 not in source.shape:
        rank, steps = source.ndim, element_strides(source)
        reach = (s * n for s, n in zip(steps, source.shape, strict=True))
        index, unit = index_dtype(state, [2 * n for n in (out.size, *reach)]), steps[-1] == 1
        launch(state, ("triangle", dtype, rank, upper, unit, index),
               lambda: triangle_nest(dtype, rank, upper, unit, index), Strategy.SERIAL,
               [moved_handle(out, dtype), moved_handle(source, dtype)],
               [*source.shape, *element_strides(out)[:-1], *steps, limit])
    return wrap(out, state.key | dtype_bit(dtype))


triangle: Final[Custom] = Custom(
    "triangle(Tensor input, int diagonal, bool upper) -> Tensor", "The upper or lower triangles of matrices.",
    _triangle, method=False, function=False, replayable=True,
    derivative=Derivative(input=lambda grad, diagonal, upper: call(triangle, grad, diagonal, upper)))


def _matrix(operator: str, input: Any) -> Any:
    if input.ndim < 2:
        raise ShapeError(operator, f"a tensor of shape {list(input.shape)}", "matrices have at least 2 dimensions",
                         "unsqueeze it first")
    return input


@composite("tril(Tensor input, int diagonal=0) -> Tensor", replayable=True)
def tril(input: Any, diagonal: int = 0) -> Any:
    """Return the lower triangles of matrices, up to a diagonal; zeros elsewhere."""
    return call(triangle, _matrix("tril", input), diagonal, False)


@composite("triu(Tensor input, int diagonal=0) -> Tensor", replayable=True)
def triu(input: Any, diagonal: int = 0) -> Any:
    """Return the upper triangles of matrices, from a diagonal on; zeros elsewhere."""
    return call(triangle, _matrix("triu", input), diagonal, True)
