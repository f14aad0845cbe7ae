"""Quotients and remainders of large arrays, which are vectors, against NumPy and Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from tensocket_plugins.ir.nodes import Buffer, Kernel, Let, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy

I, N, S = (Var(name, int32) for name in ("i", "n", "s"))
INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)


def nest(function, dtype, step=None):
    """``out = function(x, y)`` over neighbours, or every ``step``-th element of y."""
    a, b = Load("x", I, dtype), Load("y", I if step is None else I * step, dtype)
    params = (Buffer("out", dtype, True), Buffer("x", dtype), Buffer("y", dtype), Scalar("n", int32),
              *([] if step is None else [Scalar("s", int32)]))
    value = Var("value", dtype)
    body = (Let(value, call(function, a, b)), Store("out", I, value))
    return Program(function, params, (Kernel(function, (loop(I, N, body, LoopKind.PARALLEL),)),))


def compute(device, function, dtype, x, y):
    program = schedule(nest(function, dtype), device.target, Strategy.SERIAL)
    out = np.zeros_like(x)
    device.compile_ir(program)([out, x, y], [x.size], device.default_stream)
    return out


def extremes(dtype):
    """All pairs of numbers around powers of two and the ends of a dtype's range, divisors not 0."""
    low, high = (int(end(np.iinfo(dtype.numpy))) for end in (lambda i: i.min, lambda i: i.max))
    near = {sign * (1 << bit) + k for bit in range(8 * dtype.itemsize) for k in (-2, -1, 0, 1, 2) for sign in (-1, 1)}
    numbers = sorted(n for n in near | {low, low + 1, high - 1, high, 3, 7, 10**9, 10**18 + 9} if low <= n <= high)
    pairs = [(x, y) for x in numbers for y in numbers if y]
    return [np.array(column, dtype.numpy) for column in zip(*pairs, strict=True)]


def exact(function, dtype, x, y):
    """By Python's integers, wrapped around."""
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    quotients = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    wanted = quotients if function == "idiv" else [
        a - b * q for (a, b), q in zip(pairs, quotients, strict=True)]
    bits = 8 * dtype.itemsize
    return np.array([w % (1 << bits) for w in wanted], f"uint{bits}").view(dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("function", ["idiv", "imod"])
def test_integers_at_the_ends_of_their_range(device, function, dtype):
    x, y = extremes(dtype)
    np.testing.assert_array_equal(compute(device, function, dtype, x, y), exact(function, dtype, x, y))


@pytest.mark.parametrize("function", ["idiv", "imod"])
def test_long_integers_next_to_multiples(device, rng, function):
    y = (rng.integers(-2**62, 2**62, 20000) >> rng.integers(0, 62, 20000)) | 1
    quotient = rng.integers(-2**62, 2**62, 20000) // np.abs(y)
    x = quotient * y + rng.integers(-1, 2, 20000)
    np.testing.assert_array_equal(compute(device, function, int64, x, y), exact(function, int64, x, y))


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_remainders_of_floats(device, rng, dtype):
    """Exactly those of C's function, with the sign of the dividend: also of zeros, infinities and tiny numbers."""
    info = np.finfo(dtype.numpy)
    odd = [0.0, 1.0, 5.5, 3.0, 2.0**23, 2.0**52 + 1, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1e30]
    special = np.array([*odd, *[-x for x in odd]], dtype.numpy)
    wide = rng.standard_normal((2, 9000)) * 10.0**rng.integers(-30, 30, (2, 9000))
    x, y = (np.concatenate([a.ravel(), more]).astype(dtype.numpy)
            for a, more in zip(np.meshgrid(special, special), wide, strict=True))
    y[:3000:7] = x[:3000:7] / 3  # quotients that are nearly whole
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    got = compute(device, "fmod", dtype, x, y)
    np.testing.assert_array_equal(got, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize(("function", "dtype"), [("idiv", int64), ("imod", int32), ("fmod", float32)])
def test_neighbours_are_divided_in_vectors_of_blocks(device, function, dtype):
    made = schedule(nest(function, dtype), device.target, Strategy.SERIAL)
    assert "fdiv <32 x " in print_llvm(made)
    assert made.kernels[0].body[0].stop is not N


def test_other_steps_are_left_to_loops_over_elements(device, rng):
    program = schedule(nest("imod", int64, S), device.target, Strategy.SERIAL)
    assert "fdiv" not in print_llvm(program)
    x, y, out = rng.integers(-99, 99, 500), rng.integers(1, 9, 1500), np.zeros(500, np.int64)
    device.compile_ir(program)([out, x, y], [500, 3], device.default_stream)
    np.testing.assert_array_equal(out, np.fmod(x, y[::3]))


def test_a_remainder_of_what_does_not_change_stays_where_it_is(device):
    """Its block belongs to the loop, though its operands are known before."""
    value = call("fmod", Load("x", 0 * N, float32), Load("y", 0 * N, float32))
    params = (Buffer("out", float32, True), Buffer("x", float32), Buffer("y", float32), Scalar("n", int32))
    body = loop(I, N, [Store("out", I, value)], LoopKind.PARALLEL)
    program = schedule(Program("one", params, (Kernel("one", (body,)),)), device.target, Strategy.SERIAL)
    for x, wanted in ((-7.5, -1.5), (1e30, float(np.fmod(np.float32(1e30), np.float32(2))))):
        out = np.ones(77, np.float32)
        arrays = [out, np.array([x], np.float32), np.array([2.0], np.float32)]
        device.compile_ir(program)(arrays, [77], device.default_stream)
        np.testing.assert_array_equal(out, np.full(77, wanted, np.float32))
