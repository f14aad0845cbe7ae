"""NumPy kernels that host-resident backends share: pointwise ufuncs for small arrays, matmul, small reductions.

All are direct kernels. NumPy may emit warnings in them, which the runtime silences. Pointwise: ``kernel(*ins)`` of one
compute dtype. Reductions: ``kernel(x, dims, keepdim)`` with sorted non-negative ``dims`` (every axis for a full
reduction). A ufunc returns a NumPy scalar for 0-d operands; the runtime wraps its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..contract.kernels import KernelTable
from ..ir.scalar import bfloat16_to_float32, float32_to_bfloat16
from .host_kernels_math import imod
from .host_kernels_rows import register_rows

Array = NDArray[Any]

SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = SIGNED + UNSIGNED
FLOATS: Final = ("float16", "float32", "float64")
NUMBERS: Final = INTEGERS + FLOATS
COMPLEX: Final = ("complex64", "complex128")
EVERY: Final = ("bool", *NUMBERS)


def undispatched(function: Any) -> Any:
    """Return a NumPy function without its search for overriding arguments, which costs 0.2 microseconds per call."""
    return getattr(function, "_implementation", function)


def _gcd(x: Array, y: Array) -> Array:
    """Return NumPy's gcd, except for the smallest number of a dtype, whose magnitude wraps to itself as in C."""
    found = np.asarray(np.gcd(x, y))
    if found.dtype.kind == "u" or not (smallest := (x == np.iinfo(found.dtype).min) | (
            y == np.iinfo(found.dtype).min)).any():
        return found
    a, b = (np.abs(np.broadcast_to(v, found.shape)[smallest]) for v in (x, y))
    while (going := b != 0).any():
        a, b = np.where(going, b, a), np.where(going, imod(a, b), b)
    found[smallest] = a
    return found


def _lcm(x: Array, y: Array) -> Array:
    """Return the lcm with C's wrapping; NumPy takes magnitudes of operands first, so too large results differ."""
    divisor = _gcd(x, y)
    part = x // np.where(divisor == 0, np.ones_like(divisor), divisor)
    if part.dtype.itemsize < 4:
        return np.abs(part.astype(np.int32) * y.astype(np.int32)).astype(part.dtype)
    return np.asarray(np.abs(part * y))


def _maximum_float16(x: Array, y: Array) -> Array:
    """Return the greater number; of equal ones, such as zeros of two signs, the second, as for wider floats.

    NumPy returns the first for float16.
    """
    return np.asarray(np.maximum(y, x))


def _minimum_float16(x: Array, y: Array) -> Array:
    return np.asarray(np.minimum(y, x))


#: Operators whose ufunc gives PyTorch's result for these dtypes and raises no floating-point flag.
_SILENT: Final[tuple[tuple[str, Any, tuple[str, ...]], ...]] = (
    ("add", np.add, ("bool", *INTEGERS)), ("sub", np.subtract, INTEGERS), ("mul", np.multiply, ("bool", *INTEGERS)),
    ("neg", np.negative, NUMBERS), ("abs", np.abs, NUMBERS), ("square", np.square, INTEGERS),
    ("maximum", np.maximum, EVERY), ("minimum", np.minimum, EVERY),
    ("floor", np.floor, FLOATS), ("ceil", np.ceil, FLOATS), ("trunc", np.trunc, FLOATS),
    ("eq", np.equal, EVERY), ("ne", np.not_equal, EVERY), ("lt", np.less, EVERY), ("le", np.less_equal, EVERY),
    ("gt", np.greater, EVERY), ("ge", np.greater_equal, EVERY),
    ("logical_and", np.logical_and, EVERY), ("logical_or", np.logical_or, EVERY),
    ("logical_xor", np.logical_xor, EVERY), ("logical_not", np.logical_not, EVERY),
    ("bitwise_and", np.bitwise_and, ("bool", *INTEGERS)), ("bitwise_or", np.bitwise_or, ("bool", *INTEGERS)),
    ("bitwise_xor", np.bitwise_xor, ("bool", *INTEGERS)), ("bitwise_not", np.invert, ("bool", *INTEGERS)),
    # Not for floats: NumPy's sign of NaN is NaN, but PyTorch's is 0.
    ("sign", np.sign, INTEGERS), ("gcd", _gcd, INTEGERS), ("lcm", _lcm, INTEGERS),
    ("where", undispatched(np.where), EVERY),
)

