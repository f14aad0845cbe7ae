"""Arithmetic: sums, products, quotients, remainders, powers, limits and choices, one record each.

See ``ir.build.math`` for the functions that a formula may use.
"""

from __future__ import annotations

import builtins
from functools import cache
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.launch.numbers import as_number, check_range, plain_number
from tensocket_core.promotion import result_type
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.contract.errors import ArgumentError, DtypeError
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..differentiation.delayed import not_differentiable
from ..interop.asarray import as_tensor
from ..kinds.inplace import check_parts
from ..kinds.pointwise import Pointwise


def is_float(m: Any) -> bool:
    """Whether a formula runs on floating-point numbers."""
    return bool(m.dtype.kind == "float")


add: Final = Pointwise(
    "add(Tensor input, Operand other) -> Tensor",
    "Sum: input + alpha * other.",
    lambda m, x, y: x | y if m.dtype is bool_ else x + y,
    derivative=Derivative(input=lambda grad: grad, other=lambda grad: grad).on_arrays(
        input=lambda grad: grad, other=lambda grad: grad),
    dunder=("__add__", "__radd__"),
    kinds="bifc",
    inplace=True,
    keywords={"alpha": ("1", "return _arithmetic.with_alpha(input, other, alpha)")},
)
sub: Final = Pointwise(
    "sub(Tensor input, Operand other) -> Tensor",
    "Difference: input - alpha * other.",
    lambda m, x, y: x - y,
    kinds="ifc",
    bools=False,
    derivative=Derivative(input=lambda grad: grad, other=lambda grad: -grad).on_arrays(
        input=lambda grad: grad, other="neg"),
    aliases=("subtract",),
    dunder=("__sub__", "__rsub__"),
    inplace=True,
    keywords={"alpha": ("1", "return _arithmetic.with_alpha(input, other, alpha, -1)")},
)
mul: Final = Pointwise(
    "mul(Tensor input, Operand other) -> Tensor", "Product: input * other.",
    lambda m, x, y: x & y if m.dtype is bool_ else x * y,
    derivative=Derivative(input=lambda grad, other: grad * other, other=lambda grad, input: grad * input).on_arrays(
        input="mul", other="mul"),
    aliases=("multiply",), dunder=("__mul__", "__rmul__"), inplace=True, kinds="bifc")
div: Final = Pointwise(
    "div(Tensor input, Operand other) -> Tensor",
    "Quotient: input / other, in floating point; rounding_mode 'trunc' or 'floor' rounds it.",
    lambda m, x, y: x / y,
    compute="float",
    kinds="fc",
    derivative=Derivative(
        input=lambda grad, other: grad / other, other=lambda grad, input, other: -grad * (input / other / other)
    ),
    aliases=("divide", "true_divide"),
    dunder=("__truediv__", "__rtruediv__"),
    inplace=True,
    keywords={"rounding_mode": ("None", "return _arithmetic.div_rounded(input, other, rounding_mode)")},
)
neg: Final = Pointwise(
    "neg(Tensor input) -> Tensor",
    "Negative: -input.",
    lambda m, x: -x,
    kinds="ifc",
    derivative=Derivative(input=lambda grad: -grad).on_arrays(input="neg"),
    aliases=("negative",),
    dunder=("__neg__",),
    inplace=True,
)
abs: Final = Pointwise("abs(Tensor input) -> Tensor", "Absolute value: |input|.",
                       lambda m, x: m.abs(x) if m.dtype.is_signed else x, kinds="ifc8", result="real",
                       derivative=wirtinger(Derivative(input=lambda grad, input: grad * input.sgn())),
                       aliases=("absolute",), dunder=("__abs__",), inplace=True)


def _opposite(m: Any, remainder: Any, divisor: Any) -> Any:
    """Whether a truncating remainder must change to the divisor's sign."""
    return m.ne(remainder, 0) & ((remainder < 0) ^ (divisor < 0))


def _nonzero(m: Any, y: Any) -> Any:
    """Return a divisor that cannot trap: integer division by zero is defined as division by one."""
    return m.where(m.eq(y, 0), 1, y)


