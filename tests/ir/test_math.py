"""The IR's float32 functions against NumPy's and SciPy's in float64: worst errors in ULP, and special values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from tensocket_plugins.contract.dtypes import float32, int32
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.functions import FUNCTIONS
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.math import ARITHMETIC
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.verify import verify

INF, NAN = math.inf, math.nan
#: Function, reference, and the bound in ULP that its documentation states.
FUNCTIONS_OF_ONE = {
    "exp": (np.exp, 1.0), "expm1": (np.expm1, 2.0), "log": (np.log, 1.0), "log1p": (np.log1p, 1.0),
    "sin": (np.sin, 3.0), "cos": (np.cos, 3.0), "tanh": (np.tanh, 2.0), "erf": (special.erf, 2.0),
}
SMALLEST = 2.0**-149


def evaluate(name, *arrays):
    """``name`` of float32 arrays, decomposed and interpreted."""
    i, n = Var("i", int32), Var("n", int32)
    params = (*(Buffer(f"x{k}", float32) for k in range(len(arrays))), Buffer("out", float32, True), Scalar("n", int32))
    value = call(name, *(Load(f"x{k}", i, float32) for k in range(len(arrays))))
    program = decompose(Program(name, params, (Kernel(name, (loop(i, n, [Store("out", i, value)],
                                                                  LoopKind.PARALLEL),)),)), Target("interpreter"))
    verify(program)
    out = np.empty(len(arrays[0]), np.float32)
    interpret(program, [*arrays, out], [len(out)])
    return out


def worst_error(got, exact):
    """Largest error in ULP of the rounded exact value; infinite where infinities, NaN or signs of zero differ."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        spacing = np.spacing(np.maximum(np.abs(rounded), np.float32(2.0**-126))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / spacing
    special_values = ~np.isfinite(rounded) | ~np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error[special_values] = np.where(same, 0.0, INF)[special_values]
    error[(got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))] = INF
    return error.max()


def patterns(rng, count):
    """Floats of random bits: all exponents, subnormals, infinities and NaN."""
    return rng.integers(0, 1 << 32, count, np.uint32).view(np.float32)


def grids(rng):
    yield patterns(rng, 1_000_000)
    for limit in (1e-3, 1.0, 5.0, 30.0, 110.0, 1e4):
        yield np.linspace(-limit, limit, 200_001).astype(np.float32)
    # Around the borders of the formulas' ranges, float by float.
    for center in (0.3466, 0.625, 0.7071, 0.7854, 0.92, 1.0, 1.4142, 1.5708, 3.1416, 4.0, 10.0, 87.0, 87.34, 88.73,
                   103.97, 2.0**17):
        near = np.float32(center).view(np.uint32) + np.arange(-3000, 3000, dtype=np.int64)
        yield np.concatenate((near.astype(np.uint32).view(np.float32), -near.astype(np.uint32).view(np.float32)))
    yield np.arange(0, 1 << 32, 1 << 16, dtype=np.int64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS_OF_ONE)
def test_errors_are_within_the_stated_bound(name, rng):
    reference, bound = FUNCTIONS_OF_ONE[name]
    for x in grids(rng):
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.float64))
        assert worst_error(evaluate(name, x), exact) < bound


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_arguments_next_to_multiples_of_half_pi(name):
    """Where the remainder is smallest: 16367173 * 2^72 misses one by 2^-30 only."""
    hardest = np.float32([16367173 * 2.0**72, -16367173 * 2.0**72, 3.4028235e38])
    near = (np.arange(1, 200_000) * (np.pi / 2)).astype(np.float32)
    beside = np.concatenate([(near[:90_000].view(np.int32) + step).view(np.float32) for step in range(-3, 4)])
    reference = FUNCTIONS_OF_ONE[name][0]
    for x in (hardest, beside, -beside, near, near * np.float32(2.0**60)):
        assert worst_error(evaluate(name, x), reference(x.astype(np.float64))) < 3.0


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("exp", [0.0, -0.0, INF, -INF, NAN, 89.0, -104.0, -103.9, SMALLEST, 1e38, -1e38],
     [1.0, 1.0, INF, 0.0, NAN, INF, 0.0, SMALLEST, 1.0, INF, 0.0]),
    ("expm1", [0.0, -0.0, INF, -INF, NAN, 89.0, -104.0, SMALLEST, -SMALLEST, 1e38, -1e38],
     [0.0, -0.0, INF, -1.0, NAN, INF, -1.0, SMALLEST, -SMALLEST, INF, -1.0]),
    ("log", [0.0, -0.0, 1.0, INF, -INF, NAN, -1.0, -SMALLEST], [-INF, -INF, 0.0, INF, NAN, NAN, NAN, NAN]),
    ("log1p", [0.0, -0.0, -1.0, INF, -INF, NAN, -2.0, SMALLEST, -SMALLEST],
     [0.0, -0.0, -INF, INF, NAN, NAN, NAN, SMALLEST, -SMALLEST]),
    ("sin", [0.0, -0.0, INF, -INF, NAN, SMALLEST, -SMALLEST], [0.0, -0.0, NAN, NAN, NAN, SMALLEST, -SMALLEST]),
    ("cos", [0.0, -0.0, INF, -INF, NAN, SMALLEST], [1.0, 1.0, NAN, NAN, NAN, 1.0]),
    ("tanh", [0.0, -0.0, INF, -INF, NAN, SMALLEST, -SMALLEST, 20.0, -1e38],
     [0.0, -0.0, 1.0, -1.0, NAN, SMALLEST, -SMALLEST, 1.0, -1.0]),
    ("erf", [0.0, -0.0, INF, -INF, NAN, SMALLEST, -SMALLEST, 4.5, -1e38],
     [0.0, -0.0, 1.0, -1.0, NAN, SMALLEST, -SMALLEST, 1.0, -1.0]),
])
def test_special_values(name, x, expected):
    got = evaluate(name, np.array(x, np.float32))
    wanted = np.array(expected, np.float32)
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(wanted) & ~np.isnan(wanted))


def test_log_of_powers_of_two_and_subnormals():
    exponents = np.arange(-149, 128)
    x = np.ldexp(1.0, exponents).astype(np.float32)
    assert worst_error(evaluate("log", x), exponents * math.log(2)) < 1.0


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "erf"])
def test_monotonic_to_two_ulp(name):
    """Neighbouring arguments never give results that fall by more than rounding explains."""
    x = np.linspace(1e-3, 8.0, 500_001).astype(np.float32)
    y = evaluate(name, x).astype(np.float64)
    assert (np.diff(y) >= -2 * np.spacing(y[1:].astype(np.float32))).all()


def test_every_decomposable_function_has_a_decomposition():
    names = {row.name for row in FUNCTIONS.values() if row.decomposable}
    assert all(names == set(functions) for functions in ARITHMETIC.values())
