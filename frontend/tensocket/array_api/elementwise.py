"""Elementwise functions: the standard's promotion of operands, followed by the operators."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import tensocket_operators as core

from .promotion import common, is_array, together


def _unary(operator: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def run(x: Any, /) -> Any:
        return operator(x)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = operator.__doc__
    return run


def _binary(operator: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    def run(x1: Any, x2: Any, /) -> Any:
        return operator(*together(x1, x2))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = operator.__doc__
    return run


def _parts(operator: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the operator that rounds complex numbers part by part."""

    def run(x: Any) -> Any:
        """Round x."""
        return core.complex(operator(core.real(x)), operator(core.imag(x))) if x.dtype.is_complex else operator(x)

    run.__doc__ = operator.__doc__
    return run


def _sign(x: Any) -> Any:
    """Return -1, 0 or 1; the direction of complex numbers; NaN for NaN."""
    if x.dtype.is_complex:
        return core.sgn(x)
    return core.where(core.isnan(x), x, core.sign(x)) if x.dtype.is_floating_point else core.sign(x)


def _copied(x: Any) -> Any:
    """Return a copy."""
    return x.clone()


def _floor_divide(x: Any, y: Any) -> Any:
    """Return the standard's quotients of infinities; PyTorch returns NaN, and -1 for a negative number by infinity."""
    result = core.floor_divide(x, y)
    if not x.dtype.is_floating_point:
        return result
    infinite = core.isinf(x) ^ core.isinf(y)
    return core.where(infinite & ~core.isnan(x) & ~core.isnan(y) & (y != 0), x / y, result)


def _remainder(x: Any, y: Any) -> Any:
    """Return the remainder, whose zeros have the divisor's sign."""
    result = core.remainder(x, y)
    return core.where(result == 0, core.copysign(result, y), result) if x.dtype.is_floating_point else result


abs = _unary(core.abs, "abs")
acos = _unary(core.acos, "acos")
acosh = _unary(core.acosh, "acosh")
asin = _unary(core.asin, "asin")
asinh = _unary(core.asinh, "asinh")
atan = _unary(core.atan, "atan")
atanh = _unary(core.atanh, "atanh")
bitwise_invert = _unary(core.bitwise_not, "bitwise_invert")
ceil = _unary(core.ceil, "ceil")
conj = _unary(core.conj, "conj")
cos = _unary(core.cos, "cos")
cosh = _unary(core.cosh, "cosh")
exp = _unary(core.exp, "exp")
expm1 = _unary(core.expm1, "expm1")
floor = _unary(core.floor, "floor")
imag = _unary(core.imag, "imag")
isfinite = _unary(core.isfinite, "isfinite")
isinf = _unary(core.isinf, "isinf")
isnan = _unary(core.isnan, "isnan")
log = _unary(core.log, "log")
log10 = _unary(core.log10, "log10")
log1p = _unary(core.log1p, "log1p")
log2 = _unary(core.log2, "log2")
logical_not = _unary(core.logical_not, "logical_not")
negative = _unary(core.neg, "negative")
positive = _unary(_copied, "positive")
real = _unary(core.real, "real")
reciprocal = _unary(core.reciprocal, "reciprocal")
round = _unary(_parts(core.round), "round")
sign = _unary(_sign, "sign")
signbit = _unary(core.signbit, "signbit")
sin = _unary(core.sin, "sin")
sinh = _unary(core.sinh, "sinh")
sqrt = _unary(core.sqrt, "sqrt")
square = _unary(core.square, "square")
tan = _unary(core.tan, "tan")
tanh = _unary(core.tanh, "tanh")
trunc = _unary(core.trunc, "trunc")

add = _binary(core.add, "add")
atan2 = _binary(core.atan2, "atan2")
bitwise_and = _binary(core.bitwise_and, "bitwise_and")
bitwise_left_shift = _binary(core.bitwise_left_shift, "bitwise_left_shift")
bitwise_or = _binary(core.bitwise_or, "bitwise_or")
bitwise_right_shift = _binary(core.bitwise_right_shift, "bitwise_right_shift")
bitwise_xor = _binary(core.bitwise_xor, "bitwise_xor")
copysign = _binary(core.copysign, "copysign")
divide = _binary(core.div, "divide")
equal = _binary(core.eq, "equal")
floor_divide = _binary(_floor_divide, "floor_divide")
greater = _binary(core.gt, "greater")
greater_equal = _binary(core.ge, "greater_equal")
hypot = _binary(core.hypot, "hypot")
less = _binary(core.lt, "less")
less_equal = _binary(core.le, "less_equal")
logaddexp = _binary(core.logaddexp, "logaddexp")
logical_and = _binary(core.logical_and, "logical_and")
logical_or = _binary(core.logical_or, "logical_or")
logical_xor = _binary(core.logical_xor, "logical_xor")
maximum = _binary(core.maximum, "maximum")
minimum = _binary(core.minimum, "minimum")
multiply = _binary(core.mul, "multiply")
nextafter = _binary(core.nextafter, "nextafter")
not_equal = _binary(core.ne, "not_equal")
pow = _binary(core.pow, "pow")
remainder = _binary(_remainder, "remainder")
subtract = _binary(core.sub, "subtract")


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit x to the range from min to max, which are numbers, arrays or None (no limit). The dtype is that of x."""
    limits = [_limit(x, limit) for limit in (min, max)]
    if limits == [None, None]:
        return x.clone()
    shape = core.broadcast_tensors(x, *[v for v in limits if is_array(v)])[0].shape
    result = core.clamp(x, *limits)
    for limit in limits:  # a limit of NaN makes all elements NaN
        if is_array(limit) and limit.dtype.is_floating_point:
            result = core.where(core.isnan(limit), limit, result)
    return result.expand(shape) if result.shape != shape else result


def _limit(x: Any, limit: Any) -> Any:
    """Return a limit as an array of the dtype of x, or None if no x can reach it."""
    if limit is None:
        return None
    if is_array(limit):
        return limit.to(common(x, limit)).to(x.dtype)
    if x.dtype.kind in ("int", "uint") and isinstance(limit, builtins.float) and math.isinf(limit):
        return None
    return core.full((), limit, dtype=x.dtype, device=x.device)
