"""The kernel of vector products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, element_strides
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.nodes import Let, Load, Program, Stmt, Store, Var
from tensocket_plugins.ir.strategies import Strategy


def vectors_nest(dtype: DType, rank: int, index: DType) -> Program:
    """Return the program of ``product_array``: an iteration computes one vector.

    Sizes and strides are those of the other dimensions; each array also has a stride from element to element.
    """
    nest = ProgramBuilder("vector_product", index)
    arrays = nest.buffer("out0", dtype, writable=True), nest.buffer("in0", dtype), nest.buffer("in1", dtype)
    sizes, i = nest.sizes("n", rank), nest.variables("i", rank)
    starts = [dot(i, nest.strides(array, rank)) for array in arrays]
    steps = [nest.strides(array, 1, "t")[0] for array in arrays]
    elements = [[Var(f"{name}{k}", dtype) for k in range(3)] for name in "xy"]
    body: list[Stmt] = [
        Let(var, Load(array, start + step * k, dtype))
        for array, start, step, names in zip(arrays[1:], starts[1:], steps[1:], elements, strict=True)
        for k, var in enumerate(names)]
    x, y = elements
    for k in range(3):
        following, last = (k + 1) % 3, (k + 2) % 3
        body.append(Store("out0", starts[0] + steps[0] * k, x[following] * y[last] - x[last] * y[following]))
    return nest.program(parallel(i, sizes, body))


def product_array(state: DeviceState, out: Any, operands: Sequence[Any], dim: int, dtype: DType) -> None:
    """Compute vector products of operands along a dimension of size 3; all arrays have one shape, with elements."""
    shape, arrays = out.shape, [out, *operands]
    steps = [list(element_strides(x)) for x in arrays]
    along = [step.pop(dim) for step in steps]
    rest = [n for k, n in enumerate(shape) if k != dim % len(shape)]
    if rest:
        sizes, strides = coalesce(tuple(rest), [tuple(step) for step in steps])
    if not rest or not sizes:
        sizes, strides = (1,), [(0,) for _ in arrays]
    reach = [sum((n - 1) * abs(s) for n, s in zip(x.shape, element_strides(x), strict=True)) for x in arrays]
    index = index_dtype(state, (out.size, *reach))
    launch(state, ("vector_product", dtype, len(sizes), index), partial(vectors_nest, dtype, len(sizes), index),
           Strategy.SERIAL, arrays, [*sizes, *(n for part in strides for n in part), *along])
