"""Functions of complex values, written in terms of real ones: the same for every device and printer.

Formulas are those of W. Kahan ("Branch cuts for complex elementary functions", 1987) where cancellation matters;
branch cuts are C99's. Real functions are the IR's: float32 ones are decomposed later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ...contract.dtypes import DType, float32, float64
from ..complex import Complex, choose
from ..nodes import Expr, call, const, select
from .arctangent import atan2, copysign, is_negative
from .build import fma, number, two_product

#: By dtype: two exponents between which squares neither overflow nor lose bits, and the overflow exponent.
_SQUARES: Final[dict[DType, tuple[int, int, int]]] = {float32: (60, -48, 128), float64: (500, -460, 1024)}


def absolute(z: Complex) -> Expr:
    """Return |z|, rounded to the nearest value in all but rare cases; infinite if a part is.

    The root of the sum of squares has an error up to an ulp; the rounding errors of the squares and the root correct it
    (C. Borges, "An improved algorithm for hypot(a, b)", 2019). A power of two scales parts whose squares overflow or
    vanish.
    """
    a, b = call("abs", z.re), call("abs", z.im)
    large, small = call("max", a, b), call("min", a, b)
    top, bottom, end = _SQUARES[large.dtype]
    up = select(large < 2.0**bottom, number(2.0 ** (top - bottom), large.dtype), number(1.0, large.dtype))
    scale = select(large > 2.0**top, 2.0 ** (top - end), up)
    x, y = large * scale, small * scale
    size = call("sqrt", fma(x, x, y * y))
    square, (least, lost) = size * size, two_product(x, x)
    excess = fma(-y, y, square - least) + fma(size, size, -square) - lost
    size = select(call("eq", large, 0.0), large, (size - excess / (size * 2.0)) / scale)
    return select(call("eq", a, math.inf) | call("eq", b, math.inf), const(math.inf, size.dtype), size)


def angle(z: Complex) -> Expr:
    """Return the argument of z, within -pi .. pi."""
    return atan2(z.im, z.re)


def conj(z: Complex) -> Complex:
    """Return the conjugate."""
    return Complex(z.re, -z.im)


def sgn(z: Complex) -> Complex:
    """Return the direction z / |z|, and 0 for 0."""
    size = absolute(z)
    zero = call("eq", size, 0.0)
    return Complex(select(zero, 0.0, z.re / size), select(zero, 0.0, z.im / size))


def _polar(size: Expr, turn: Expr) -> Complex:
    """Return size (cos turn + i sin turn); a turn of 0 remains 0 even if the size is infinite."""
    none = call("eq", turn, 0.0)
    return Complex(select(none, size, size * call("cos", turn)), select(none, turn, size * call("sin", turn)))


def polar(size: Expr, turn: Expr) -> Complex:
    """Return the complex value with a magnitude and an angle."""
    return Complex(size * call("cos", turn), size * call("sin", turn))


def exp(z: Complex) -> Complex:
    """e^z; for an infinite real part, the magnitude does not depend on the angle, as in C99's annex G."""
    size = call("exp", z.re)
    plain = _polar(size, z.im)
    half = call("exp", z.re * 0.5)  # parts may be finite even if the magnitude is not
    over = call("eq", size, math.inf) & (call("abs", z.re) < math.inf)
    large = _polar(half, z.im)
    plain = choose(over, Complex(half * large.re, half * large.im), plain)
    known = call("eq", call("abs", z.re), math.inf) & ~(call("abs", z.im) < math.inf)
    im = select(known & (z.re < 0.0), copysign(size, z.im), plain.im)
    return Complex(select(known, size, plain.re), im)


def expm1(z: Complex) -> Complex:
    """e^z - 1: (e^x - 1) cos y - 2 sin^2(y/2), accurate near 0; e^z's result for 0 and infinite x."""
    half = call("sin", z.im * 0.5)
    grown = call("expm1", z.re)
    plain = Complex(grown * call("cos", z.im) - half * half * 2.0, (grown + 1.0) * call("sin", z.im))
    power = exp(z)
    finite = call("abs", z.re) < math.inf
    origin = call("eq", z.re, 0.0) & call("eq", z.im, 0.0)
    return choose(origin, z, choose(finite, plain, Complex(power.re - 1.0, power.im)))


def _log_size(re: Expr, im: Expr) -> Expr:
    """Return the logarithm of |z|; near the unit circle from |z|^2 - 1, whose larger part is an exact product."""
    a, b = call("abs", re), call("abs", im)
    large, small = call("max", a, b), call("min", a, b)
    near = call("log1p", (large - 1.0) * (large + 1.0) + small * small) * 0.5
    use = (large > 0.5) & (large < 2.0)
    return select(use, near, call("log", absolute(Complex(re, im))))


