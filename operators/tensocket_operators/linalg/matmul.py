"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.operator import HostPath
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, dtype_bit
from tensocket_core.launch.entries import build_product
from tensocket_plugins.contract.dtypes import DType, bfloat16, float16, float32, float64
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.kit import host_linalg

from ..kinds.composite import composite
from ..kinds.private import part_from_base
from . import small_products as small_products
from .kind import NATIVE, MatMul


def _second_gradient(grad: Any, input: Any, other_shape: Any) -> Any:
    """Return the gradient of the second operand; one matrix for all batches gets that of all rows at once."""
    if len(other_shape) == 2 and input.ndim > 2:
        count = math.prod(input.shape[:-1])  # -1 cannot stand for it where a matrix has no columns
        rows = input.reshape(count, input.shape[-1])
        return call(product, rows.mT, grad.reshape(count, grad.shape[-1]))
    return call(product, input.mT, grad)


product: Final[MatMul] = MatMul(
    "matmul(Tensor input, Tensor other) -> Tensor",
    "Batched matrix product of operands of at least two dimensions.",
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, other: call(product, grad, other.mT),
        other=lambda grad, input, other_shape: _second_gradient(grad, input, other_shape),
    ),
)


def _product_host_path(fits: Callable[[Any, Any], bool], recordable: Callable[[Any, Any],
                                                                              bool] | None = None) -> HostPath:
    """Return a shortcut to the host's library for matrices of one dtype; recorded calls go to the record.

    Args:
        fits: Whether the operator allows the ranks of two arrays and the library can multiply them.
        recordable: Whether the record can multiply them; None for never.
    """

    def make(key: int, state: DeviceState, body: Any) -> Any:
        kernel = _kernel("matmul", key, state)
        if kernel is None:
            return None
        if not key & AUTOGRAD:
            next_path = small_products.product(kernel, key, fits, body)
            for ranks in _ENTRIES[fits]:
                next_path = build_product(body.__name__, state, _MULTIPLIED[key & DTYPE_MASK], key, next_path,
                                          ranks=ranks)
            return next_path
        if recordable is None:
            return None
        recorded = product.below(key)
        return lambda a, b: recorded(a, b) if recordable(a._array, b._array) else body(a, b)

    return make


def _kernel(operator: str, key: int, state: DeviceState) -> Kernel | None:
    """Return the host's kernel for a key of one dtype."""
    dtype = _MULTIPLIED.get(key & DTYPE_MASK)
    return None if key & DIM0 or dtype is None else state.runtime.kernels.find(operator, dtype.name, direct=True)


def _batches(x: Any, y: Any) -> bool:
    return bool(x.ndim >= 2 and y.ndim >= 2)


def _any(x: Any, y: Any) -> bool:
    return bool(x.ndim and y.ndim)


def _vector(x: Any, y: Any) -> bool:
    return bool(x.ndim == 2 and y.ndim == 1)


def _vectors(x: Any, y: Any) -> bool:
    return bool(x.ndim == 1 == y.ndim)


def _matrices(x: Any, y: Any) -> bool:
    return bool(x.ndim == 2 == y.ndim)


def _same_batch(x: Any, y: Any) -> bool:
    return bool(x.ndim == 3 == y.ndim and x.shape[0] == y.shape[0])


#: The ranks of operands that entries multiply, the last ones first, by the ranks that an operator allows.
_ENTRIES: Final[dict[Callable[[Any, Any], bool], tuple[tuple[int, int], ...]]] = {
    _any: ((2, 1), (1, 1), (2, 2)), _vector: ((2, 1),), _vectors: ((1, 1),), _matrices: ((2, 2),), _same_batch: ()}
_MULTIPLIED: Final[dict[int, DType]] = {dtype_bit(dtype): dtype for dtype in (float16, bfloat16, float32, float64)}


@composite("matmul(Tensor input, Tensor other) -> Tensor", dunder=("__matmul__", "__rmatmul__"),
           host_path=_product_host_path(_any, _batches))
def matmul(input: Any, other: Any) -> Any:
    """Multiply matrices; vectors are a row on the left and a column on the right, leading dimensions are batches."""
    left, right = input.ndim, other.ndim
    if left >= 2 and right >= 2:
        return call(product, input, other)
    if left == 0 or right == 0:
        raise ShapeError(
            "matmul",
            f"shapes {list(input.shape)} and {list(other.shape)}",
            "operands have at least one dimension",
            "multiply numbers with *",
        )
    if right == 1 and left <= 2:
        return input.dot(other) if left == 1 else input.mv(other)
    return _columns_product(input, other)


def _columns_product(input: Any, other: Any) -> Any:
    """Multiply with vectors as matrices of one row or column."""
    left, right = input.ndim, other.ndim
    result = call(product, input.unsqueeze(0) if left == 1 else input, other.unsqueeze(1) if right == 1 else other)
    shape = tuple(result.shape)
    return part_from_base(
        result.reshape((*shape[:-2], *(shape[-2:-1] if left > 1 else ()), *(shape[-1:] if right > 1 else ()))))


@composite("mm(Tensor input, Tensor mat2) -> Tensor", host_path=_product_host_path(_matrices, _matrices))
def mm(input: Any, mat2: Any) -> Any:
    """Multiply two matrices."""
    _ranks("mm", input, mat2, 2)
    return call(product, input, mat2)


