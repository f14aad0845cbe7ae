"""Special functions against SciPy in float64: values, special values, gradients, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import tensocket_operators as torch
from tensocket_operators import functions as f
from tensocket_operators.special import series, tables
from tensocket_plugins.contract.dtypes import float64
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DtypeError,
    UndefinedDtype,
)
from tensocket_plugins.kit.host_kernels_math import ArrayMath

RNG = np.random.default_rng(5)
N = 60


def uniform(low, high):
    return RNG.uniform(low, high, N)


def spread(low, high):
    """Positive numbers whose logarithms are uniform."""
    return 10 ** RNG.uniform(low, high, N)


#: Function, reference, arguments, and the error allowed relative to max(1, |value|) (or to the value) in units of eps.
UNARY = {
    "erfc": (f.erfc, special.erfc, uniform(-5, 5), 8), "erfinv": (f.erfinv, special.erfinv, uniform(-1, 1), 8),
    "erfcx": (f.special_erfcx, special.erfcx, uniform(-4, 40), 16),
    "ndtr": (f.special_ndtr, special.ndtr, uniform(-6, 6), 8),
    "ndtri": (f.special_ndtri, special.ndtri, spread(-30, -0.01), 8),
    "log_ndtr": (f.special_log_ndtr, special.log_ndtr, uniform(-60, 5), 16),
    "lgamma": (f.lgamma, special.gammaln, np.concatenate([uniform(-6, 9), spread(-9, 9)]), 32),
    "digamma": (f.digamma, special.digamma, np.concatenate([uniform(0.02, 9), spread(-4, 9)]), 8),
    "trigamma": (lambda x: f.polygamma(1, x), lambda x: special.polygamma(1, x), uniform(0.05, 9), 16),
    "polygamma": (lambda x: f.polygamma(3, x), lambda x: special.polygamma(3, x), uniform(0.3, 9), 32),
    "i0": (f.i0, special.i0, uniform(-20, 20), 8), "i0e": (f.special_i0e, special.i0e, uniform(-50, 50), 8),
    "i1": (f.special_i1, special.i1, uniform(-20, 20), 16), "i1e": (f.special_i1e, special.i1e, uniform(-50, 50), 8),
    "k0": (f.special_modified_bessel_k0, special.k0, spread(-4, 1), 16),
    "k1": (f.special_modified_bessel_k1, special.k1, spread(-4, 1), 16),
    "k0e": (f.special_scaled_modified_bessel_k0, special.k0e, spread(-4, 4), 16),
    "k1e": (f.special_scaled_modified_bessel_k1, special.k1e, spread(-4, 4), 16),
    "j0": (f.special_bessel_j0, special.j0, uniform(-40, 40), 8),
    "j1": (f.special_bessel_j1, special.j1, uniform(-40, 40), 8),
    "y0": (f.special_bessel_y0, special.y0, spread(-3, 1.6), 16),
    "y1": (f.special_bessel_y1, special.y1, spread(-3, 1.6), 32),
    "spherical": (f.special_spherical_bessel_j0, lambda x: special.spherical_jn(0, x), uniform(-9, 9), 8),
    "airy": (f.special_airy_ai, lambda x: special.airy(x)[0], uniform(-20, 9), 64),
}
A = np.concatenate([spread(-1, 2), uniform(150, 3000)])
BINARY = {
    "igamma": (f.igamma, special.gammainc, A, A * RNG.uniform(0.5, 1.6, 2 * N), 64),
    "igammac": (f.igammac, special.gammaincc, A, A * RNG.uniform(0.5, 1.6, 2 * N), 64),
    "zeta": (f.special_zeta, special.zeta, uniform(1.05, 12), spread(-1, 2), 32),
    "hermite": (f.special_hermite_polynomial_h, lambda x, n: special.eval_hermite(n.astype(int), x),
        uniform(-3, 3), np.arange(N) % 9, 256),
    "hermite_e": (f.special_hermite_polynomial_he, lambda x, n: special.eval_hermitenorm(n.astype(int), x),
        uniform(-3, 3), np.arange(N) % 9, 256),
    "laguerre": (f.special_laguerre_polynomial_l, lambda x, n: special.eval_laguerre(n, x),
        uniform(-3, 3), np.arange(N) % 9, 256),
    "legendre": (f.special_legendre_polynomial_p, lambda x, n: special.eval_legendre(n, x),
        uniform(-2, 2), np.arange(N) % 9, 256),
    "t": (f.special_chebyshev_polynomial_t, lambda x, n: special.eval_chebyt(n, x),
        uniform(-2, 2), np.arange(N) % 9, 256),
    "u": (f.special_chebyshev_polynomial_u, lambda x, n: special.eval_chebyu(n, x),
        uniform(-2, 2), np.arange(N) % 9, 256),
    "shifted t": (f.special_shifted_chebyshev_polynomial_t, lambda x, n: special.eval_sh_chebyt(n, x),
        uniform(0, 1), np.arange(N) % 9, 256),
}


def check(function, reference, arguments, units, dtype):
    given = [np.asarray(x, dtype) for x in arguments]
    expected = reference(*[x.astype(np.float64) for x in given])
    got = function(*[torch.tensor(x) for x in given])
    assert got.dtype is getattr(torch, dtype)
    off = np.abs(np.array(got.tolist()) - expected) / np.maximum(1, np.abs(expected)) / np.finfo(dtype).eps
    assert off.max() <= units


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name, dtype):
    function, reference, x, units = UNARY[name]
    check(function, reference, [x], units, dtype)


@pytest.mark.parametrize(("name", "low", "high", "units"), [
    ("erfc", -6, 9, 5), ("erfc", -1e-2, 1e-2, 4), ("erfinv", -1, 1, 4), ("erfinv", 0.9999, 1, 4),
    ("erfinv", -1e-4, 1e-4, 4), ("special_erfcx", 0, 100, 4), ("special_ndtr", -13, 6, 5)])
def test_single_precision_is_within_units_of_the_value_itself(name, low, high, units):
    x = np.linspace(low, high, 20001).astype(np.float32)
    exact = getattr(special, name.removeprefix("special_"))(x.astype(np.float64))
    got = np.array(getattr(f, name)(torch.tensor(x)).tolist())
    end = np.isinf(exact)
    assert np.array_equal(got[end], exact[end])
    got, exact = got[~end], exact[~end]
    assert (np.abs(got - exact) / np.spacing(np.maximum(np.abs(exact), 1e-37).astype(np.float32))).max() <= units


def test_series_become_powers_only_without_cancellation():
    found = series._powers((1.0, 0.5, 0.25, 0.125))  # 1 + t / 2 + (2 t^2 - 1) / 4 + (4 t^3 - 3 t) / 8
    assert found == (0.75, 0.125, 0.5, 0.5)
    assert series._powers((1.0,) * 20) is None
    t = np.linspace(-1, 1, 101)
    m = ArrayMath(float64)
    for table in (tables.ERFCX, tables.LGAMMA, tables.ERFINV):
        expected = np.polynomial.chebyshev.chebval(t, table)
        np.testing.assert_allclose(series.chebyshev(m, table, t, -1.0, 1.0), expected, rtol=4e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name, dtype):
    function, reference, x, y, units = BINARY[name]
    check(function, reference, [x, y], units, dtype)


inf, nan = math.inf, math.nan


@pytest.mark.parametrize(("function", "given", "expected"), [
    (f.erfc, [inf, -inf, nan], [0, 2, nan]), (f.erfinv, [1.0, -1.0, 1.5, 0.0], [inf, -inf, nan, 0]),
    (f.special_ndtri, [0.0, 1.0, 0.5, -1.0], [-inf, inf, 0, nan]), (f.special_erfcx, [inf, -inf], [0, inf]),
    (f.lgamma, [0.0, -2.0, inf, -inf, 1.0, 2.0, nan], [inf, inf, inf, inf, 0, 0, nan]),
    (f.digamma, [0.0, -0.0, -1.0, inf, nan], [-inf, inf, nan, inf, nan]), (f.i0, [inf, -inf, 0.0], [inf, inf, 1]),
    (f.special_i1, [inf, -inf, 0.0], [inf, -inf, 0]), (f.special_modified_bessel_k0, [0.0, -1.0, inf], [inf, nan, 0]),
    (f.special_bessel_y0, [0.0, -1.0], [-inf, nan]), (f.special_bessel_j1, [0.0, inf], [0, 0]),
    (lambda x: f.igamma(x, x), [0.0, -1.0, inf], [nan, nan, nan]),
    (lambda x: f.igammac(x * 0 + 1e-30, x) >= 0, [0.5, 1.0, 2.0], [True, True, True]),
    (lambda x: f.igamma(x, torch.ones_like(x)), [0.0, inf], [1, 0]),
    (lambda x: f.igammac(x, torch.zeros_like(x)), [2.0], [1]),
    (lambda x: f.special_zeta(x, 2.0), [1.0, 0.5], [inf, nan]),
    (lambda x: f.special_zeta(3.0, x), [-2.0, 0.0], [inf, inf]),
    (lambda x: f.special_zeta(2.5, x), [-1.5], [nan]),
    (lambda x: f.special_chebyshev_polynomial_t(x, -1), [2.0], [0]),
    (lambda x: f.special_hermite_polynomial_h(x, 600), [2.0], [nan]),
    # Step by step, these would take minutes.
    (lambda x: f.special_chebyshev_polynomial_t(x, 1e18), [1.0, -1.0], [1, 1]),
    (lambda x: f.special_chebyshev_polynomial_u(x, 100001), [1.0, -1.0], [100002, -100002]),
    (lambda x: f.special_chebyshev_polynomial_v(x, 100001), [1.0, -1.0], [1, -200003]),
    (lambda x: f.special_chebyshev_polynomial_w(x, 100001), [1.0, -1.0], [200003, -1]),
    (lambda x: f.special_shifted_chebyshev_polynomial_t(x, 100001), [1.0, 0.0], [1, -1]),
    (lambda x: f.special_legendre_polynomial_p(x.expand(4000), inf)[:1], [0.5], [0]),
    (lambda x: f.special_laguerre_polynomial_l(x, nan), [0.5], [nan]),
])
def test_special_values(function, given, expected):
    got = function(torch.tensor(given, dtype=torch.float64))
    assert np.array_equal(np.array(got.tolist()), np.asarray(expected, np.float64), equal_nan=True)


@pytest.mark.parametrize("degree", [63, 64, 65, 66, 500, 5000])
def test_chebyshev_polynomials_of_high_degree(degree):
    x = np.concatenate([uniform(-1, 1), [-0.999999, 0.999999, 0.0]])
    angle, n = np.arccos(x), degree
    expected = {"t": np.cos(n * angle), "u": np.sin((n + 1) * angle) / np.sin(angle),
                "v": np.cos((n + 0.5) * angle) / np.cos(angle / 2), "w": np.sin((n + 0.5) * angle) / np.sin(angle / 2)}
    for kind, values in expected.items():
        got = getattr(f, f"special_chebyshev_polynomial_{kind}")(torch.tensor(x), degree)
        assert np.allclose(np.array(got.tolist()), values, rtol=1e-7, atol=1e-8 * np.abs(values).max())
        moved = getattr(f, f"special_shifted_chebyshev_polynomial_{kind}")(torch.tensor((x + 1) / 2), degree)
        assert np.allclose(np.array(moved.tolist()), values, rtol=1e-6, atol=1e-7 * np.abs(values).max())


#: Numbers at and beside zeros of log|gamma|, with its values to 40 digits, rounded.
NEAR_ZEROS = [
    (-2.4570247382208006, 5.619192358950097e-17), (-2.4570247382208, 7.292550612674704e-16),
    (-2.457017367146586, 1.1171889461693006e-05), (-2.7476826467274127, 1.733509244024501e-16),
    (-2.7476826467274122, -6.767913369021244e-16), (-2.7476744036794725, -1.577942975202281e-05),
    (-3.14358088834998, 1.6978655906121085e-15), (-3.1435808883499794, 5.153716599585995e-15),
    (-3.143571457607315, 7.339124916656077e-05), (-3.955294284858598, -4.14382750757705e-16),
    (-3.9552942848585975, -9.618158645865089e-15), (-3.9552824189757434, -0.000245885709160975),
    (-4.991544640560048, 1.7683619350849613e-14), (-4.991544640560047, -8.582094700358093e-14),
    (-4.991529665926127, -0.0017435139082401106), (-5.008218168322593, 1.1498648106279463e-13),
    (-5.008218168322592, 2.2455411119904714e-13), (-5.008203143668088, 0.001855147794659924),
    (-9.000002755714823, 3.444263328391509e-11), (-9.00000275571482, 6.790550031918699e-10),
    (-9.000002755705824, 3.2656460395720458e-06), (-14.999999999998852, -0.4058590401830279),
    (-14.99999999999885, -0.4074058309013217), (-14.999999999983853, -3.0499897235308366),
]


@pytest.mark.parametrize("count", [1, 500])
def test_lgamma_keeps_its_digits_near_its_zeros(count):
    given, wanted = np.array(NEAR_ZEROS * count).T
    got = np.array(f.lgamma(torch.tensor(given)).tolist())
    assert np.all(np.abs(got - wanted) <= 24 * np.spacing(np.abs(wanted)))


def test_lgamma_of_single_precision_keeps_its_digits_near_its_zeros():
    given = np.array([x for x, _ in NEAR_ZEROS if x > -8], np.float32)
    wanted = special.loggamma(given.astype(np.complex128)).real  # whose error near zeros is far below float32's
    got = np.array(f.lgamma(torch.tensor(given)).tolist())
    assert np.all(np.abs(got - wanted) <= 24 * np.spacing(np.abs(wanted).astype(np.float32)) + 1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["digamma", "lgamma", "i0", "erfinv"])
def test_rows_of_one_repeated_number(name, dtype):
    """Compiling took minutes where the formula was the same all along the innermost loop."""
    function, reference = UNARY[name][:2]
    given = np.linspace(0.05, 0.95, 61)[:, None]
    got = function(torch.tensor(given, dtype=dtype).expand(61, 67)).tolist()
    expected = np.broadcast_to(reference(given), (61, 67))
    assert np.allclose(got, expected, rtol=1e-13 if dtype is torch.float64 else 2e-5, atol=1e-5)


def test_zeta_of_negative_numbers_and_whole_orders():
    x = np.array([-0.5, -3.25, 1.0])
    expected = [sum((k + v) ** -4.0 for k in range(60000)) for v in x]
    assert np.allclose(f.special_zeta(4.0, torch.tensor(x)).tolist(), expected, rtol=1e-10)


@pytest.mark.parametrize("function", [
    f.erfc, f.erfinv, f.special_erfcx, f.special_ndtr, f.special_log_ndtr, f.lgamma, f.digamma, f.i0, f.special_i0e,
    f.special_i1, f.special_i1e, f.special_modified_bessel_k0, f.special_modified_bessel_k1, f.special_bessel_j0,
    f.special_bessel_j1, f.special_bessel_y0, f.special_bessel_y1, f.special_spherical_bessel_j0, f.special_ndtri,
    f.special_scaled_modified_bessel_k0, f.special_scaled_modified_bessel_k1, lambda x: f.polygamma(2, x),
    lambda x: f.mvlgamma(x + 3, 3), lambda x: f.igamma(2 + 0 * x.detach(), x), lambda x: f.special_zeta(3.0, x)])
def test_slopes(function):
    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    function(x).sum().backward()
    h = 1e-5
    with torch.no_grad():
        slope = (function(x + h) - function(x - h)) / (2 * h)
    assert np.allclose(x.grad.tolist(), slope.tolist(), rtol=1e-6)


def test_forms_of_the_gamma_functions():
    x = torch.tensor([3.5, 6.0], dtype=torch.float64)
    assert np.allclose(x.mvlgamma(2).tolist(), special.multigammaln(3.5, 2) + np.array([0, special.multigammaln(6, 2)
                       - special.multigammaln(3.5, 2)]))
    assert np.allclose(x.clone().mvlgamma_(1).tolist(), special.gammaln([3.5, 6.0]))
    assert np.allclose(x.polygamma(2).tolist(), special.polygamma(2, [3.5, 6.0]))
    assert np.allclose(x.clone().polygamma_(0).tolist(), special.digamma([3.5, 6.0]))
    assert f.mvlgamma(torch.tensor([3]), 2).dtype is torch.float32


one = torch.ones(1, device="ref")


@pytest.mark.parametrize(("call", "kind", "rule"), [
    (lambda: f.polygamma(-1, one), ArgumentError, "the order is not negative"),
    (lambda: f.polygamma(2.5, one), ArgumentTypeError, "the order is an integer"),
    (lambda: f.polygamma(True, one), ArgumentTypeError, "the order is an integer"),
    (lambda: one.long().polygamma_(1), DtypeError, "an in-place result keeps the tensor's dtype category"),
    (lambda: one.long().mvlgamma_(1), DtypeError, "an in-place result keeps the tensor's dtype category"),
    (lambda: f.mvlgamma(one, 0), ArgumentError, "the dimension is at least 1"),
    (lambda: f.mvlgamma(one > 0, 1), UndefinedDtype, "mvlgamma is defined for real numbers"),
    (lambda: f.special_legendre_polynomial_p(torch.ones(1, requires_grad=True), 2).backward(), AutogradError,
     "the derivatives of orthogonal polynomials are not defined"),
])
def test_what_is_refused(call, kind, rule):
    with pytest.raises(kind, match=rule):
        call()


def test_polygamma_of_large_negative_numbers():
    """Their terms were added up one by one, and no more than 100,000 of them."""
    places = np.array([-0.5, -1.25, -9.5, -10.5, -11.75, -40.25, -1e5 - 0.5, -1e7 - 0.25, -1e12 - 0.5])
    for order in (2, 3):
        got = np.array(f.polygamma(order, torch.tensor(np.tile(places, 400))).tolist())[:len(places)]
        part = places - np.floor(places)
        # All terms around the number, less those beyond its size: Hurwitz' zeta function on both sides.
        sides = special.zeta(order + 1, part) + (-1) ** (order + 1) * (
            special.zeta(order + 1, 1 - part) - special.zeta(order + 1, 1 - places))
        expected = (-1) ** (order + 1) * math.factorial(order) * sides
        assert np.allclose(got, expected, rtol=1e-12)
    assert f.special_zeta(torch.tensor(3.0, dtype=torch.float64), -1e-20).item() == pytest.approx(-1e60)