def _float_floor_divide(m: Any, x: Any, y: Any) -> Any:
    """Divide through the exact remainder: x / y rounds up to an integer for an x just below a multiple of y."""
    rest = m.fmod(x, y)
    quotient = (x - rest) / y
    quotient = m.where(_opposite(m, rest, y), quotient - 1.0, quotient)
    floor = m.floor(quotient)
    floor = m.where(quotient - floor > 0.5, floor + 1.0, floor)
    floor = m.where(m.eq(floor, 0.0), x / y * 0.0, floor)  # a zero has the sign of the quotient
    return m.where(m.eq(y, 0.0), x / y, floor)


def _no_zero_divisor(operator: str) -> Any:
    """Return a guard against zero divisors of integers: Python's 0, and tensors with a 0 on a host-resident device.

    Other devices are not checked, which would wait for them: there, zero divisors count as 1.
    """

    def guard(compute: DType, operands: Any) -> None:
        if compute.category >= 2:
            return
        divisor = operands[1]
        if hasattr(divisor, "_key") and divisor.dtype is not compute:
            divisor = divisor.detach().to(compute)
        if not hasattr(divisor, "_key"):
            zero = as_number(divisor, compute) == 0
        else:
            zero = divisor._device_state.runtime.profile.host_resident and not divisor._array.all()
        if zero:
            raise DtypeError(operator, f"{compute.name} by {0 if hasattr(divisor, '_key') else divisor!r}",
                             "integers have no quotient by zero", "convert to a floating-point dtype")

    return guard


def _floor_divide(m: Any, x: Any, y: Any) -> Any:
    if is_float(m):
        return _float_floor_divide(m, x, y)
    y = _nonzero(m, y)
    quotient = m.idiv(x, y)
    if not m.dtype.is_signed:
        return quotient
    return quotient - m.where(_opposite(m, m.imod(x, y), y), 1, 0)


def _remainder(m: Any, x: Any, y: Any) -> Any:
    if not is_float(m):
        y = _nonzero(m, y)
    rest = m.fmod(x, y) if is_float(m) else m.imod(x, y)
    return m.where(_opposite(m, rest, y), rest + y, rest) if m.dtype.is_signed else rest


_REFUSED: Final = not_differentiable("floor_divide")
floor_divide: Final = Pointwise(
    "floor_divide(Tensor input, Operand other) -> Tensor",
    "Quotient rounded down: floor(input / other).",
    _floor_divide,
    kinds="if",
    derivative=Derivative(input=_REFUSED, other=_REFUSED),
    guard_values=True, guard=_no_zero_divisor("floor_divide"),
    dunder=("__floordiv__", "__rfloordiv__"),
    inplace=True,
)
floored_divide: Final = Pointwise(  # div(rounding_mode="floor"): unlike floor_divide, it has a derivative
    "floored_divide(Tensor input, Operand other) -> Tensor", "Quotient rounded down.", _floor_divide, kinds="if",
    derivative=Derivative(input=lambda grad: grad * 0, other=lambda grad: grad * 0),
    guard_values=True, guard=_no_zero_divisor("div"), method=False, function=False)
remainder: Final = Pointwise(
    "remainder(Tensor input, Operand other) -> Tensor",
    "Remainder with the divisor's sign: input - floor(input / other) * other.", _remainder, kinds="if",
    derivative=Derivative(input=lambda grad: grad,
                          other=lambda grad, input, other: -grad * call(floored_divide, input, other)),
    guard_values=True, guard=_no_zero_divisor("remainder"), dunder=("__mod__", "__rmod__"), inplace=True)
fmod: Final = Pointwise(
    "fmod(Tensor input, Operand other) -> Tensor",
    "Remainder with the dividend's sign: input - trunc(input / other) * other.",
    lambda m, x, y: m.fmod(x, y) if is_float(m) else m.imod(x, _nonzero(m, y)),
    kinds="if",
    guard_values=True, guard=_no_zero_divisor("fmod"),
    inplace=True,
    derivative=Derivative(input=lambda grad: grad, other=lambda grad, input, other: -grad * (input / other).trunc()),
)
truncated_divide: Final = Pointwise(
    "truncated_divide(Tensor input, Operand other) -> Tensor", "Quotient rounded towards zero: trunc(input / other).",
    lambda m, x, y: m.trunc(x / y) if is_float(m) else m.idiv(x, _nonzero(m, y)), kinds="if",
    derivative=Derivative(input=lambda grad: grad * 0, other=lambda grad: grad * 0),
    guard_values=True, guard=_no_zero_divisor("div"), method=False, function=False)


