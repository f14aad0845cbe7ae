"""The IR's scalar functions over NumPy arrays.

Use them inside a function wrapped by ``host_kernels_quiet.quiet``: they do not silence NumPy themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..contract.dtypes import DType
from ..ir.scalar import float32_to_bfloat16, fma

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


def idiv(x: Array, y: Array) -> Array:
    """Return the quotient truncated towards zero; 0 if the divisor is 0; the smallest value over -1 is itself."""
    if np.issubdtype(np.asarray(x).dtype, np.unsignedinteger):
        return np.where(y == 0, x.dtype.type(0), np.floor_divide(x, np.where(y == 0, y.dtype.type(1), y)))
    safe = np.where((y == 0) | (y == -1), y.dtype.type(1), y)
    floor = np.floor_divide(x, safe)
    inexact = (floor * safe != x) & ((x < 0) != (safe < 0))
    quotient = floor + inexact.astype(floor.dtype)
    return np.where(y == 0, x.dtype.type(0), np.where(y == -1, -x, quotient))


def imod(x: Array, y: Array) -> Array:
    """Return the remainder of ``idiv``, with the dividend's sign; 0 if the divisor is 0."""
    return np.asarray(np.where(y == 0, x.dtype.type(0), x - idiv(x, y) * y))


# Coefficients of the rational minimax approximations published by W. J. Cody (Mathematics of Computation 23, 1969),
# lowest degree first; relative error below 1e-16 in each of the three ranges.
_ERF_P: Final = (3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02, 3.16112374387056560e00,
                 1.85777706184603153e-1)
_ERF_Q: Final = (2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02, 2.36012909523441209e01, 1.0)
_ERFC_P: Final = (1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03, 8.81952221241769090e02,
                  2.98635138197400131e02, 6.61191906371416295e01, 8.88314979438837594e00, 5.64188496988670089e-1,
                  2.15311535474403846e-8)
_ERFC_Q: Final = (1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03, 3.29079923573345963e03,
                  1.62138957456669019e03, 5.37181101862009858e02, 1.17693950891312499e02, 1.57449261107098347e01, 1.0)
_TAIL_P: Final = (6.58749161529837803e-4, 1.60837851487422766e-2, 1.25781726111229246e-1, 3.60344899949804439e-1,
                  3.05326634961232344e-1, 1.63153871373020978e-2)
_TAIL_Q: Final = (2.33520497626869185e-3, 6.05183413124413191e-2, 5.27905102951428412e-1, 1.87295284992346725e00,
                  2.56852019228982242e00, 1.0)
_INV_SQRT_PI: Final = 0.56418958354775628695


def _ratio(top: tuple[float, ...], bottom: tuple[float, ...], x: Array) -> Array:
    over: Any = top[-1]
    under: Any = bottom[-1]
    for coefficient in reversed(top[:-1]):
        over = over * x + coefficient
    for coefficient in reversed(bottom[:-1]):
        under = under * x + coefficient
    result: Array = over / under
    return result


def erf(x: Array) -> Array:
    """Return the error function, computed in float64 and rounded to ``x``'s dtype; within 2e-16 relative in float64."""
    wide = np.asarray(x, np.float64)
    size = np.abs(wide)
    near = np.minimum(size, 0.5)
    small = wide * _ratio(_ERF_P, _ERF_Q, near * near)
    middle_x = np.clip(size, 0.46875, 4.0)
    middle = 1.0 - np.exp(-middle_x * middle_x) * _ratio(_ERFC_P, _ERFC_Q, middle_x)
    far_x = np.clip(size, 4.0, 27.0)
    inverse = 1.0 / (far_x * far_x)
    tail = (_INV_SQRT_PI - inverse * _ratio(_TAIL_P, _TAIL_Q, inverse)) / far_x
    far = 1.0 - np.exp(-far_x * far_x) * tail
    result = np.where(size <= 0.46875, small, np.copysign(np.where(size <= 4.0, middle, far), wide))
    return np.asarray(np.where(np.isnan(wide), wide, result), np.asarray(x).dtype)