def log(z: Complex) -> Complex:
    """Return the principal logarithm."""
    return Complex(_log_size(z.re, z.im), angle(z))


def log1p(z: Complex) -> Complex:
    """log(1 + z), accurate near 0."""
    outer = z.re + 1.0
    small = (call("abs", z.re) < 0.5) & (call("abs", z.im) < 0.5)
    near = call("log1p", z.re * (z.re + 2.0) + z.im * z.im) * 0.5
    return Complex(select(small, near, _log_size(outer, z.im)), atan2(z.im, outer))


def sqrt(z: Complex) -> Complex:
    """Return the root with a non-negative real part."""
    size = call("sqrt", (call("abs", z.re) * 0.5 + absolute(z) * 0.5))
    zero = call("eq", size, 0.0)
    other = select(zero, 0.0, call("abs", z.im) / (size * 2.0))
    left = is_negative(z.re)
    infinite = call("eq", call("abs", z.im), math.inf)
    re, im = select(left, other, size), select(left, size, other)
    inf = const(math.inf, size.dtype)
    return Complex(select(infinite, inf, re), copysign(select(infinite, inf, im), z.im))


def _hyperbolic(x: Expr) -> tuple[Expr, Expr]:
    """Return hyperbolic sine and cosine, accurate near 0."""
    size = call("abs", x)
    grown = call("expm1", size)
    # e^x overflows before e^(x/2) does.
    half = call("exp", size * 0.5)
    large = half * 0.5 * half
    far = size > (80.0 if x.dtype is float32 else 700.0)
    sinh = select(far, large, (grown + grown / (grown + 1.0)) * 0.5)
    cosh = select(far, large, grown * (grown / (grown + 1.0)) * 0.5 + 1.0)  # the square would overflow
    return copysign(sinh, x), cosh


def _by_cosine(cosine: Expr, grown: Expr, of: Expr) -> Expr:
    """Return a product with a cosine, in which a result for 0 and infinity overrides NaN (C99's annex G)."""
    known = call("eq", grown, 0.0) | call("eq", call("abs", of), math.inf)
    return select(call("ne", cosine, cosine) & known, grown, cosine * grown)


def _by_sine(sine: Expr, grown: Expr) -> Expr:
    """Return a product with a sine, in which 0 overrides infinity and NaN (C99's annex G)."""
    beside = call("eq", sine, 0.0) & ~(call("abs", grown) < math.inf)
    within = call("eq", grown, 0.0) & call("ne", sine, sine)
    return select(beside, select(grown < 0.0, -sine, sine), select(within, grown, sine * grown))


def sin(z: Complex) -> Complex:
    """Return the sine."""
    sinh, cosh = _hyperbolic(z.im)
    return Complex(_by_sine(call("sin", z.re), cosh), _by_cosine(call("cos", z.re), sinh, z.im))


def cos(z: Complex) -> Complex:
    """Return the cosine."""
    sinh, cosh = _hyperbolic(z.im)
    return Complex(_by_cosine(call("cos", z.re), cosh, z.im), -_by_sine(call("sin", z.re), sinh))


def sinh(z: Complex) -> Complex:
    """Return the hyperbolic sine: -i sin(i z)."""
    turned = sin(Complex(-z.im, z.re))
    return Complex(turned.im, -turned.re)


def cosh(z: Complex) -> Complex:
    """Return the hyperbolic cosine: cos(i z)."""
    return cos(Complex(-z.im, z.re))


def tanh(z: Complex) -> Complex:
    """Return the hyperbolic tangent: (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y); 1 for large x."""
    bound = 20.0 if z.re.dtype is float32 else 40.0
    size = call("abs", z.re)
    far = size > bound
    sinh, cosh = _hyperbolic(select(far, bound, size))
    sine, cosine = call("sin", z.im), call("cos", z.im)
    below = sinh * sinh + cosine * cosine
    im = sine * cosine / below
    tail = sine * cosine * call("exp", size * -2.0) * 4.0
    end = call("eq", size, math.inf)
    tail = select(end & ~(call("abs", tail) < math.inf), copysign(const(0.0, size.dtype), z.im), tail)
    one = select(end | (call("abs", z.im) < math.inf), const(1.0, size.dtype), const(math.nan, size.dtype))
    re = copysign(select(far, one, sinh * cosh / below), z.re)
    return Complex(select(call("eq", size, 0.0), z.re, re),
                   select(call("eq", z.im, 0.0), z.im, select(far, tail, im)))


def tan(z: Complex) -> Complex:
    """Return the tangent: -i tanh(i z)."""
    turned = tanh(Complex(-z.im, z.re))
    return Complex(turned.im, -turned.re)