#: Operators on floats that may make NumPy warn, and the factor by which their limit is below that of an addition,
#: because a generated kernel gains more on them.
_LOUD: Final[tuple[tuple[str, Any, int], ...]] = (
    ("add", np.add, 1), ("sub", np.subtract, 1), ("mul", np.multiply, 1), ("div", np.true_divide, 1),
    ("square", np.square, 1), ("reciprocal", np.reciprocal, 1), ("sqrt", np.sqrt, 1), ("pow", np.power, 8),
    ("exp", np.exp, 1), ("log", np.log, 1), ("sin", np.sin, 2), ("cos", np.cos, 2), ("tanh", np.tanh, 2),
    ("log1p", np.log1p, 8), ("expm1", np.expm1, 8), ("exp2", np.exp2, 2), ("log2", np.log2, 2),
    ("log10", np.log10, 4),
    ("tan", np.tan, 4), ("asin", np.arcsin, 4), ("acos", np.arccos, 4), ("atan", np.arctan, 4),
    ("atan2", np.arctan2, 8),
    ("sinh", np.sinh, 4), ("cosh", np.cosh, 4), ("asinh", np.arcsinh, 8), ("acosh", np.arccosh, 8),
    ("atanh", np.arctanh, 8), ("hypot", np.hypot, 8), ("logaddexp", np.logaddexp, 8),
    ("logaddexp2", np.logaddexp2, 8), ("copysign", np.copysign, 1), ("signbit", np.signbit, 1),
)


#: The same for complex numbers.
_COMPLEX: Final[tuple[tuple[str, Any, int], ...]] = (
    ("add", np.add, 1), ("sub", np.subtract, 1), ("mul", np.multiply, 1), ("div", np.true_divide, 2),
    ("neg", np.negative, 1), ("abs", np.abs, 1), ("eq", np.equal, 1), ("ne", np.not_equal, 1),
    ("where", undispatched(np.where), 1),
    ("square", np.square, 1), ("reciprocal", np.reciprocal, 2), ("sqrt", np.sqrt, 4), ("pow", np.power, 8),
    ("exp", np.exp, 4), ("log", np.log, 4), ("sin", np.sin, 4), ("cos", np.cos, 4), ("tanh", np.tanh, 4),
    ("conj_physical", np.conjugate, 1), ("sgn", np.sign, 2), ("logical_not", np.logical_not, 1),
    ("logical_and", np.logical_and, 1), ("logical_or", np.logical_or, 1), ("logical_xor", np.logical_xor, 1),
    ("tan", np.tan, 4), ("sinh", np.sinh, 4), ("cosh", np.cosh, 4), ("asin", np.arcsin, 4), ("acos", np.arccos, 4),
    ("atan", np.arctan, 4), ("asinh", np.arcsinh, 4), ("acosh", np.arccosh, 4), ("atanh", np.arctanh, 4),
)


