"""The meaning of each scalar function, in NumPy: the arithmetic of the reference interpreter.

Arguments are arrays (0-d ones included) of the storage dtype: bfloat16 values are their ``uint16`` bits. Call these
under ``np.errstate(all="ignore")``; integers wrap around, floats follow IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..contract.dtypes import DType, bfloat16, bool_, float32

Values = Any  # np.ndarray of any dtype; NumPy returns scalars for 0-d results, which behave the same here.


def bfloat16_to_float32(bits: Values) -> Values:
    """Return the float32 values of bfloat16 ``bits`` (uint16); exact."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def float32_to_bfloat16(values: Values) -> Values:
    """Return bfloat16 bits (uint16) nearest to float32 ``values``, halves to even; NaN stays quiet with its sign."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    high = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (high & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), high | np.uint32(0x40), rounded).astype(np.uint16)


def constant(value: bool | int | float, dtype: DType) -> Values:
    """Return a 0-d array of ``dtype``'s storage.

    Raises:
        OverflowError: An integer does not fit.
    """
    if dtype is bfloat16:
        return float32_to_bfloat16(np.float32(value))
    return np.asarray(value, dtype.numpy)


def convert(values: Values, source: DType, target: DType) -> Values:
    """Convert ``values`` from ``source`` to ``target``: to nearest even, truncated to integers, wrapping around."""
    if source is bfloat16:
        values, source = bfloat16_to_float32(values), float32
    if target is bfloat16:
        return float32_to_bfloat16(np.asarray(values).astype(np.float32))
    if target is bool_:
        return np.not_equal(values, np.zeros((), source.numpy))
    return np.asarray(values).astype(target.numpy)


def reinterpret(values: Values, target: DType) -> Values:
    """Return the same bits as another dtype of equal size."""
    return np.asarray(values).view(target.numpy)


def _idiv(a: Values, b: Values) -> Values:
    return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


def _through_float64(function: Callable[..., Values]) -> Callable[..., Values]:
    """Return ``function`` evaluated in float64 and rounded once to the arguments' dtype."""

    def run(*args: Values) -> Values:
        wide = (np.asarray(a).astype(np.float64) for a in args)
        return np.asarray(function(*wide)).astype(args[0].dtype)

    return run


def _odd_sum(x: Values, y: Values) -> Values:
    """Return the float64 sum towards zero, with its last bit set if inexact: rounding that again is correct."""
    total = x + y
    part = total - x
    rest = (x - (total - part)) + (y - part)
    inexact = (rest != 0) & np.isfinite(rest)
    bits = np.asarray(total).view(np.int64)
    # Towards zero if it was rounded up, then odd: one of the two neighbours of an inexact sum is odd.
    odd = np.where((rest > 0) == (total > 0), bits, bits - 1) | 1
    return np.where(inexact, odd, bits).view(np.float64)


def _split(x: Values) -> tuple[Values, Values]:
    """Split a float64 into two halves whose products are exact (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def fma(x: Values, y: Values, z: Values) -> Values:
    """Return the sum of a product and a number, rounded once (Boldo and Melquiond 2008).

    In float64, that holds unless a product overflows or underflows.
    """
    if np.result_type(x, y, z) != np.float64:
        wide = np.multiply(x, y, dtype=np.float64)
        return _odd_sum(wide, np.asarray(z, np.float64)).astype(np.float32)
    product = x * y
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    low = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    part = total - product
    rest = (product - (total - part)) + (z - part)
    result = total + _odd_sum(rest, low)
    return np.where(np.isfinite(result), result, product + z)


_erf: Final = np.frompyfunc(math.erf, 1, 1)

#: Functions whose result has the arguments' dtype, and comparisons.
NUMPY: Final[dict[str, Callable[..., Values]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum,
    "neg": np.negative, "abs": np.abs, "fma": fma, "idiv": _idiv, "imod": np.fmod, "fmod": np.fmod, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": np.left_shift, "shr": np.right_shift,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "select": np.where,
    "exp": _through_float64(np.exp), "expm1": _through_float64(np.expm1), "log": _through_float64(np.log),
    "log1p": _through_float64(np.log1p), "sin": _through_float64(np.sin), "cos": _through_float64(np.cos),
    "tanh": _through_float64(np.tanh), "erf": _through_float64(lambda x: _erf(x)), "pow": _through_float64(np.power),
}

#: In-place accumulation for ``Atomic``.
ATOMIC: Final[dict[str, Any]] = {"add": np.add, "min": np.minimum, "max": np.maximum}