maximum: Final = Pointwise(
    "maximum(Tensor input, Tensor other) -> Tensor", "The larger of two; NaN if either is NaN.",
    lambda m, x, y: m.maximum(x, y),
    derivative=Derivative(input=lambda grad, input, other: grad * _share(input < other, input == other),
                          other=lambda grad, input, other: grad * _share(input > other, input == other)))
minimum: Final = Pointwise(
    "minimum(Tensor input, Tensor other) -> Tensor", "The smaller of two; NaN if either is NaN.",
    lambda m, x, y: m.minimum(x, y),
    derivative=Derivative(input=lambda grad, input, other: grad * _share(input > other, input == other),
                          other=lambda grad, input, other: grad * _share(input < other, input == other)))


def _share(loses: Any, ties: Any) -> Any:
    """Return an operand's share of a gradient: 0 if it loses, 1/2 in a tie, else 1; with a NaN, no operand loses."""
    return (1 - ties * 0.5) * loses.logical_not()


def _operand_dtype(dtype: DType) -> DType:
    """Return the operands' dtype, which must also hold numbers."""
    return dtype


clamp_min: Final = Pointwise(
    "clamp_min(Tensor input, Operand min) -> Tensor",
    "Limited from below: max(input, min).",
    lambda m, x, low: m.maximum(x, low),
    kinds="bif",
    holds=_operand_dtype,
    inplace=True,
    derivative=Derivative(
        input=lambda grad, input, min: grad.masked_fill((input >= min).logical_not(), 0),
        min=lambda grad, input, min: grad.masked_fill((input < min).logical_not(), 0),
    ),
)
clamp_max: Final = Pointwise(
    "clamp_max(Tensor input, Operand max) -> Tensor",
    "Limited from above: min(input, max).",
    lambda m, x, high: m.minimum(x, high),
    kinds="bif",
    holds=_operand_dtype,
    inplace=True,
    derivative=Derivative(
        input=lambda grad, input, max: grad.masked_fill((input <= max).logical_not(), 0),
        max=lambda grad, input, max: grad.masked_fill((input > max).logical_not(), 0),
    ),
)
clamp: Final = Pointwise(
    "clamp(Tensor input, Operand min, Operand max) -> Tensor",
    "Limited to the range from min to max; max where min is larger.",
    lambda m, x, low, high: m.minimum(m.maximum(x, low), high),
    kinds="if",
    holds=_operand_dtype,
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, input, min, max: grad.masked_fill(((input >= min) & (input <= max)).logical_not(), 0),
        min=lambda grad, input, min, max: grad.masked_fill(((min < max) & (input < min)).logical_not(), 0),
        max=lambda grad, input, min, max: grad.masked_fill(((max < min) | (input > max)).logical_not(), 0),
    ),
)
where: Final = Pointwise(
    "where(Tensor condition, Operand input, Operand other) -> Tensor",
    "input where the condition holds, else other.",
    lambda m, c, x, y: m.where(c, x, y),
    condition=True,
    holds=lambda compute: compute if arithmetic_dtype(compute) is compute else None,
    kinds="bifc8",
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, condition: grad.where(condition, 0),
        other=lambda grad, condition: grad.masked_fill(condition, 0),
    ),
)
addcmul: Final = Pointwise(
    "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    "input + value * tensor1 * tensor2.",
    lambda m, x, a, b, value: x + value * a * b,
    kinds="ifc",
    inplace=True,
    derivative=Derivative(
        input=lambda grad: grad,
        tensor1=lambda grad, tensor2, value: grad * tensor2 * value,
        tensor2=lambda grad, tensor1, value: grad * tensor1 * value,
    ),
)
addcdiv: Final = Pointwise(
    "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    "input + value * tensor1 / tensor2.",
    lambda m, x, a, b, value: x + value * (a / b),
    kinds="fc",
    inplace=True,
    derivative=Derivative(
        input=lambda grad: grad,
        tensor1=lambda grad, tensor2, value: grad * value / tensor2,
        tensor2=lambda grad, tensor1, tensor2, value: -grad * value * tensor1 / (tensor2 * tensor2),
    ),
)


