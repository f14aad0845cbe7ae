"""Powers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.keys import DTYPE_MASK, SCALAR, SCALAR_MASK, dtype_bit
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.contract.errors import DtypeError
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..kinds.pointwise_constant import PointwiseWithConstants

#: Number of exponent bits for which multiplications are unrolled; higher bits, which are rare, cost a loop.
_BITS: Final = {1: 8, 2: 16, 4: 6, 8: 6}


def _natural_power(m: Any, x: Any, n: Any) -> Any:
    """Square and multiply for every bit of the exponent: powers of odd numbers wrap around without end."""
    size = m.dtype.itemsize
    bits = _BITS[size]
    result = m.where(m.eq(n & 1, 1), x, 1)
    for bit in range(1, bits):
        x = x * x
        result = result * m.where(m.ne((n >> bit) & 1, 0), x, 1)
    if bits == 8 * size:
        return result
    more = n >> bits
    return m.repeat(m.cast(m.ne(more, 0), dtypes.int32) * (8 * size - bits), (x * x, more, result),
                    lambda k, x, n, power: (x * x, n >> 1, power * m.where(m.eq(n & 1, 1), x, 1)))[2]


def _integer_power(m: Any, x: Any, n: Any) -> Any:
    """Return integer powers; negative ones are integers only of 1 and -1, the others become 0, rounded towards zero."""
    if not m.dtype.is_signed:
        return _natural_power(m, x, n)
    unit = m.where(m.eq(x, -1), m.where(m.eq(n & 1, 1), x, 1), 0)
    return m.where(n < 0, m.where(m.eq(x, 1), x, unit), _natural_power(m, x, n))


def _no_negative_power(compute: DType, operands: Any) -> None:
    exponent = operands[1]
    if compute.category < 2 and not hasattr(exponent, "_key") and exponent < 0:
        raise DtypeError("pow", f"{compute.name} to the power of {exponent!r}", "integers have no negative powers",
                         "convert to a floating-point dtype")


def _narrow(compute: DType) -> DType | None:
    """Return the dtype that must hold an exponent, for integers and narrow floats; None for others."""
    return compute if compute.category < 2 or arithmetic_dtype(compute) is not compute else None


def _root(m: Any, x: Any) -> Any:
    """Return the root of C's pow, which maps -0 to 0 and -inf to inf."""
    return m.where(m.eq(x, 0) | m.eq(x, -math.inf), m.abs(x), m.sqrt(x))


#: Formulas without logarithms, by exponent.
_POWERS: Final[dict[float, Callable[..., Any]]] = {
    2: lambda m, x: x * x,
    3: lambda m, x: x * x * x,
    4: lambda m, x: (x * x) * (x * x),
    -1: lambda m, x: 1 / x,
    -2: lambda m, x: (1 / x) * (1 / x),
    0.5: _root,
    -0.5: lambda m, x: 1 / _root(m, x),
}


class _Power(PointwiseWithConstants):
    """Record of powers; bools are defined for the exponents True and False."""

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        """Return the closure for a key without layers, on one device."""
        if key & DTYPE_MASK == dtype_bit(bool_) and key & SCALAR_MASK == SCALAR[bool]:
            return lambda input, exponent: input.clone() if exponent else input.logical_or(input.logical_not())
        return super().build(key, state)


pow: Final = _Power(
    "pow(Tensor input, Operand exponent) -> Tensor", "Power: input ** exponent, with the special cases of C's pow.",
    lambda m, x, y: m.pow(x, y) if m.dtype.category >= 2 else _integer_power(m, x, y), kinds="ifc",
    guard=_no_negative_power, numbers=_POWERS, holds=_narrow,
    derivative=Derivative(
        input=lambda grad, input, exponent: _pow_base(grad, input, exponent),
        exponent=lambda grad, input, exponent, result: _pow_exponent(grad, input, exponent, result)),
    dunder=("__pow__", "__rpow__"), inplace=True)


def _pow_base(grad: Any, base: Any, exponent: Any) -> Any:
    if not hasattr(exponent, "_key"):
        if exponent == 0:
            return grad * 0
        return grad * exponent * (base if exponent == 2 else base ** (exponent - 1))
    return (grad * exponent * base ** (exponent - 1)).masked_fill(exponent == 0, 0)


def _pow_exponent(grad: Any, base: Any, exponent: Any, result: Any) -> Any:
    if not hasattr(base, "_key"):
        if base == 0:
            return grad * (result * -math.inf).masked_fill(_constant_at_zero(exponent), 0)
        if type(base) is complex or grad.is_complex():
            return grad * result * cmath.log(base)
        return grad * result * math.log(base) if base > 0 else grad * math.nan
    logarithm = (base.to(result.dtype) if result.is_complex() else base).log()  # complex logarithms of negative numbers
    return grad * (result * logarithm).masked_fill((base == 0) & _constant_at_zero(exponent), 0)


def _constant_at_zero(exponent: Any) -> Any:
    """Whether a power of zero stays the same when the exponent changes."""
    return (exponent.real >= 0) & (exponent.imag == 0) if exponent.is_complex() else exponent >= 0
