"""Splitting numbers into mantissas and exponents, and joining them."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.results import named_result
from tensocket_core.promotion import number_dtype
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import UndefinedDtype

from ..kinds.composite import composite
from ..kinds.pointwise import Pointwise
from ..unrolled.recomputed import Recomputed

FrexpResult: Final = named_result("frexp", ("mantissa", "exponent"))
#: Larger than any exponent that leaves a number finite and nonzero.
_FAR: Final = 3000


def _exponent(m: Any, x: Any) -> Any:
    """Return from the bits the n with |x| = f * 2**n and f from 1/2 to 1; 0 for zeros, infinities and NaN."""
    double = m.dtype is dtypes.float64
    whole, digits, bias, mask = (dtypes.int64, 52, 1022, 0x7FF) if double else (dtypes.int32, 23, 126, 0xFF)
    tiny = m.abs(x) < 2.0 ** (2 - bias)
    scaled = m.where(tiny, x * 2.0**digits * 4.0, x)
    raw = m.cast((m.bitcast(scaled, whole) >> digits) & mask, m.dtype)
    found = raw - m.where(tiny, bias + digits + 2.0, m.cast(tiny, m.dtype) * 0.0 + float(bias))
    return m.where(m.eq(x, 0.0) | ~(m.abs(x) < math.inf), 0.0, found)


def _power(m: Any, n: Any) -> Any:
    """Return 2**n for integral n whose power is a normal number."""
    whole, digits, bias = (dtypes.int64, 52, 1023) if m.dtype is dtypes.float64 else (dtypes.int32, 23, 127)
    return m.bitcast((m.cast(n, whole) + bias) << digits, m.dtype)


def _mantissa(m: Any, x: Any) -> Any:
    """Return ``x * 2**-n``, in two steps because the power may not be a normal number."""
    n = -_exponent(m, x)
    half = m.trunc(n * 0.5)
    scaled = x * _power(m, half) * _power(m, n - half)
    return m.where(m.eq(x, 0.0) | ~(m.abs(x) < math.inf), x, scaled)


exponent: Final = Pointwise(
    "exponent(Tensor input) -> Tensor", "Exponents of frexp.", _exponent, kinds="f", method=False, function=False)
mantissa: Final = Pointwise(
    "mantissa(Tensor input) -> Tensor", "Mantissas of frexp.", _mantissa, kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * (-call(exponent, input)).exp2()),
    method=False, function=False)


@composite("frexp(Tensor input) -> any")
def frexp(input: Any) -> Any:
    """Return ``mantissa`` and int32 ``exponent`` with input = mantissa * 2**exponent, 1/2 <= |mantissa| < 1.

    Raises:
        UndefinedDtype: The input does not have a floating-point dtype.
    """
    if not input.dtype.is_floating_point:
        raise UndefinedDtype("frexp", f"dtype {input.dtype.name}", "frexp is defined for floating-point dtypes",
                             "convert with .to(dtype) first")
    return FrexpResult(call(mantissa, input), call(exponent, input.detach()).to(dtypes.int32))


def _scaled(m: Any, x: Any, n: Any) -> Any:
    """Return ``x * 2**n`` for integral n, rounded once.

    The powers are normal numbers, and the largest one comes last: if the other product is subnormal, the last one
    gives 0.
    """
    double = m.dtype is dtypes.float64
    whole, digits, bias = (dtypes.int64, 52, 1023) if double else (dtypes.int32, 23, 127)
    most = float(bias - 1)

    def power(exponent: Any) -> Any:
        return m.bitcast((m.cast(exponent, whole) + bias) << digits, m.dtype)

    n = m.where(n > 3 * most, 3 * most, m.where(n < -3 * most, -3 * most, n))
    steps = m.trunc(n / most)
    x = x * power(n - steps * most)
    for done in (0.5, 1.5, 2.5):
        x = x * power(m.where(steps > done, most, m.where(steps < -done, -most, 0.0)))
    return x


scaled: Final[Pointwise] = Pointwise(
    "scaled(Tensor input, Tensor other) -> Tensor", "Products of ldexp with whole exponents.", _scaled, kinds="f",
    method=False, function=False,
    derivative=Derivative(input=lambda grad, other: call(scaled, grad, other),
                          other=lambda grad, other: grad.new_zeros(other.shape)))


@composite("ldexp(Tensor input, Tensor other) -> Tensor", recomputed=Recomputed(saved=("input", "other")))
def ldexp(input: Any, other: Any) -> Any:
    """Return ``input * 2 ** other``, rounded once if exponents are integral; floats keep their dtype."""
    if other.dtype.category > 1 or input.dtype.category > 2:
        return input * 2.0**other
    dtype = input.dtype if input.dtype.category == 2 else number_dtype(2)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    count = other.to(dtypes.int64).clamp(-_FAR, _FAR).to(wide)
    return call(scaled, input.to(wide), count).to(dtype)


@composite("ldexp_(Tensor! input, Tensor other) -> Tensor", function=False)
def ldexp_(input: Any, other: Any) -> Any:
    """Apply ``ldexp`` in place."""
    if other.dtype.category > 1 or input.dtype.category != 2:
        return input.mul_(2.0**other)
    return input.copy_(ldexp(input, other))
