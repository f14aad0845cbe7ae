"""pow in float32 against NumPy's in float64, and the special cases that C lists."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import float32, int32
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.ir.target import Target

INF, NAN = math.inf, math.nan


def power(x, y):
    i, n = Var("i", int32), Var("n", int32)
    params = (Buffer("x", float32), Buffer("y", float32), Buffer("out", float32, True), Scalar("n", int32))
    store = Store("out", i, call("pow", Load("x", i, float32), Load("y", i, float32)))
    program = decompose(Program("pow", params, (Kernel("pow", (loop(i, n, [store], LoopKind.PARALLEL),)),)),
                        Target("interpreter"))
    x, y = (np.ascontiguousarray(v, np.float32) for v in np.broadcast_arrays(x, y))
    out = np.empty(x.shape, np.float32)
    interpret(program, [x, y, out], [x.size])
    return out


def assert_close(x, y, bound):
    x, y = (np.ascontiguousarray(v, np.float32) for v in np.broadcast_arrays(x, y))
    got = power(x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        rounded = exact.astype(np.float32)
        spacing = np.spacing(np.maximum(np.abs(rounded), np.float32(2.0**-126))).astype(np.float64)
        error = np.abs(got - exact) / spacing
    ordinary = np.isfinite(rounded) & np.isfinite(got)
    assert np.array_equal(got[~ordinary], rounded[~ordinary], equal_nan=True)
    assert error[ordinary].max(initial=0.0) < bound
    zero = rounded == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))


def test_random_bits(rng):
    x, y = (rng.integers(0, 1 << 32, 300_000, np.uint32).view(np.float32) for _ in range(2))
    assert_close(x, y, 2.0)


def test_results_over_the_whole_range(rng):
    """Exponents chosen so that results spread over all floats, subnormal ones and overflow included."""
    for low, high in ((1e-44, 1e-37), (1e-30, 1e30), (0.5, 2.0), (0.999, 1.001)):
        x = np.exp(rng.uniform(math.log(low), math.log(high), 200_000)).astype(np.float32)
        x[x == 1] = 1.5
        y = (rng.uniform(-110, 90, x.size) / np.log(x.astype(np.float64))).astype(np.float32)
        assert_close(x, y, 2.0)


def test_integer_exponents_of_either_sign(rng):
    x = (rng.standard_normal(100_000) * 3).astype(np.float32)
    assert_close(x, rng.integers(-40, 40, x.size).astype(np.float32), 2.0)


@pytest.mark.parametrize(("x", "y", "expected"), [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF), (-0.0, -0.5, INF), (-0.0, -INF, INF),
    (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0),
    (1.0, NAN, 1.0), (1.0, INF, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (INF, 0.0, 1.0), (0.0, 0.0, 1.0),
    (-2.0, 0.5, NAN), (-1e30, 1e-3, NAN), (0.5, -INF, INF), (-0.5, -INF, INF), (2.0, -INF, 0.0), (-2.0, -INF, 0.0),
    (0.5, INF, 0.0), (2.0, INF, INF), (-2.0, INF, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, 3.0, -INF),
    (-INF, 2.0, INF), (-INF, 0.5, INF), (INF, -0.5, 0.0), (INF, 0.5, INF), (NAN, 1.0, NAN), (2.0, NAN, NAN),
    (-1.0, 16777217.0 * 2, 1.0), (-1.0, 16777215.0, -1.0), (-2.0, 3.0, -8.0), (-2.0, -1.0, -0.5), (2.0, 128.0, INF),
    (2.0, 127.0, 2.0**127), (2.0, -149.0, 2.0**-149), (2.0, -151.0, 0.0), (-2.0, -151.0, -0.0), (3.0, 1e38, INF),
    (0.99999994, 3.4e38, 0.0), (1.0000001, -3.4e38, 0.0), (2.0**-149, 1.0, 2.0**-149), (2.0**-149, -1.0, INF),
])
def test_special_cases(x, y, expected):
    got = float(power([x], [y])[0])
    assert got == expected or (math.isnan(got) and math.isnan(expected))
    assert math.isnan(expected) or math.copysign(1, got) == math.copysign(1, expected)


def test_all_pairs_of_special_values_agree_with_numpy():
    values = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e38, 2.0**-149, 2.0**24 + 2, INF, NAN], np.float32)
    values = np.concatenate((values, -values))
    pairs = np.array(list(itertools.product(values, values)), np.float32)
    assert_close(pairs[:, 0].copy(), pairs[:, 1].copy(), 2.0)
