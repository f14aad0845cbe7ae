"""Bessel functions of orders 0 and 1, and the Airy function.

Near 0, these are Chebyshev series in x or x^2, with zeros factored out if accuracy depends on them; far from 0, series
in 1 / x times the asymptotic factor. See ``tables`` for the function that each series represents.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative

from ..kinds.pointwise import Pointwise
from . import tables as tables
from .gamma import float_of
from .series import chebyshev, pick, polynomial

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f"}
_SPECIAL: Final[dict[str, Any]] = {**_FLOAT, "method": False, "namespace": "special"}
#: Squares of the first zeros of J0 and J1, as two float64 numbers each.
_J0_ZEROS: Final = ((5.783185962946784, 4.123247343506204e-16), (30.471262343662087, -2.366534485750659e-16))
_J1_ZEROS: Final = ((14.681970642123893, -9.858177825793294e-17),)
_2_PI: Final = 2 / math.pi

# ---------------------------------------------------------------------------------------------------- I and K


def _i0e(m: Any, x: Any) -> Any:
    size = m.abs(x)
    inverse = 1.0 / m.maximum(size, 8.0)
    far = chebyshev(m, tables.I0_FAR, inverse, 1 / 3000, 1 / 8) * m.sqrt(inverse)
    return m.where(size <= 8.0, chebyshev(m, tables.I0_NEAR, m.minimum(size, 8.0), 0.0, 8.0), far)


def _i1e(m: Any, x: Any) -> Any:
    size = m.abs(x)
    inverse = 1.0 / m.maximum(size, 8.0)
    far = chebyshev(m, tables.I1_FAR, inverse, 1 / 3000, 1 / 8) * m.sqrt(inverse)
    far = m.where(x < 0, -far, far)
    return m.where(size <= 8.0, x * chebyshev(m, tables.I1_NEAR, m.minimum(size, 8.0), 0.0, 8.0), far)


def _unscaled(scaled: Any, odd: bool) -> Any:
    def formula(m: Any, x: Any) -> Any:
        size = m.abs(x)
        limit = x if odd else size
        return m.where(m.eq(size, math.inf), limit, m.exp(size) * scaled(m, x))

    return formula


_i0, _i1 = _unscaled(_i0e, False), _unscaled(_i1e, True)


def _second_kind(order: int, scaled: bool) -> Any:
    """Return the formula of K0 or K1; if scaled, times exp(x)."""
    far_table = (tables.K0_FAR, tables.K1_FAR)[order]

    def formula(m: Any, x: Any) -> Any:
        low = m.minimum(x, 2.0)
        log, square = m.log(0.5 * low), low * low
        if order:
            near = log * _i1(m, low) + chebyshev(m, tables.K1_NEAR, square, 0.0, 4.0) / low
        else:
            near = chebyshev(m, tables.K0_NEAR, square, 0.0, 4.0) - log * _i0(m, low)
        inverse = 1.0 / m.maximum(x, 2.0)
        far = chebyshev(m, far_table, inverse, 1 / 3000, 1 / 2) * m.sqrt(inverse)
        near, far = (m.exp(low) * near, far) if scaled else (near, m.exp(-x) * far)
        return pick(m, x < 0, math.nan, m.eq(x, 0.0), math.inf, x <= 2.0, near, far)

    return formula


def _i1_slope(x: Any, zeroth: Any, first: Any) -> Any:
    """Return I0 - I1 / x; 1/2 at 0."""
    tiny = x == 0
    return (zeroth - first / x.masked_fill(tiny, 1)).masked_fill(tiny, 0.5)


i0: Final = Pointwise(
    "i0(Tensor input) -> Tensor", "Modified Bessel function of the first kind, order 0.", _i0, inplace=True,
    derivative=Derivative(input=lambda grad, input: grad * functions.special_i1(input)), **_FLOAT)
special_i0e: Final = Pointwise(
    "special_i0e(Tensor input) -> Tensor", "exp(-|input|) * i0(input).", _i0e,
    derivative=Derivative(input=lambda grad, input, result: (
        grad * (functions.special_i1e(input) - input.sgn() * result))), **_SPECIAL)
special_i1: Final = Pointwise(
    "special_i1(Tensor input) -> Tensor", "Modified Bessel function of the first kind, order 1.", _i1,
    derivative=Derivative(input=lambda grad, input, result: grad * _i1_slope(input, input.i0(), result)), **_SPECIAL)
special_i1e: Final = Pointwise(
    "special_i1e(Tensor input) -> Tensor", "exp(-|input|) * i1(input).", _i1e,
    derivative=Derivative(input=lambda grad, input, result: (
        grad * (_i1_slope(input, functions.special_i0e(input), result) - input.sgn() * result))), **_SPECIAL)
special_modified_bessel_i0: Final = Pointwise(
    "special_modified_bessel_i0(Tensor input) -> Tensor", "Modified Bessel function of the first kind, order 0.", _i0,
    derivative=Derivative(input=lambda grad, input: grad * functions.special_i1(input)), **_SPECIAL)
special_modified_bessel_i1: Final = Pointwise(
    "special_modified_bessel_i1(Tensor input) -> Tensor", "Modified Bessel function of the first kind, order 1.", _i1,
    derivative=Derivative(input=lambda grad, input, result: grad * _i1_slope(input, input.i0(), result)), **_SPECIAL)
special_modified_bessel_k0: Final = Pointwise(
    "special_modified_bessel_k0(Tensor input) -> Tensor", "Modified Bessel function of the second kind, order 0.",
    _second_kind(0, False),
    derivative=Derivative(input=lambda grad, input: -grad * call(special_modified_bessel_k1, input)), **_SPECIAL)
special_modified_bessel_k1: Final[Pointwise] = Pointwise(
    "special_modified_bessel_k1(Tensor input) -> Tensor", "Modified Bessel function of the second kind, order 1.",
    _second_kind(1, False),
    derivative=Derivative(input=lambda grad, input, result: (
        -grad * (call(special_modified_bessel_k0, input) + result / input))), **_SPECIAL)
special_scaled_modified_bessel_k0: Final = Pointwise(
    "special_scaled_modified_bessel_k0(Tensor input) -> Tensor", "exp(input) * modified_bessel_k0(input).",
    _second_kind(0, True),
    derivative=Derivative(input=lambda grad, input, result: (
        grad * (result - call(special_scaled_modified_bessel_k1, input)))), **_SPECIAL)
special_scaled_modified_bessel_k1: Final[Pointwise] = Pointwise(
    "special_scaled_modified_bessel_k1(Tensor input) -> Tensor", "exp(input) * modified_bessel_k1(input).",
    _second_kind(1, True),
    derivative=Derivative(input=lambda grad, input, result: (
        grad * (result - call(special_scaled_modified_bessel_k0, input) - result / input))), **_SPECIAL)

# ---------------------------------------------------------------------------------------------------- J and Y


def _without_zeros(m: Any, table: Any, zeros: Any, square: Any) -> Any:
    result = chebyshev(m, table, square, 0.0, 25.0)
    for high, low in zeros:
        lead = float_of(m, high)
        result = result * ((square - lead) - (high - lead + low))
    return result


def _waves(m: Any, x: Any, order: int) -> tuple[Any, Any]:
    """Return J and Y for x >= 5."""
    square = 25.0 / (x * x)
    p = chebyshev(m, (tables.P0, tables.P1)[order], square, 1e-6, 1.0)
    q = chebyshev(m, (tables.Q0, tables.Q1)[order], square, 1e-6, 1.0) / x
    sine, cosine = m.sin(x), m.cos(x)
    # sqrt(2) times cosine and sine of x - pi / 4 or x - 3 pi / 4.
    c, s = (sine - cosine, -(sine + cosine)) if order else (sine + cosine, sine - cosine)
    scale = 1.0 / m.sqrt(x * math.pi)
    return scale * (p * c - q * s), scale * (p * s + q * c)


def _near(m: Any, x: Any, order: int) -> Any:
    """Return J for |x| up to 5."""
    square = x * x
    if order:
        return x * _without_zeros(m, tables.J1_NEAR, _J1_ZEROS, square)
    return _without_zeros(m, tables.J0_NEAR, _J0_ZEROS, square)


def _first(order: int) -> Any:
    def formula(m: Any, x: Any) -> Any:
        size = m.abs(x)
        far = _waves(m, m.maximum(size, 5.0), order)[0]
        far = m.where(m.eq(size, math.inf), 0.0, m.where(x < 0, -far, far) if order else far)
        return m.where(size <= 5.0, _near(m, m.minimum(m.maximum(x, -5.0), 5.0), order), far)

    return formula


def _second(order: int) -> Any:
    def formula(m: Any, x: Any) -> Any:
        low = m.minimum(x, 5.0)
        square, log = low * low, m.log(low) * _near(m, low, order)
        if order:
            near = low * chebyshev(m, tables.Y1_NEAR, square, 0.0, 25.0) + _2_PI * (log - 1.0 / low)
        else:
            near = chebyshev(m, tables.Y0_NEAR, square, 0.0, 25.0) + _2_PI * log
        far = _waves(m, m.maximum(x, 5.0), order)[1]
        return pick(m, x < 0, math.nan, m.eq(x, 0.0), -math.inf, x <= 5.0, near, m.eq(x, math.inf), 0.0, far)

    return formula


def _j1_slope(x: Any, zeroth: Any, first: Any) -> Any:
    """Return J0 - J1 / x; 1/2 at 0."""
    return _i1_slope(x, zeroth, first)


special_bessel_j0: Final = Pointwise(
    "special_bessel_j0(Tensor input) -> Tensor", "Bessel function of the first kind, order 0.", _first(0),
    derivative=Derivative(input=lambda grad, input: -grad * call(special_bessel_j1, input)), **_SPECIAL)
special_bessel_j1: Final[Pointwise] = Pointwise(
    "special_bessel_j1(Tensor input) -> Tensor", "Bessel function of the first kind, order 1.", _first(1),
    derivative=Derivative(input=lambda grad, input, result: (
        grad * _j1_slope(input, call(special_bessel_j0, input), result))), **_SPECIAL)
special_bessel_y0: Final = Pointwise(
    "special_bessel_y0(Tensor input) -> Tensor", "Bessel function of the second kind, order 0.", _second(0),
    derivative=Derivative(input=lambda grad, input: -grad * call(special_bessel_y1, input)), **_SPECIAL)
special_bessel_y1: Final[Pointwise] = Pointwise(
    "special_bessel_y1(Tensor input) -> Tensor", "Bessel function of the second kind, order 1.", _second(1),
    derivative=Derivative(input=lambda grad, input, result: (
        grad * (call(special_bessel_y0, input) - result / input))), **_SPECIAL)


def _spherical(m: Any, x: Any) -> Any:
    square = x * x
    near = polynomial([(-1) ** k / math.factorial(2 * k + 1) for k in range(8)], square)
    return pick(m, m.eq(m.abs(x), math.inf), 0.0, m.abs(x) < 0.5, near, m.sin(x) / x)


special_spherical_bessel_j0: Final = Pointwise(
    "special_spherical_bessel_j0(Tensor input) -> Tensor", "sin(input) / input, 1 at 0.", _spherical,
    derivative=Derivative(input=lambda grad, input, result: (
        grad * ((input.cos() - result) / input).masked_fill(input == 0, 0))), **_SPECIAL)

# -------------------------------------------------------------------------------------------------------- Airy


def _airy(m: Any, x: Any) -> Any:
    size = m.abs(x)
    middle = chebyshev(m, tables.AI_MIDDLE, m.minimum(m.maximum(x, 0.0), 2.09), 0.0, 2.09) * m.exp(-1.5 * x)
    left = chebyshev(m, tables.AI_LEFT, m.minimum(m.maximum(x, -4.5), 0.0), -4.5, 0.0)
    root = m.sqrt(size)
    z = size * root * (2 / 3)
    inverse = 1.0 / z
    scale = 1.0 / (math.sqrt(math.pi) * m.sqrt(root))
    right = 0.5 * scale * m.exp(-z) * chebyshev(m, tables.AI_FAR, m.minimum(inverse, 0.5), 1 / 710, 0.5)
    bound = (1.5 / 4.5**1.5) ** 2
    square = m.minimum(inverse * inverse, bound)
    sine, cosine = m.sin(z), m.cos(z)
    f = chebyshev(m, tables.AI_SIN, square, 1e-6, bound)
    g = chebyshev(m, tables.AI_COS, square, 1e-6, bound) * inverse
    waves = scale * math.sqrt(0.5) * (f * (sine + cosine) + g * (cosine - sine))
    return pick(m, m.eq(size, math.inf), math.nan, x < -4.5, waves, x < 0.0, left, x <= 2.09, middle, right)


special_airy_ai: Final = Pointwise(
    "special_airy_ai(Tensor input) -> Tensor", "Airy's function Ai.", _airy, **_SPECIAL)
