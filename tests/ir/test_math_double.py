"""The IR's float64 functions against extended precision: worst errors in ULP, and special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import float64, int32
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.text import format_program
from tensocket_plugins.ir.verify import verify

INF, NAN = math.inf, math.nan
SMALLEST = 2.0**-1074
Wide = np.longdouble
needs_extended = pytest.mark.skipif(np.finfo(Wide).nmant < 63, reason="long double is no wider than double here")


def evaluate(name, *arrays):
    """``name`` of float64 arrays, decomposed and interpreted."""
    i, n = Var("i", int32), Var("n", int32)
    params = (*(Buffer(f"x{k}", float64) for k in range(len(arrays))), Buffer("out", float64, True), Scalar("n", int32))
    value = call(name, *(Load(f"x{k}", i, float64) for k in range(len(arrays))))
    kernel = Kernel(name, (loop(i, n, [Store("out", i, value)], LoopKind.PARALLEL),))
    program = decompose(Program(name, params, (kernel,)), Target("interpreter", wide_arithmetic=True))
    verify(program)
    assert f"{name}(" not in format_program(program).split(":", 1)[1]
    out = np.empty(len(arrays[0]))
    interpret(program, [*arrays, out], [len(out)])
    return out


def erf(x):
    """The series of positive terms 2 / sqrt(pi) exp(-x^2) sum (2 x^2)^k x / (2k + 1)!! up to 6.5, where erf is 1."""
    x = np.copysign(np.minimum(np.abs(x), Wide(6.5)), x)
    term = total = x
    for k in range(1, 240):
        term = term * 2 * x * x / (2 * k + 1)
        total = total + term
    return np.where(np.isnan(x), x, 2 / np.sqrt(Wide("3.14159265358979323846264338327950288")) * np.exp(-x * x) * total)


#: Function, reference, and the bound in ULP that its documentation states.
FUNCTIONS_OF_ONE = {
    "exp": (np.exp, 1.0), "expm1": (np.expm1, 2.0), "log": (np.log, 1.0), "log1p": (np.log1p, 1.0),
    "sin": (np.sin, 1.0), "cos": (np.cos, 1.0), "tanh": (np.tanh, 3.0), "erf": (erf, 2.0),
}


def worst_error(got, exact):
    """Largest error in ULP of the rounded exact value; infinite where infinities, NaN or signs of zero differ."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float64)
        special_values = ~np.isfinite(rounded) | ~np.isfinite(got)
        spacing = np.spacing(np.maximum(np.abs(np.where(special_values, 1.0, rounded)), 2.0**-1022)).astype(Wide)
        error = np.abs(got.astype(Wide) - exact) / spacing
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error[special_values] = np.where(same, 0.0, INF)[special_values]
    error[(got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))] = INF
    return float(error.max())


def grids(rng):
    # Random bits: all exponents, subnormals, infinities and NaN.
    yield rng.integers(0, 1 << 64, 30_000, np.uint64).view(np.float64)
    for limit in (1e-8, 1e-3, 1.0, 6.0, 40.0, 750.0, 1e6):
        yield rng.uniform(-limit, limit, 10_000)
    # Around the borders of the formulas' ranges, float by float.
    for center in (2.0**-53, 0.3466, 0.7071067811865476, 0.7853981633974483, 0.8, 1.0, math.sqrt(2), math.pi / 2, 5.95,
                   22.0, 709.782712893384, 745.1332191019412):
        near = (np.array(center).view(np.int64) + np.arange(-300, 300)).view(np.float64)
        yield np.concatenate((near, -near))


@needs_extended
@pytest.mark.parametrize("name", FUNCTIONS_OF_ONE)
def test_errors_are_within_the_stated_bound(name, rng):
    reference, bound = FUNCTIONS_OF_ONE[name]
    for x in grids(rng):
        with np.errstate(all="ignore"):
            exact = reference(x.astype(Wide))
        assert worst_error(evaluate(name, x), exact) < bound