@composite("bmm(Tensor input, Tensor mat2) -> Tensor", host_path=_product_host_path(_same_batch, _same_batch))
def bmm(input: Any, mat2: Any) -> Any:
    """Multiply two batches of matrices."""
    _ranks("bmm", input, mat2, 3)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(
            "bmm",
            f"shapes {list(input.shape)} and {list(mat2.shape)}",
            "both have the same number of matrices",
            "use matmul to broadcast",
        )
    return call(product, input, mat2)


@composite("mv(Tensor input, Tensor vec) -> Tensor", host_path=_product_host_path(_vector), derivative=Derivative(
    input=lambda grad, vec: grad.unsqueeze(-1) * vec,
    vec=lambda grad, input: input.mT.mv(grad)).on_arrays(
        input=lambda grad, vec: grad[:, None] * vec,
        vec=lambda grad, input: input.T.dot(grad)))
def mv(input: Any, vec: Any) -> Any:
    """Multiply a matrix by a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise ShapeError(
            "mv",
            f"shapes {list(input.shape)} and {list(vec.shape)}",
            "a matrix is multiplied by a vector",
            "use matmul",
        )
    return _columns_product(input, vec)


@composite("dot(Tensor input, Tensor tensor) -> Tensor", host_path=_product_host_path(_vectors), derivative=Derivative(
    input=lambda grad, tensor: grad * tensor,
    tensor=lambda grad, input: grad * input).on_arrays(input="mul", tensor="mul"))
def dot(input: Any, tensor: Any) -> Any:
    """Return the inner product of two vectors."""
    _ranks("dot", input, tensor, 1)
    return _columns_product(input, tensor)


@composite("vdot(Tensor input, Tensor other) -> Tensor", host_path=_product_host_path(_vectors))
def vdot(input: Any, other: Any) -> Any:
    """Return the inner product of two vectors; the first one is conjugated."""
    return input.conj().dot(other)


def _affine_host_path(key: int, state: DeviceState, body: Any) -> Any:
    kernel = None if key & AUTOGRAD else _kernel("linear", key, state)
    if kernel is None:
        return None
    next_path = small_products.affine(kernel, key, body)
    return build_product("linear", state, _MULTIPLIED[key & DTYPE_MASK], key, next_path, affine=True)


def sum_host_path(key: int, state: DeviceState, body: Any) -> Any:
    """Return a shortcut to the host's library for the sum of a vector and a product of two matrices."""
    kernel = _kernel("linear", key, state) if key & (AUTOGRAD | DTYPE_MASK) in NATIVE else None
    return None if kernel is None else small_products.added(kernel, key, body)


def _weight_gradient(grad: Any, input: Any, shape: Any) -> Any:
    if len(shape) == 1:
        return grad.reshape(-1).matmul(input.reshape(grad.numel(), input.shape[-1]))
    if input.ndim == 2:
        return grad.t().mm(input)
    count = math.prod(input.shape[:-1])  # -1 cannot stand for it where a matrix has no columns
    rows = grad.reshape(count, grad.shape[-1])
    return rows.t().mm(input.reshape(count, input.shape[-1]))


def _input_gradient_of_arrays(grad: Any, weight: Any) -> Any:
    if grad.ndim == 2 == weight.ndim:
        return host_linalg.matmul(grad, weight)
    if grad.ndim < 2 or weight.ndim != 2 or not grad.size or not grad.flags.c_contiguous:
        return NotImplemented
    rows = host_linalg.matmul(grad.reshape(-1, grad.shape[-1]), weight)
    return rows.reshape(*grad.shape[:-1], weight.shape[1])


def _weight_gradient_of_arrays(grad: Any, input: Any, weight_shape: Any) -> Any:
    if grad.ndim == 2 == len(weight_shape):
        return host_linalg.matmul(grad.T, input)
    if grad.ndim < 2 or len(weight_shape) != 2 or not (grad.size and input.size) or not (
            grad.flags.c_contiguous and input.flags.c_contiguous):
        return NotImplemented
    outputs, inputs = weight_shape
    return host_linalg.matmul(grad.reshape(-1, outputs).T, input.reshape(-1, inputs))


@composite(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    method=False,
    namespace="nn.functional",
    host_path=_affine_host_path,
    derivative=Derivative(
        input=lambda grad, weight: grad.matmul(weight) if weight.ndim == 2 else grad.unsqueeze(-1) * weight,
        weight=lambda grad, input, weight_shape: _weight_gradient(grad, input, weight_shape),
        bias=lambda grad: grad,
    ).on_arrays(
        input=_input_gradient_of_arrays,
        weight=_weight_gradient_of_arrays,
        bias=lambda grad: grad,
    ),
)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return input @ weight.T + bias; weight is [out, in], or [in] for one output without a dimension."""
    if weight.ndim not in (1, 2) or input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            "linear",
            f"input {list(input.shape)} and weight {list(weight.shape)}",
            "the last size of the input must equal that of the weight",
            "check the layer's in_features",
        )
    result = input.matmul(weight.t() if weight.ndim == 2 else weight)
    if bias is None:
        return result
    total = result + bias
    if total.shape != result.shape:
        raise ShapeError("linear", f"a bias of shape {list(bias.shape)} for outputs of shape {list(result.shape)}",
                         "the bias has one element for each output, or broadcasts to them",
                         "check the layer's out_features")
    return total


def _ranks(operator: str, first: Any, second: Any, rank: int) -> None:
    if first.ndim != rank or second.ndim != rank:
        raise ShapeError(
            operator,
            f"shapes {list(first.shape)} and {list(second.shape)}",
            f"both operands have {rank} dimensions",
            "use matmul, which takes any number of dimensions",
        )