def _lerp(m: Any, x: Any, y: Any, w: Any) -> Any:
    """Interpolate from the nearer end, so that weights 0 and 1 give the ends exactly."""
    return m.where(m.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))


lerp: Final = Pointwise(
    "lerp(Tensor input, Tensor end, Operand weight) -> Tensor", "Linear interpolation: input + weight * (end - input).",
    _lerp, kinds="fc", inplace=True,
    derivative=Derivative(input=lambda grad, weight: grad * (1 - weight), end=lambda grad, weight: grad * weight,
                          weight=lambda grad, input, end: grad * (end - input)))


def div_rounded(input: Any, other: Any, rounding_mode: str) -> Any:
    """Divide with rounding.

    Raises:
        ArgumentError: The mode is not None, ``trunc`` or ``floor``.
    """
    if not hasattr(input, "_key") and not hasattr(other, "_key"):
        input = as_tensor(input)
    if rounding_mode == "floor":
        return call(floored_divide, input, other)
    if rounding_mode == "trunc":
        return call(truncated_divide, input, other)
    raise ArgumentError(
        "div", f"rounding_mode={rounding_mode!r}", "the mode is None, 'trunc' or 'floor'", "pass one of these"
    )


@cache
def _power_of_ten(exponent: int) -> float:
    """Return the same object each time, as replays compare arguments by identity first; doubles hold few powers."""
    return float(10.0**exponent)


def rounded(input: Any, decimals: int) -> Any:
    """Round to ``decimals`` digits after the decimal point; before it if negative."""
    return call(OPERATORS["round_decimals"], input, _power_of_ten(builtins.abs(decimals)), decimals < 0)


def with_alpha(input: Any, other: Any, alpha: Any, sign: int = 1) -> Any:
    """Return ``input`` plus ``other`` times ``alpha``, or minus it for sign -1, rounded once."""
    function = functions.add if sign > 0 else functions.sub
    result, common = function(input, scaled(input, other, alpha, sign)), result_type((input, other))
    return result if result.dtype is common else result.to(common)


def scale_for_inplace(operator: str, input: Any, other: Any, alpha: Any, sign: int = 1) -> Any:
    """Apply ``scaled`` for an in-place sum; check for shared memory first, which the factor's copy would hide."""
    if hasattr(input, "_array"):
        check_parts(operator, input, (other,))
    return scaled(input, other, alpha, sign)


def scaled(input: Any, other: Any, alpha: Any, sign: int = 1) -> Any:
    """Return the second summand times ``alpha``.

    Raises:
        DtypeError: alpha is a float and both summands are integers, or alpha is a bool and they are not.
        ArgumentError: The dtype of the sum cannot hold alpha.
    """
    common, alpha = result_type((input, other)), plain_number(alpha)
    check_factor(common, alpha, sign)
    if common is bool_:
        return other * bool(alpha)
    if alpha == 1:
        return other
    if hasattr(other, "_key"):  # a product has the range and the precision of the sum
        dtype = arithmetic_dtype(common)
        other = other if other.dtype is dtype else other.to(dtype)
    return (int(other) if type(other) is bool else other) * alpha


def check_factor(common: DType, alpha: Any, sign: int = 1) -> None:
    """Check the factor of a summand.

    Raises:
        DtypeError: alpha is a float and the sum is of integers, or alpha is a bool and the sum is not.
        ArgumentError: The dtype of the sum cannot hold alpha.
    """
    if type(alpha) is bool and common is not bool_:
        raise DtypeError("add", f"alpha={alpha!r} for {common.name}", "a factor of numbers is a number", "pass 1 or 0")
    if type(alpha) is float and common.category < 2:
        raise DtypeError(
            "add",
            f"alpha={alpha!r} for integers",
            "a factor of integers is an integer",
            "convert to a floating-point dtype",
        )
    check_range("add", sign * alpha, common)
