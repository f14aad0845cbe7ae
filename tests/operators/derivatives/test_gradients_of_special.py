"""Derivatives of special functions, activations and other numeric functions against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import functions as F
from tensocket_operators.kinds.inplace import FORMS
from tensocket_plugins.contract.errors import AutogradError

Case = tuple[Any, ...]
Check = Callable[..., Any]
# Distinct values, away from zero, integers and each other, where nothing has a kink; U and V are probabilities.
X = np.array([[0.7, -1.3, 1.6], [-0.4, 2.3, -2.6]])
Y = np.array([[1.2, 0.45, -0.85], [2.4, -1.7, 0.55]])
P = np.abs(X) + 0.25
WIDE = X * 2.4  # on both sides of 3 and of -3
U = np.array([[0.2, 0.55, 0.9], [0.35, 0.7, 0.1]])
ROW, COLUMN = Y[0], Y[:, 1:2]
LARGE = P * 4 + 5  # where Bessel functions are computed by another formula
#: A constant of float64: derivatives in the first argument of incomplete gamma functions are not known.
SHAPES = torch.tensor(P.tolist(), dtype=torch.float64, device="ref")
EXPONENTS = np.array([2, -1, 3])

EVERYWHERE = ("deg2rad", "digamma", "erfc", "frac", "i0", "lgamma", "logsigmoid", "mantissa", "mish",
              "mish_curvature", "mish_slope", "rad2deg", "silu_slope", "sinc", "special_erfcx", "special_i0e",
              "special_i1", "special_i1e", "special_log_ndtr", "special_ndtr", "trigamma")
#: Bessel functions: positive arguments, small and large.
BESSEL = [f"special_bessel_{kind}" for kind in ("j0", "j1", "y0", "y1")] + [
    f"special_modified_bessel_{kind}" for kind in ("i0", "i1", "k0", "k1")] + [
    "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1", "special_spherical_bessel_j0"]
#: Arguments by position; every float64 array among them is differentiated.
RECORDS: dict[str, list[Case]] = {name: [(X,)] for name in EVERYWHERE} | {name: [(P,), (LARGE,)] for name in BESSEL} | {
    "digamma": [(X,), (P,), (LARGE,)], "lgamma": [(X,), (P,), (LARGE,)], "trigamma": [(P,), (LARGE,)],
    "erfinv": [(X / 3,)], "special_ndtri": [(U,)], "special_entr": [(P,)],
    "logit": [(U, None), (U, 0.25)],
    "fmax": [(X, Y), (X, COLUMN)], "fmin": [(X, Y), (X, ROW)],
    "special_xlog1py": [(X, P), (X, COLUMN + 1), (X, 1.5)],
    "xlogy": [(X, P), (P, ROW + 2), (X, 2.5)],
    "igamma": [(SHAPES, P)], "igammac": [(SHAPES, P)],
    "special_zeta": [(2.5, P)],
    "elu_slope": [(X, 1.3, 1.1, 0.8)], "scaled_elu": [(X, 1.3, 1.1, 0.8)],
    "softplus": [(X, 1.5, 20), (X, 1.0, 1.0)],
    "hardshrink": [(X, 0.5)], "shrunk": [(X, 0.5)], "outside": [(X, 0.5)],
    "hardsigmoid": [(WIDE,)], "hardsigmoid_slope": [(WIDE,)], "hardswish": [(WIDE,)], "hardswish_slope": [(WIDE,)],
    "inside": [(X, -1.0, 1.5)], "limited": [(X, -1.0, 1.5)], "threshold": [(X, 0.5, 2.0)],
    "leaking": [(X, Y), (X, ROW)],
    "replaced": [(X, 0.0, 1.0, -1.0)],
    "round_decimals": [(X, 10.0, False)],
    "scaled": [(X, EXPONENTS)],
}
RECORDS |= {form.name: RECORDS[name] for name, form in FORMS.items() if name in RECORDS}
#: Orthogonal polynomials, whose derivatives are refused; below.
POLYNOMIALS = [f"special_{kind}" for kind in (
    *(f"{shifted}chebyshev_polynomial_{letter}" for shifted in ("", "shifted_") for letter in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")]
ELSEWHERE_RECORDS = set(POLYNOMIALS)

#: Function and its arguments.
COMPOSED: dict[str, list[tuple[Callable[..., Any], *Case]]] = {
    "celu": [(lambda x: F.celu(x, 1.3), X)],
    "elu": [(lambda x: F.elu(x, 1.3), X)],
    "glu": [(lambda x: F.glu(x, 0), X)],
    "hardtanh": [(lambda x: F.hardtanh(x, -1.0, 1.5), X)],
    "prelu": [(F.prelu, X, ROW), (F.prelu, X, ROW[:1])],
    "relu6": [(F.relu6, X * 3)],
    "rrelu": [(F.rrelu, X), (lambda x: seeded(lambda: F.rrelu(x, 0.1, 0.4, True)), X)],
    "selu": [(F.selu, X)],
    "softmin": [(lambda x: F.softmin(x, 1), X)],
    "softshrink": [(F.softshrink, X)],
    "softsign": [(F.softsign, X)],
    "addr": [(lambda x, a, b: F.addr(x, a, b, beta=0.5, alpha=2), X, X[:, 0], ROW)],
    "addr_": [(lambda x, a, b: (x * 1).addr_(a, b, beta=0.5, alpha=2), X, X[:, 0], ROW)],
    "fill": [(lambda x, v: F.fill(x, v.sum()), X, ROW)],
    "float_power": [(F.float_power, P, Y), (lambda x: F.float_power(x, 2), X)],
    "float_power_": [(lambda x, y: (x * 1).float_power_(y), P, Y)],
    "frexp": [(lambda x: F.frexp(x).mantissa, X)],
    "ldexp": [(F.ldexp, X, EXPONENTS)],
    "ldexp_": [(lambda x, n: (x * 1).ldexp_(n), X, EXPONENTS)],
    "nan_to_num": [(F.nan_to_num, X)],
    "nan_to_num_": [(lambda x: (x * 1).nan_to_num_(0.0), X)],
    "rsub": [(lambda x, y: F.rsub(x, y, alpha=2), X, Y)],
    "mvlgamma": [(lambda x: F.mvlgamma(x, 2), P + 1)],
    "mvlgamma_": [(lambda x: (x * 1).mvlgamma_(2), P + 1)],
    "polygamma": [(lambda x, n=n: F.polygamma(n, x), P) for n in (0, 1, 2)],
    "polygamma_": [(lambda x: (x * 1).polygamma_(2), P)],
    "polygamma_self": [(lambda x: x.polygamma(1), P)],
}
#: A step, which has no gradient.
NO_GRADIENT = {"heaviside", "heaviside_"}
FLAT = [(name, k) for name, cases in RECORDS.items() for k in range(len(cases))]


def seeded(function: Callable[[], Any]) -> Any:
    torch.manual_seed(5)
    return function()


@pytest.mark.parametrize(("name", "k"), FLAT)
def test_derivatives_of_records(check: Check, record_function: Check, name: str, k: int) -> None:
    check(record_function(name), RECORDS[name][k])


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, k in FLAT if not name.endswith("_")])
def test_second_derivatives(check_twice: Check, record_function: Check, name: str, k: int) -> None:
    check_twice(record_function(name), RECORDS[name][k])


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, cases in COMPOSED.items() for k in range(len(cases))])
def test_derivatives_of_composites(check: Check, name: str, k: int) -> None:
    function, *args = COMPOSED[name][k]
    check(function, args)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_refuse_a_gradient(name: str) -> None:
    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    result = call(OPERATORS[name], x, 3)
    with pytest.raises(AutogradError, match="derivatives of orthogonal polynomials are not defined"):
        result.sum().backward()