def pow(x: Complex, y: Complex) -> Complex:
    """e^(y log x); 0 to a power with a positive real part is 0, any number to the power 0 is 1."""
    result = exp(y * log(x))
    zero = call("eq", x.re, 0.0) & call("eq", x.im, 0.0)
    result = choose(zero & (y.re > 0.0), 0.0, result)
    return choose(call("eq", y.re, 0.0) & call("eq", y.im, 0.0), 1.0, result)


def _asinh_real(x: Expr) -> Expr:
    """Return the inverse of the real hyperbolic sine."""
    size = call("abs", x)
    square = size * size
    small = call("log1p", size + square / (call("sqrt", square + 1.0) + 1.0))
    far = size > (2.0**12 if x.dtype is float32 else 2.0**26)
    return copysign(select(far, call("log", size) + math.log(2), small), x)


def _edge(z: Complex, plain: Complex, re: Expr, im: Expr) -> Complex:
    """Return ``plain``, or the limits ``re`` and ``im`` for infinite arguments."""
    infinite = call("eq", call("abs", z.re), math.inf) | call("eq", call("abs", z.im), math.inf)
    return Complex(select(infinite, re, plain.re), select(infinite, im, plain.im))


def asin(z: Complex) -> Complex:
    """Return the inverse sine."""
    below, above = sqrt(Complex(1.0 - z.re, -z.im)), sqrt(Complex(z.re + 1.0, z.im))
    re = atan2(z.re, below.re * above.re - below.im * above.im)
    re = select(call("eq", z.re, 0.0), z.re, re)
    im = _asinh_real(below.re * above.im - below.im * above.re)
    end = const(math.inf, re.dtype)
    return _edge(z, Complex(re, im), atan2(z.re, call("abs", z.im)), copysign(end, z.im))


def acos(z: Complex) -> Complex:
    """Return the inverse cosine."""
    below, above = sqrt(Complex(1.0 - z.re, -z.im)), sqrt(Complex(z.re + 1.0, z.im))
    re = atan2(below.re, above.re) * 2.0
    re = select(call("eq", z.re, 0.0), const(math.pi / 2, re.dtype), re)
    im = _asinh_real(above.re * below.im - above.im * below.re)
    end = const(math.inf, re.dtype)
    return _edge(z, Complex(re, im), call("abs", atan2(z.im, z.re)), -copysign(end, z.im))


def asinh(z: Complex) -> Complex:
    """Return the inverse hyperbolic sine: -i asin(i z)."""
    turned = asin(Complex(-z.im, z.re))
    return Complex(turned.im, -turned.re)


def acosh(z: Complex) -> Complex:
    """Return the inverse hyperbolic cosine: acos(z) rotated so that the real part is non-negative."""
    turned = acos(z)
    return Complex(call("abs", turned.im), copysign(turned.re, z.im))


def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent, from the magnitude and the angle of (1 + z) / (1 - z)."""
    beyond = 1.0 - z.re
    square = z.im * z.im
    reach, gap = call("abs", z.re), 1.0 - call("abs", z.re)
    re = call("log1p", reach * 4.0 / (gap * gap + square)) * 0.25
    above = call("eq", gap, 0.0) & (call("abs", z.im) < 1e-8)  # the square may be 0 although z is not 1
    re = select(above, (call("log", call("abs", z.im)) - math.log(2)) * -0.5, re)
    re = select(call("eq", reach, 0.0), reach, re)
    im = atan2(z.im * 2.0, beyond * (z.re + 1.0) - square) * 0.5
    quarter = copysign(const(math.pi / 2, z.re.dtype), z.im)
    large = (reach > 1e15) | (call("abs", z.im) > 1e15)
    size = absolute(z)
    far = select(call("eq", size, math.inf), const(0.0, size.dtype), reach / size / size)
    lost = call("ne", z.im, z.im) | (call("ne", z.re, z.re) & (call("abs", z.im) < math.inf))
    im = select(lost, const(math.nan, im.dtype), select(large, quarter, im))
    return Complex(copysign(select(large, far, re), z.re), im)


def atan(z: Complex) -> Complex:
    """Return the inverse tangent: -i atanh(i z)."""
    turned = atanh(Complex(-z.im, z.re))
    return Complex(turned.im, -turned.re)


#: Functions of one complex value, by the name that formulas use.
UNARY: Final[dict[str, Callable[[Complex], Complex | Expr]]] = {
    "abs": absolute, "angle": angle, "conj": conj, "sgn": sgn, "exp": exp, "expm1": expm1, "log": log, "log1p": log1p,
    "sqrt": sqrt, "sin": sin, "cos": cos, "tan": tan, "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "asin": asin, "acos": acos, "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}
