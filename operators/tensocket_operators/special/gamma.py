"""Relatives of the gamma function: lgamma, digamma, polygamma, mvlgamma, Hurwitz' zeta function.

Between 1 and 3, lgamma and digamma are Chebyshev series of the functions without their zeros; above, Stirling's formula
with a series for its remainder; below, recurrence and reflection. Zeta is a sum of ten terms (of more for negative
numbers) and the Euler-Maclaurin formula.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative, no_derivative
from tensocket_core.geometry import is_integer
from tensocket_core.keys import AUTOGRAD
from tensocket_core.promotion import can_cast
from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, UndefinedDtype

from ..kinds.composite import composite
from ..kinds.pointwise import Pointwise
from . import tables as tables
from .series import chebyshev, is_wide, pick, polynomial, sin_pi

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f"}
_HALF_LOG_2PI: Final = 0.5 * math.log(2 * math.pi)
#: The positive root of digamma, as two float64 numbers.
_ROOT: Final = (1.4616321449683622, 9.549995429965697e-17)

# --------------------------------------------------------------------------------------------------- lgamma, digamma


def stirling_rest(m: Any, x: Any) -> Any:
    """Return log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for x from 3."""
    inverse = 1.0 / x
    return chebyshev(m, tables.STIRLING, inverse * inverse, 1e-12, 1 / 9) * inverse


def log_gamma_positive(m: Any, x: Any) -> Any:
    """Return log(gamma(x)) for x from 0."""
    below = x < 1.0
    z = m.where(below, x + 1.0, x)
    near = m.where(below, x, x - 1.0) * m.where(below, x - 1.0, x - 2.0) * chebyshev(m, tables.LGAMMA, z, 1.0, 3.0)
    near = m.where(below, near - m.log(x), near)
    far = (x - 0.5) * (m.log(x) - 1.0) + (_HALF_LOG_2PI - 0.5) + stirling_rest(m, m.maximum(x, 3.0))
    return m.where(x <= 3.0, near, far)


def _lgamma_factors(m: Any) -> int:
    """Return how many factors of gamma below 0 are multiplied one by one; beyond, its logarithm is far from 0."""
    return 18 if is_wide(m) else 10


def _zero_of(m: Any, n: Any, right: Any) -> tuple[Any, Any]:
    """Return the zero of log|gamma(t - n)| on one side of t = 0, as two numbers; 0 if there is none."""
    parts: list[Any] = []
    rows = [[(high := float_of(m, zero)), zero - high + rest]
            for zero, rest in tables.LGAMMA_ZEROS[:2 * _lgamma_factors(m) - 2]]
    for part in range(2):
        found: Any = 0.0 * n
        for k in range(0, len(rows), 2):
            side = m.where(right, 0.0 * n + rows[k + 1][part], rows[k][part])
            found = m.where(m.eq(n, k // 2 + 2.0), side, found)
        parts.append(found)
    return parts[0], parts[1]


def _lgamma_near(m: Any, x: Any, use: Any) -> tuple[Any, Any, Any]:
    """Return 1 / |gamma(x)|, that minus 1, and whether the second has digits that the first lacks.

    With x = t - n, 1 / gamma(x) = +-t / gamma(1 + t) (1 - t) ... (n - t) is 1 or -1 at a zero of the logarithm. The
    difference from there is computed factor by factor, each relative to t minus the zero's t.
    """
    whole = m.where(use, m.rint(x), 0.0)
    n, t = -whole, x - whole
    zero, rest = _zero_of(m, n, t > 0)
    step = (t - zero) - rest
    value, start, slope = 0.0 * t, 0.0 * t, 0.0 * t  # the series at t, at the zero, and its slope between them
    for coefficient in reversed(tables.RECIPROCAL_GAMMA[:None if is_wide(m) else 14]):
        slope = slope * t + start
        value, start = value * t + coefficient, start * zero + coefficient
    product, before, change = 1.0 + 0.0 * t, 1.0 + 0.0 * t, 0.0 * t
    for k in range(1, _lgamma_factors(m) + 1):  # unrolled, because a loop would not vectorize
        change = m.where(n >= k, change * (k - t) - step * before, change)
        product, before = m.where(n >= k, product * (k - t), product), m.where(n >= k, before * (k - zero), before)
    size = m.abs(t) * value * product
    rise = step * value * product + zero * (step * slope * product + start * change)
    return size, m.where(t > 0, rise, -rise), m.ne(zero, 0.0) & (size > 0.5) & (size < 2.0)


def _lgamma(m: Any, x: Any) -> Any:
    size = m.abs(x)
    above = log_gamma_positive(m, size)
    use = (x < 0) & (x > -0.25 - _lgamma_factors(m))
    inverse, rise, digits = _lgamma_near(m, x, use)
    near = m.where(digits, m.log1p(m.where(digits, rise, 0.0)), m.log(inverse))
    sine = m.abs(sin_pi(m, size))
    far = m.log(size) + m.log(sine) - math.log(math.pi) + above
    pole = m.eq(size, math.inf) | ((x < 0) & m.eq(sine, 0.0))
    return m.where(pole, math.inf, m.where(x < 0, -m.where(use, near, far), above))


def _digamma(m: Any, x: Any) -> Any:
    """Return digamma; below 0 it is digamma(1 - x) - pi / tan(pi x)."""
    negative = x < 0
    y = m.where(negative, 1.0 - x, x)
    below = y < 1.0
    z = m.where(below, y + 1.0, y)
    high = float_of(m, _ROOT[0])
    near = ((z - high) - (_ROOT[0] - high + _ROOT[1])) * chebyshev(m, tables.DIGAMMA, z, 1.0, 3.0)
    inverse = 1.0 / m.maximum(y, 3.0)
    square = inverse * inverse
    far = m.log(y) - 0.5 * inverse - square * chebyshev(m, tables.DIGAMMA_FAR, square, 1e-10, 1 / 9)
    value = m.where(z <= 3.0, m.where(below, near - 1.0 / y, near), far)
    rest = (x - m.rint(x)) * math.pi
    reflected = m.where(m.eq(rest, 0.0), math.nan, value - math.pi * m.cos(rest) / m.sin(rest))
    return m.where(negative, reflected, value)


def float_of(m: Any, value: float) -> float:
    """Return a number without the bits that float32 lacks; in float64, return it unchanged."""
    if m.dtype.itemsize == 8:
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * (1 << 24)), exponent - 24)


#: Bernoulli numbers B(2k) for k from 1 to 12.
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
                     -174611 / 330, 854513 / 138, -236364091 / 2730)


def _trigamma(m: Any, x: Any) -> Any:
    """Apply eight steps of the recurrence, then the asymptotic series; below 1/2, reflection."""
    reflected = x < 0.5
    y = m.where(reflected, 1.0 - x, x)
    total = 1.0 / (y * y)
    for _ in range(7):
        y = y + 1.0
        total = total + 1.0 / (y * y)
    y = y + 1.0
    inverse = 1.0 / y
    square = inverse * inverse
    total = total + inverse + 0.5 * square + inverse * square * polynomial(_BERNOULLI[:8], square)
    sine = sin_pi(m, x)
    return m.where(reflected, math.pi**2 / (sine * sine) - total, total)


lgamma: Final = Pointwise(
    "lgamma(Tensor input) -> Tensor", "Logarithm of the absolute value of the gamma function.", _lgamma, inplace=True,
    derivative=Derivative(input=lambda grad, input: grad * input.digamma()), **_FLOAT)
digamma: Final = Pointwise(
    "digamma(Tensor input) -> Tensor", "Logarithmic derivative of the gamma function.", _digamma, inplace=True,
    derivative=Derivative(input=lambda grad, input: grad * call(trigamma, input)), **_FLOAT)
trigamma: Final[Pointwise] = Pointwise(
    "trigamma(Tensor input) -> Tensor", "Derivative of digamma.", _trigamma, method=False, function=False,
    derivative=Derivative(input=lambda grad, input: grad * functions.polygamma(2, input)), **_FLOAT)

# ----------------------------------------------------------------------------------------------------------- zeta


#: Factors B(2k) / (2k)! of the Euler-Maclaurin formula.
_TAIL: Final = tuple(b / math.factorial(2 * k) for k, b in enumerate(_BERNOULLI, 1))
#: Number of terms that are summed one by one.
_TERMS: Final = 10


def _from(m: Any, s: Any, w: Any) -> Any:
    """Return the sum of (k + w) ** -s over k from 0 for large w: the integral and the Euler-Maclaurin formula."""
    power = m.pow(w, -s)
    total = power * w / (s - 1.0) + 0.5 * power
    inverse = 1.0 / w
    term = power * (s * inverse)
    for k, coefficient in enumerate(_TAIL):
        total = total + term * coefficient
        term = term * ((s + (2 * k + 1.0)) * inverse) * ((s + (2 * k + 2.0)) * inverse)
    return total


def _first_terms(m: Any, s: Any, w: Any, count: Any) -> tuple[Any, Any]:
    """Return the sum of (k + w) ** -s over k below ``count``, and the number after the last one."""
    total, following = m.repeat(count, (0.0 * w, w), lambda k, total, w: (total + m.pow(w, -s), w + 1.0))
    return total, following


def _zeta(m: Any, s: Any, q: Any) -> Any:
    """Sum the terms of positive numbers, and those of negative numbers by magnitude, from the smallest on."""
    below = q < 0
    count = m.where(below, -m.floor(q), 0.0)
    total, w = _first_terms(m, s, q + count, _TERMS)
    total = total + _from(m, s, w)
    smallest = m.where(below, -(q + (count - 1.0)), 1.0)
    mirrored, w = _first_terms(m, s, smallest, m.cast(m.minimum(count, float(_TERMS)), int32))
    many = m.cast(m.where(count > _TERMS, 1.0, 0.0), int32)  # a loop of one iteration, which positive numbers skip
    (rest,) = m.repeat(many, (0.0 * w,), lambda k, rest: (_from(m, s, w) - _from(m, s, 1.0 - q),))
    mirrored = mirrored + rest
    even = m.eq(0.5 * s, m.floor(0.5 * s))
    total = m.where(below, total + m.where(even, mirrored, -mirrored), total)
    total = m.where(m.eq(q, math.inf), 0.0, total)
    whole = m.eq(q, m.floor(q))
    return pick(m, m.ne(s, s) | m.ne(q, q), s + q, m.eq(s, 1.0), math.inf, s < 1.0, math.nan,
                (q <= 0) & whole, math.inf, (q < 0) & m.ne(s, m.floor(s)), math.nan, total)


special_zeta: Final[Pointwise] = Pointwise(
    "special_zeta(Operand input, Operand other) -> Tensor",
    "Hurwitz' zeta function: the sum of (k + other) ** -input over k from 0.", _zeta, method=False,
    namespace="special",
    derivative=Derivative(input=no_derivative("zeta", "input"),
                          other=lambda grad, input, other: grad * -input * call(special_zeta, input + 1, other)),
    **_FLOAT)


#: The largest n whose n! fits in float64.
_LARGEST_FACTORIAL: Final = 170


@composite("polygamma(int n, Tensor input) -> Tensor", method=False)
def polygamma(n: int, input: Any) -> Any:
    """Return the n-th derivative of digamma.

    Raises:
        ArgumentTypeError: n is not an integer.
        ArgumentError: n is negative.
    """
    if not is_integer(n):
        raise ArgumentTypeError("polygamma", f"n={n!r}", "the order is an integer", "pass a number from 0")
    n = operator.index(n)
    if n < 0:
        raise ArgumentError("polygamma", f"n={n}", "the order is not negative", "pass a number from 0")
    if n < 2:
        return call(trigamma, input) if n else input.digamma()
    return call(special_zeta, float(n + 1), input) * ((-1.0) ** (n + 1) * (
        math.exp(math.lgamma(n + 1)) if n <= _LARGEST_FACTORIAL else math.inf))


@composite("polygamma_self(Tensor input, int n) -> Tensor", method="polygamma", function=False)
def polygamma_self(input: Any, n: int) -> Any:
    """Return the n-th derivative of digamma."""
    return polygamma(n, input)


@composite("polygamma_(Tensor! input, int n) -> Tensor", function=False)
def polygamma_(input: Any, n: int) -> Any:
    """Apply ``polygamma`` in place."""
    before = input.clone() if input._key & AUTOGRAD else input
    return _written("polygamma_", input, polygamma(n, before))


@composite("mvlgamma(Tensor input, int p) -> Tensor")
def mvlgamma(input: Any, p: int) -> Any:
    """Return the logarithm of the multivariate gamma function.

    It is p (p - 1) / 4 log(pi) + sum of lgamma(input - k / 2) for k < p.

    Raises:
        ArgumentError: p is less than 1.
        UndefinedDtype: The input's dtype is bool or complex.
    """
    if p < 1:
        raise ArgumentError("mvlgamma", f"p={p}", "the dimension is at least 1", "pass a number from 1")
    if input.dtype.kind in ("bool", "complex"):
        raise UndefinedDtype("mvlgamma", f"dtype {input.dtype.name}", "mvlgamma is defined for real numbers",
                             "convert with .to(dtype) first")
    if input.dtype.kind != "float":
        input = input.to(functions.lgamma(input[:0] if input.ndim else input).dtype)
    total = input.lgamma()
    for k in range(1, p):
        total = total + (input - 0.5 * k).lgamma()
    return total + p * (p - 1) / 4 * math.log(math.pi)


@composite("mvlgamma_(Tensor! input, int p) -> Tensor", function=False)
def mvlgamma_(input: Any, p: int) -> Any:
    """Apply ``mvlgamma`` in place."""
    before = input.clone() if input._key & AUTOGRAD else input
    return _written("mvlgamma_", input, mvlgamma(before, p))


def _written(name: str, input: Any, result: Any) -> Any:
    if not can_cast(result.dtype, input.dtype):
        raise DtypeError(name, f"a result of dtype {result.dtype.name} for a tensor of dtype {input.dtype.name}",
                         "an in-place result keeps the tensor's dtype category", "use the out-of-place form")
    return input.copy_(result)
