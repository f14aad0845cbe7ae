"""Vector products along a dimension of size 3, in one pass over both operands."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import broadcast_shapes, coalesce, element_strides, expand
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import Let, Load, Program, Stmt, Store, Var
from tensocket_plugins.ir.strategies import Strategy

from ..kinds.view import Custom


def vectors_nest(dtype: DType, rank: int, index: DType) -> Program:
    """Return the program of ``vector_product``: an iteration computes one vector.

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


def _products(state: DeviceState, input: Any, other: Any, dim: int) -> Any:
    dtype, operands = input.dtype, [input._array, other._array]
    shape = broadcast_shapes("cross", [x.shape for x in operands])
    if not kernel_suits(state, dtype, shape):
        return rolled_products(input.detach(), other.detach(), dim)
    out = state.runtime.empty(shape, dtype, state.stream)
    arrays = [out, *[expand(x, shape) for x in operands]]
    steps = [list(element_strides(x)) for x in arrays]
    along = [step.pop(dim) for step in steps]
    rest = [n for k, n in enumerate(shape) if k != dim % len(shape)]
    sizes, strides = coalesce(tuple(rest), [tuple(step) for step in steps]) if rest else ((), [()] * 3)
    if not sizes:
        sizes, strides = (1,), [(0,)] * 3
    reach = [sum((n - 1) * abs(s) for n, s in zip(x.shape, element_strides(x), strict=True)) for x in arrays]
    index = index_dtype(state, (out.size, *reach))
    launch(state, ("vector_product", dtype, len(sizes), index), partial(vectors_nest, dtype, len(sizes), index),
           Strategy.SERIAL, arrays, [*sizes, *(n for part in strides for n in part), *along])
    return wrap(out, state.key | dtype_bit(dtype))


def kernel_suits(state: DeviceState, dtype: DType, shape: tuple[int, ...]) -> bool:
    """Whether the device has a kernel: real numbers, of which each step is rounded to their own dtype."""
    return state.runtime.target is not None and state.holds_data and 0 not in shape and (
        dtype.kind in ("float", "int", "uint") and arithmetic_dtype(dtype) is dtype)


def rolled_products(input: Any, other: Any, dim: int) -> Any:
    """Return the products by operators."""
    following = [x.roll(-1, dim) for x in (input, other)]
    last = [x.roll(-2, dim) for x in (input, other)]
    return following[0] * last[1] - last[0] * following[1]


#: ``dim`` is negative: it counts from the last dimension, so that batches do not change it.
vector_product: Final[Custom] = Custom(
    "vector_product(Tensor input, Tensor other, int dim) -> Tensor",
    "Vector products of operands of one dtype along a dimension of size 3.",
    _products,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=lambda grad, other, dim: call(vector_product, other, grad, dim),
                          other=lambda grad, input, dim: call(vector_product, grad, input, dim)),
)
