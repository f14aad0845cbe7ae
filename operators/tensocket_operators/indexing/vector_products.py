"""Vector products along a dimension of size 3, in one pass over both operands."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import broadcast_shapes, expand
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..kinds.view import Custom
from . import vectors_kernel


def _products(state: DeviceState, input: Any, other: Any, dim: int) -> Any:
    dtype, operands = input.dtype, [input._array, other._array]
    shape = broadcast_shapes("cross", [x.shape for x in operands])
    if not kernel_suits(state, dtype, shape):
        return rolled_products(input.detach(), other.detach(), dim)
    out = state.runtime.empty(shape, dtype, state.stream)
    vectors_kernel.product_array(state, out, [expand(x, shape) for x in operands], dim, dtype)
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