def cast(x: Array, dtype: DType) -> Array:
    """Convert ``x`` (not bfloat16 bits) to ``dtype`` by the IR's rules; a bfloat16 result is returned as bits."""
    if dtype.name == "bfloat16":
        return np.asarray(float32_to_bfloat16(np.asarray(x, np.float32)))
    if dtype.kind == "bool":
        return np.not_equal(x, 0)
    return np.asarray(x).astype(dtype.numpy)


def bitcast(x: Array, dtype: DType) -> Array:
    """Return the same bits as ``dtype``, of equal size."""
    return np.asarray(x).view(dtype.numpy)


def expm1(x: Array) -> Array:
    """Return exp(x) - 1; for complex zeros and infinities that of exp, where NumPy has NaN."""
    result: Array = np.expm1(x)
    if np.iscomplexobj(x):
        result = np.where(np.isfinite(x.real) & (x != 0), result, np.exp(x) - 1)
    return result


class NumpyMath:
    """The IR's functions by name, as a namespace for formulas shared by IR and NumPy."""

    add, sub, mul, neg, abs = np.add, np.subtract, np.multiply, np.negative, np.abs
    min = minimum = np.minimum
    max = maximum = np.maximum
    div, fmod, pow, sqrt = np.true_divide, np.fmod, np.power, np.sqrt
    floor, ceil, trunc, rint = np.floor, np.ceil, np.trunc, np.rint
    exp, log, log1p, log2, log10 = np.exp, np.log, np.log1p, np.log2, np.log10
    sin, cos, tan, tanh = np.sin, np.cos, np.tan, np.tanh
    sinh, cosh, asinh, acosh, atanh = np.sinh, np.cosh, np.arcsinh, np.arccosh, np.arctanh
    asin, acos, atan = np.arcsin, np.arccos, np.arctan
    eq, ne, lt, le, gt, ge = np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal
    logical_and, logical_or, logical_not = np.logical_and, np.logical_or, np.logical_not
    bitwise_and, bitwise_or, bitwise_xor, bitwise_not = np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert
    shl, shr = np.left_shift, np.right_shift
    real, imag, angle = staticmethod(np.real), staticmethod(np.imag), staticmethod(np.angle)
    conj, sgn = np.conjugate, np.sign
    erf, expm1, idiv, imod = staticmethod(erf), staticmethod(expm1), staticmethod(idiv), staticmethod(imod)
    cast, bitcast, fma = staticmethod(cast), staticmethod(bitcast), staticmethod(fma)

    @staticmethod
    def where(condition: Any, yes: Any, no: Any) -> Array:
        """Return ``yes`` where ``condition`` holds, else ``no``; an array also for 0-d arguments."""
        return np.asarray(np.where(condition, yes, no))

    select = where

    @staticmethod
    def complex(real: Array, imag: Array) -> Array:
        """Return complex numbers from their parts."""
        result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.result_type(real, imag, np.complex64))
        result.real, result.imag = real, imag
        return result


NUMPY_MATH: Final = NumpyMath()


class ArrayMath(NumpyMath):
    """Namespace that evaluates formulas with NumPy, for one dtype."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = self.stored = dtype

    def repeat(self, count: Any, state: Sequence[Any], step: Callable[..., Sequence[Any]],
               going: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Return the state after ``count`` steps; see ``ExprMath.repeat``."""
        held = [np.asarray(x, None if hasattr(x, "dtype") else self.dtype.numpy) for x in state]
        for k in range(int(np.max(count, initial=0))):
            active: Any = True if isinstance(count, int) else k < count
            if going is not None:
                active = active & going(*held)
            if not np.any(active):
                break
            new = step(np.int32(k), *held)
            held = [np.asarray(np.where(active, x, old), old.dtype) for x, old in zip(new, held, strict=True)]
        return tuple(held)