@needs_extended
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_arguments_next_to_multiples_of_half_pi(name, rng):
    """Where the remainder is smallest: 6381956970095103 * 2^797 misses one by 2^-61 only."""
    hardest = np.array([6381956970095103 * 2.0**797, -6381956970095103 * 2.0**797, 1.7976931348623157e308])
    near = rng.integers(1, 1 << 30, 20_000) * (np.pi / 2)
    scattered = rng.uniform(1, 2, 2000) * 2.0**rng.integers(-1, 1023, 2000)
    for x in (hardest, near, near * 2.0**60, near * 2.0**900, scattered):
        assert worst_error(evaluate(name, x), FUNCTIONS_OF_ONE[name][0](x.astype(Wide))) < 1.0


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("exp", [0.0, -0.0, INF, -INF, NAN, 710.0, -746.0, -745.1, SMALLEST, 1e308, -1e308],
     [1.0, 1.0, INF, 0.0, NAN, INF, 0.0, SMALLEST, 1.0, INF, 0.0]),
    ("expm1", [0.0, -0.0, INF, -INF, NAN, 710.0, -746.0, SMALLEST, -SMALLEST, 1e308, -1e308],
     [0.0, -0.0, INF, -1.0, NAN, INF, -1.0, SMALLEST, -SMALLEST, INF, -1.0]),
    ("log", [0.0, -0.0, 1.0, INF, -INF, NAN, -1.0, -SMALLEST, SMALLEST],
     [-INF, -INF, 0.0, INF, NAN, NAN, NAN, NAN, -744.4400719213812]),
    ("log1p", [0.0, -0.0, -1.0, INF, -INF, NAN, -2.0, SMALLEST, -SMALLEST],
     [0.0, -0.0, -INF, INF, NAN, NAN, NAN, SMALLEST, -SMALLEST]),
    ("sin", [0.0, -0.0, INF, -INF, NAN, SMALLEST, -SMALLEST], [0.0, -0.0, NAN, NAN, NAN, SMALLEST, -SMALLEST]),
    ("cos", [0.0, -0.0, INF, -INF, NAN, SMALLEST], [1.0, 1.0, NAN, NAN, NAN, 1.0]),
    ("tanh", [0.0, -0.0, INF, -INF, NAN, SMALLEST, -SMALLEST, 20.0, -1e308],
     [0.0, -0.0, 1.0, -1.0, NAN, SMALLEST, -SMALLEST, 1.0, -1.0]),
    ("erf", [0.0, -0.0, INF, -INF, NAN, SMALLEST, -SMALLEST, 6.0, -1e308],
     [0.0, -0.0, 1.0, -1.0, NAN, SMALLEST, -SMALLEST, 1.0, -1.0]),
])
def test_special_values(name, x, expected):
    got = evaluate(name, np.array(x))
    wanted = np.array(expected)
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(wanted) & ~np.isnan(wanted))


def powers(rng):
    yield rng.integers(0, 1 << 64, (2, 20_000), np.uint64).view(np.float64)
    yield np.exp(rng.uniform(-700, 700, 20_000)), rng.uniform(-3, 3, 20_000)
    yield 1 + rng.uniform(-1e-3, 1e-3, 20_000), rng.uniform(-1e5, 1e5, 20_000)
    yield rng.uniform(0, 4, 20_000), rng.uniform(-600, 600, 20_000)
    yield rng.uniform(-4, 4, 20_000), rng.integers(-200, 200, 20_000).astype(float)


@needs_extended
def test_errors_of_powers_are_within_the_stated_bound(rng):
    for x, y in powers(rng):
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(Wide), y.astype(Wide))
        assert worst_error(evaluate("pow", x, y), exact) < 2.0


def test_special_values_of_powers_are_those_of_c():
    values = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -3.0, 1e308, -1e308, SMALLEST, -SMALLEST,
              2.0**53, 2.0**53 + 2, 1 + 2.0**-52, 1 - 2.0**-53]
    x, y = (v.ravel().copy() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = np.power(x, y)
    got = evaluate("pow", x, y)
    exact = ~np.isfinite(wanted) | (wanted == 0) | (np.abs(wanted) == 1)
    assert np.array_equal(got[exact], wanted[exact], equal_nan=True)
    signs = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[signs]), np.signbit(wanted[signs]))
    np.testing.assert_allclose(got[~exact], wanted[~exact], rtol=4e-16, atol=SMALLEST)


@needs_extended
def test_powers_of_two(rng):
    """The base is a constant: nothing but the power itself is computed."""
    i, n = Var("i", int32), Var("n", int32)
    x = np.concatenate([rng.uniform(-1100, 1100, 20_000), np.arange(-1080.0, 1030), [0.0, -0.0, INF, -INF, NAN, 1e300]])
    store = Store("out", i, call("pow", 2.0, Load("x", i, float64)))
    params = (Buffer("x", float64), Buffer("out", float64, True), Scalar("n", int32))
    program = decompose(Program("p", params, (Kernel("p", (loop(i, n, [store], LoopKind.PARALLEL),)),)),
                        Target("interpreter", wide_arithmetic=True))
    out = np.empty(len(x))
    interpret(program, [x, out], [len(x)])
    with np.errstate(all="ignore"):
        assert worst_error(out, np.exp2(x.astype(Wide))) < 1.0
    whole = (x == np.floor(x)) & (np.abs(x) < 1022)
    assert (out[whole] == np.ldexp(1.0, x[whole].astype(int))).all()
