"""Functions of one number: exponentials, roots, trigonometry, signs and rounding."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.dispatch.derivative import Derivative
from tensocket_plugins.contract.dtypes import bool_

from ..kinds.pointwise import Pointwise
from .arithmetic import is_float

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f", "inplace": True}
_ANALYTIC: Final[dict[str, Any]] = {**_FLOAT, "kinds": "fc"}

exp: Final = Pointwise("exp(Tensor input) -> Tensor", "Exponential: e ** input.", lambda m, x: m.exp(x),
                       derivative=Derivative(input=lambda grad, result: grad * result), **_ANALYTIC)
expm1: Final = Pointwise("expm1(Tensor input) -> Tensor", "exp(input) - 1, accurate near 0.", lambda m, x: m.expm1(x),
                         derivative=Derivative(input=lambda grad, result: grad * (result + 1)), **_ANALYTIC)
log: Final = Pointwise("log(Tensor input) -> Tensor", "Natural logarithm.", lambda m, x: m.log(x),
                       derivative=Derivative(input=lambda grad, input: grad / input), **_ANALYTIC)
log1p: Final = Pointwise("log1p(Tensor input) -> Tensor", "log(1 + input), accurate near 0.", lambda m, x: m.log1p(x),
                         derivative=Derivative(input=lambda grad, input: grad / (input + 1)), **_ANALYTIC)
sqrt: Final = Pointwise("sqrt(Tensor input) -> Tensor", "Square root.", lambda m, x: m.sqrt(x),
                        derivative=Derivative(input=lambda grad, result: grad / (2 * result)), **_ANALYTIC)
rsqrt: Final = Pointwise(
    "rsqrt(Tensor input) -> Tensor",
    "1 / sqrt(input).",
    lambda m, x: 1 / m.sqrt(x),
    derivative=Derivative(input=lambda grad, result: -0.5 * grad * result * result * result),
    **_ANALYTIC,
)
reciprocal: Final = Pointwise("reciprocal(Tensor input) -> Tensor", "1 / input.", lambda m, x: 1 / x,
                              derivative=Derivative(input=lambda grad, result: -grad * result * result), **_ANALYTIC)
sin: Final = Pointwise("sin(Tensor input) -> Tensor", "Sine of radians.", lambda m, x: m.sin(x),
                       derivative=Derivative(input=lambda grad, input: grad * input.cos()), **_ANALYTIC)
cos: Final = Pointwise("cos(Tensor input) -> Tensor", "Cosine of radians.", lambda m, x: m.cos(x),
                       derivative=Derivative(input=lambda grad, input: -grad * input.sin()), **_ANALYTIC)
tanh: Final = Pointwise("tanh(Tensor input) -> Tensor", "Hyperbolic tangent.", lambda m, x: m.tanh(x),
                        derivative=Derivative(input=lambda grad, result: grad * (1 - result * result)), **_ANALYTIC)
erf: Final = Pointwise(
    "erf(Tensor input) -> Tensor",
    "Error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0.",
    lambda m, x: m.erf(x),
    derivative=Derivative(input=lambda grad, input: grad * (2 / math.sqrt(math.pi)) * (-(input * input)).exp()),
    **_FLOAT,
)
sigmoid: Final = Pointwise("sigmoid(Tensor input) -> Tensor", "Logistic function: 1 / (1 + exp(-input)).",
                           lambda m, x: 1 / (1 + m.exp(-x)),
                           derivative=Derivative(input=lambda grad, result: grad * result * (1 - result)), **_ANALYTIC)
square: Final = Pointwise("square(Tensor input) -> Tensor", "input * input; bools are numbers.", lambda m, x: x * x,
                          compute="number", kinds="ifc",
                          derivative=Derivative(input=lambda grad, input: 2 * grad * input), inplace=True)
sign: Final = Pointwise("sign(Tensor input) -> Tensor", "-1, 0 or 1; 0 for NaN.",
                        lambda m, x: x if m.dtype is bool_ else m.where(x > 0, 1, 0) - m.where(x < 0, 1, 0),
                        derivative=Derivative(input=lambda grad: grad * 0), inplace=True)


def _rounding(function: str) -> Any:
    """Return a formula that returns integers unchanged."""
    return lambda m, x: getattr(m, function)(x) if is_float(m) else x


_FLAT: Final[dict[str, Any]] = {"kinds": "if", "inplace": True}

floor: Final = Pointwise("floor(Tensor input) -> Tensor", "Rounded down.", _rounding("floor"),
                         derivative=Derivative(input=lambda grad: grad * 0), **_FLAT)
ceil: Final = Pointwise("ceil(Tensor input) -> Tensor", "Rounded up.", _rounding("ceil"),
                        derivative=Derivative(input=lambda grad: grad * 0), **_FLAT)
trunc: Final = Pointwise("trunc(Tensor input) -> Tensor", "Rounded towards zero.", _rounding("trunc"),
                         derivative=Derivative(input=lambda grad: grad * 0), aliases=("fix",), **_FLAT)
round: Final = Pointwise(
    "round(Tensor input) -> Tensor",
    "Rounded to the nearest integer, halves to even; with decimals, to so many digits behind (or before) the point.",
    _rounding("rint"),
    derivative=Derivative(input=lambda grad: grad * 0),
    keywords={"decimals": ("0", "return _arithmetic.rounded(input, decimals)")},
    **_FLAT,
)
round_decimals: Final = Pointwise(
    "round_decimals(Tensor input, Scalar factor, bool before) -> Tensor",
    "Rounded to a multiple of the factor, or of 1 / factor.",
    lambda m, x, factor, before: m.rint(x / factor) * factor if before else m.rint(x * factor) / factor,
    kinds="f", holds_extras=False, derivative=Derivative(input=lambda grad: grad * 0), method=False, function=False)