def register_host_kernels(table: KernelTable, *, limit: int = 16384) -> None:
    """Register every host kernel.

    Args:
        table: The device's table.
        limit: Elements from which the device's own code is faster than one NumPy pass of an addition (about 10
            microseconds); costlier functions have a fraction of it.
    """
    for operator, function, dtypes in _SILENT:
        _register(table, operator, function, dtypes, limit)
    for operator, function, share in _LOUD:
        _register(table, operator, function, FLOATS, limit // share)
    for operator, function, share in _COMPLEX:
        _register(table, operator, function, COMPLEX, limit // share)
    for dtype in FLOATS:
        _register(table, "relu", _relu(np.zeros((), dtype)), (dtype,), limit)
        _register(table, "relu_backward", _relu_backward(np.zeros((), dtype)), (dtype,), limit)
    for operator, own in (("maximum", _maximum_float16), ("minimum", _minimum_float16)):
        _register(table, operator, own, ("float16",), limit)
    register_matmul(table)
    register_reductions(table, limit=limit)
    # NumPy's float32 loop misses some powers of ten by a rounding.
    _register(table, "log10", _log10_float32, ("float32",), limit // 8)
    # A generated kernel makes one pass, NumPy five.
    register_rows(table, limit=max(1, limit // 8))


def _register(table: KernelTable, operator: str, run: Any, dtypes: tuple[str, ...], limit: int) -> None:
    for dtype in dtypes:
        # NumPy converts each float16 separately.
        share = 8 if dtype == "float16" else 1
        table.register(operator, run, dtypes=(dtype,), direct=True, limit=max(1, limit // share))


def _log10_float32(x: Array) -> Array:
    return np.asarray(np.log10(x, dtype=np.float64), np.float32)


def _relu(zero: Array) -> Callable[[Array], Array]:
    """Return a function for the larger of a number and zero; its zero has no sign.

    Of two equal numbers NumPy returns the unsigned zero in these argument orders.
    """
    if zero.dtype == np.float16:
        return partial(np.maximum, zero)
    return lambda x: np.asarray(np.maximum(x, zero))


def _relu_backward(zero: Array) -> Callable[[Array, Array], Array]:
    choose, at_most = undispatched(np.where), np.less_equal

    def run(upstream: Array, output: Array) -> Array:
        result: Array = choose(at_most(output, zero), zero, upstream)
        return result

    return run


# ----------------------------------------------------------------------------------------------------- matmul


def _matmul(x: Array, y: Array) -> Array:
    if x.ndim > 2 == y.ndim:
        # Batches times one matrix are rows of one product: NumPy would call the library once per batch.
        shape = (*x.shape[:-1], y.shape[-1])
        return np.asarray(np.matmul(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), y)).reshape(shape)
    return np.asarray(np.matmul(x, y))


def _matmul_float16(x: Array, y: Array) -> Array:
    return _matmul(x.astype(np.float32), y.astype(np.float32)).astype(np.float16)


def _matmul_bfloat16(x: Array, y: Array) -> Array:
    return np.asarray(float32_to_bfloat16(_matmul(bfloat16_to_float32(x), bfloat16_to_float32(y))))


def _linear(x: Array, weight: Array, bias: Array | None) -> Array:
    result = np.matmul(x, weight.T)
    if bias is None:
        return np.asarray(result)
    if bias.shape != weight.shape[:1]:
        raise ValueError("the bias does not fit")
    return np.asarray(np.add(result, bias, result))


def register_matmul(table: KernelTable) -> None:
    """Register ``matmul(x, y)`` with NumPy's shapes, which are PyTorch's, of any size; 16-bit floats pass float32.

    ``linear(x, weight, bias)`` multiplies an input of at least two dimensions by the transposed weight, and adds a bias
    or None.
    """
    table.register("linear", _linear, dtypes=("float32", "float64"), direct=True)
    table.register("matmul", _matmul, dtypes=(*INTEGERS, "float32", "float64", *COMPLEX), direct=True)
    table.register("matmul", _matmul_float16, dtypes=("float16",), direct=True)
    table.register("matmul", _matmul_bfloat16, dtypes=("bfloat16",), direct=True)


# ------------------------------------------------------------------------------------------------- reductions

Dims = tuple[int, ...]
Reduction = Callable[[Array, Dims, bool], Array]
_WIDER: Final[dict[str, np.dtype[Any]]] = {
    "e": np.dtype(np.float32), "f": np.dtype(np.float64), "F": np.dtype(np.complex128)}


#: Elements up to which Python's own sum, in double precision, is faster than NumPy's reduction.
_FEW: Final = 16
#: Elements up to which a product with ones in double precision is faster.
_SMALL: Final = 4096
_WEIGHTS: Final[dict[tuple[int, float], Array]] = {}


def _fold(function: Any) -> Reduction:
    """Return a sum or product that accumulates in the next wider float type."""
    reduce: Any = function.reduce

    def run(x: Array, dims: Dims, keepdim: bool) -> Array:
        dtype = x.dtype
        return np.asarray(reduce(x, dims, _WIDER.get(dtype.char, dtype), None, keepdim), dtype)

    return run


_add_reduce: Any = np.add.reduce


def _sum_all(x: Array) -> Array:
    """Return the sum of a small array, in Python's double precision."""
    if x.size > _FEW:
        return np.asarray(_add_reduce(x, None, np.float64), x.dtype)
    return np.array(sum(x.tolist() if x.ndim == 1 else x.ravel().tolist()), x.dtype)


def _weighted(x: Array, dims: Dims, weight: float) -> Array:
    """Return a small matrix times equal weights: the sum or mean of rows or columns, in double precision."""
    count = x.shape[dims[0]]
    try:
        weights = _WEIGHTS[count, weight]
    except KeyError:
        weights = _WEIGHTS[count, weight] = np.full(count, weight)
    result: Array = x.dot(weights) if dims[0] else weights.dot(x)
    return result.astype(x.dtype)


def _sum_float(x: Array, dims: Dims, keepdim: bool) -> Array:
    if len(dims) == 1 and x.ndim == 2 and not keepdim and x.size <= _SMALL:
        return _weighted(x, dims, 1.0)
    return np.asarray(_add_reduce(x, dims, np.float64, None, keepdim), x.dtype)


def _mean(x: Array, dims: Dims, keepdim: bool) -> Array:
    dtype, shape = x.dtype, x.shape
    if len(dims) == 1:
        count = shape[dims[0]]
        if x.ndim == 2 and not keepdim and 0 < x.size <= _SMALL and dtype.char != "e":
            return _weighted(x, dims, 1.0 / count)
    else:
        count = math.prod([shape[axis] for axis in dims])
    wide: np.dtype[Any] = _WIDER.get(dtype.char, dtype)
    return np.asarray(np.true_divide(_add_reduce(x, dims, wide, None, keepdim), wide.type(count)), dtype)


def _extreme(function: Any) -> Reduction:
    def run(x: Array, dims: Dims, keepdim: bool) -> Array:
        return np.asarray(function.reduce(x, dims, None, None, keepdim))

    return run


def _truth(function: Any) -> Reduction:
    def run(x: Array, dims: Dims, keepdim: bool) -> Array:
        return np.asarray(function.reduce(x, dims, np.bool_, None, keepdim))

    return run


def _position(function: Any) -> Reduction:
    """Return a kernel for the position along one axis, or in row-major order over all axes; the first NaN wins."""

    def run(x: Array, dims: Dims, keepdim: bool) -> Array:
        if len(dims) == x.ndim != 1:
            found = np.asarray(function(x), np.int64)
            return found.reshape((1,) * x.ndim) if keepdim else found
        return np.asarray(function(x, axis=dims[0], keepdims=keepdim), np.int64)

    return run


def register_reductions(table: KernelTable, *, limit: int | None) -> None:
    """Register ``kernel(x, dims, keepdim)`` for arrays of fewer than ``limit`` elements.

    ``sum_all(x)`` is the sum over all dimensions. Sums, products and means keep the input's dtype and accumulate in a
    wider one; ``any`` and ``all`` return bool, ``argmax`` and ``argmin`` int64. ``amax`` and ``amin`` return NaN if an
    element is NaN. The caller must not pass zero elements to extremes and positions.
    """
    rows: tuple[tuple[str, Reduction, tuple[str, ...]], ...] = (
        ("sum", _fold(np.add), (*NUMBERS, *COMPLEX)), ("sum", _sum_float, ("float32", "float64")),
        ("prod", _fold(np.multiply), (*NUMBERS, *COMPLEX)), ("mean", _mean, (*FLOATS, *COMPLEX)),
        ("amax", _extreme(np.maximum), EVERY), ("amin", _extreme(np.minimum), EVERY),
        ("any", _truth(np.logical_or), EVERY), ("all", _truth(np.logical_and), EVERY),
        ("argmax", _position(np.argmax), EVERY), ("argmin", _position(np.argmin), EVERY),
    )
    for operator, run, dtypes in rows:
        table.register(operator, run, dtypes=dtypes, direct=True, limit=limit)
    table.register("sum_all", _sum_all, dtypes=("float32", "float64"), direct=True, limit=limit)
