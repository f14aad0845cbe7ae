"""Expressions in C: every function and dtype gives what the interpreter gives, on PoCL and through a C compiler."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensocket_plugins.ir.functions import FUNCTIONS
from tensocket_plugins.ir.nodes import (
    Buffer,
    Call,
    IRError,
    Load,
    Scalar,
    Store,
    Var,
    call,
    cast,
    const,
    select,
)
from tensocket_plugins.ir.printers.c import print_c
from tensocket_plugins.ir.printers.dialect import CUDA, OPENCL, C

SIZE = 200
INTEGERS = (uint8, uint16, uint32, uint64, int8, int16, int32, int64)
FLOATS = (float16, bfloat16, float32, float64)
ALL = (bool_, *INTEGERS, *FLOATS)
NATIVE = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow")

i, n = Var("i", int32), Var("n", int32)
N = Scalar("n", int32)


def functions_program(nest, dtype, names):
    """All functions of ``names`` on ``a``, ``b`` and ``c`` (bool); one row of ``out`` or ``flags`` each."""
    a, b = Load("a", i, dtype), Load("b", i, dtype)
    body = []
    for row, name in enumerate(names):
        rule = FUNCTIONS[name]
        args = {1: (a,), 2: (a, b), 3: (Load("c", i, bool_), a, b)}[rule.arity]
        if name in ("shl", "shr"):
            args = (a, Load("shift", i, dtype))
        if name == "fma":
            args = (a, b, a)
        if name in ("idiv", "imod"):
            args = (a, select(call("eq", b, 0), 1, b))
        target = "flags" if rule.rule == "compare" else "out"
        body.append(Store(target, i + row * n, call(name, *args)))
    params = (Buffer("out", dtype, True), Buffer("flags", bool_, True), Buffer("a", dtype), Buffer("b", dtype),
              Buffer("c", bool_), Buffer("shift", dtype))
    return nest(params, *body)


def casts_program(nest, dtype, targets):
    """``a`` cast to every dtype; out-of-range floats are not specified and stay out of it."""
    a = Load("a", i, dtype)
    params = (Buffer("a", dtype), *(Buffer(f"to_{t.short}", t, True) for t in targets))
    return nest(params, *(Store(f"to_{t.short}", i, cast(a, t)) for t in targets))


def samples(dtype, rng, count=SIZE):
    """Random elements and the special ones, as stored."""
    if dtype is bool_:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind != "float":
        info = np.iinfo(dtype.numpy)
        values = rng.integers(info.min, info.max, count, dtype.numpy, endpoint=True)
        special = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
        special += [-1, -2, -7] if dtype.kind == "int" else []
        values[: len(special)] = special
        values[100:150] %= 7
        return values
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-4, 4, count)
    values[:14] = [0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38]
    with np.errstate(over="ignore"):
        if dtype is bfloat16:
            bits = values.astype(np.float32).view(np.uint32)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return values.astype(dtype.numpy)


def arguments(dtype, rng, rows):
    a, b = samples(dtype, rng), np.roll(samples(dtype, rng), 5)
    c = rng.integers(0, 2, SIZE).astype(bool)
    shift = rng.integers(0, 8 * dtype.itemsize, SIZE).astype(dtype.numpy) if dtype.kind in ("int", "uint") else a
    return [np.zeros(rows * SIZE, dtype.numpy), np.zeros(rows * SIZE, bool), a, b, c, shift]


def exact_functions(dtype):
    if dtype in (float16, bfloat16):
        return ["select"]
    letter = {"bool": "b", "int": "i", "uint": "i", "float": "f"}[dtype.kind]
    return [f.name for f in FUNCTIONS.values() if letter in f.domain and f.rule not in ("cast", "bitcast")
            and f.name not in NATIVE and not f.processors_only]


def values_of(array, dtype):
    """Stored elements as numbers."""
    if dtype is bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def assert_same(actual, expected, dtype):
    """Equal bits, except that any NaN equals any other."""
    x, y = values_of(actual, dtype), values_of(expected, dtype)
    if dtype.kind == "float":
        nan = np.isnan(y)
        np.testing.assert_array_equal(np.isnan(x), nan)
        x, y = x[~nan], y[~nan]
        np.testing.assert_array_equal(np.signbit(x), np.signbit(y))
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.short)
def test_exact_functions_are_bit_identical(run, nest, dtype, rng):
    names = exact_functions(dtype)
    arrays = arguments(dtype, rng, len(names))
    actual, expected = run(functions_program(nest, dtype, names), arrays)
    for row, name in enumerate(names):
        part = slice(row * SIZE, (row + 1) * SIZE)
        try:
            assert_same(actual[0][part], expected[0][part], dtype)
            assert_same(actual[1][part], expected[1][part], bool_)
        except AssertionError as error:
            raise AssertionError(f"{name} of {dtype.name}: {error}") from error


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.short)
def test_library_functions_are_close(run, nest, dtype, rng):
    arrays = arguments(dtype, rng, len(NATIVE))
    arrays[2] = np.abs(np.nan_to_num(arrays[2], posinf=1, neginf=1)) % 30 + dtype.numpy.type(1e-3)
    arrays[3] = np.clip(np.nan_to_num(arrays[3]), -3, 3)
    actual, expected = run(functions_program(nest, dtype, NATIVE), arrays)
    a, b = arrays[2].astype(np.longdouble), arrays[3].astype(np.longdouble)
    for row, name in enumerate(NATIVE):
        part = slice(row * SIZE, (row + 1) * SIZE)
        truth = expected[0][part] if name == "erf" else getattr(np, {"pow": "power"}.get(name, name))(
            *((a, b) if name == "pow" else (a,)))
        tolerance = 32 * np.finfo(dtype.numpy).eps
        np.testing.assert_allclose(actual[0][part], truth.astype(dtype.numpy), rtol=tolerance, atol=tolerance,
                                   err_msg=name)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.short)
def test_casts(run, nest, dtype, rng):
    a = samples(dtype, rng)
    targets = [t for t in ALL if t is not dtype]
    if dtype.kind == "float":
        # Within the range of every integer type; what happens elsewhere is not specified.
        inside = casts_program(nest, dtype, [t for t in targets if t in INTEGERS])
        small = rng.uniform(0, 127, SIZE)
        small[:3] = [0, 0.999, 126.5]
        stored = (small.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if dtype is bfloat16 else (
            small.astype(dtype.numpy))
        actual, expected = run(inside, [stored, *(np.zeros(SIZE, b.dtype.numpy) for b in inside.buffers[1:])])
        for buffer, x, y in zip(inside.buffers[1:], actual[1:], expected[1:], strict=True):
            np.testing.assert_array_equal(x, y, err_msg=buffer.name)
        targets = [t for t in targets if t not in INTEGERS]
    program = casts_program(nest, dtype, targets)
    actual, expected = run(program, [a, *(np.zeros(SIZE, t.numpy) for t in targets)])
    for t, x, y in zip(targets, actual[1:], expected[1:], strict=True):
        try:
            assert_same(x, y, t)
        except AssertionError as error:
            raise AssertionError(f"{dtype.name} to {t.name}: {error}") from error


@pytest.mark.parametrize("target", [float16, bfloat16], ids=lambda d: d.short)
def test_rounding_to_16_bits(run, nest, target, rng):
    """Halves to even, subnormals, overflow: against NumPy's float16, and arithmetic on the values for bfloat16."""
    bits = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    exact = values_of(bits.view(target.numpy), target).astype(np.float32)
    with np.errstate(all="ignore"):
        half = np.where(np.isfinite(exact), exact + (np.roll(exact, -1) - exact) / 2, exact).astype(np.float32)
        x = np.concatenate([exact, half, np.nextafter(half, np.float32(np.inf)), np.nextafter(half, np.float32(0))])
        x = np.concatenate([x, rng.integers(0, 1 << 32, 4096, np.uint32).view(np.float32)]).astype(np.float32)
        program = nest((Buffer("out", target, True), Buffer("a", float32)),
                            Store("out", i, cast(Load("a", i, float32), target)))
        actual, _ = run(program, [np.zeros(x.size, target.numpy), x], (x.size,))
        if target is float16:
            assert_same(actual[0], x.astype(np.float16), float16)
            return
        y = values_of(actual[0], bfloat16)
        finite = np.isfinite(x) & (np.abs(x) < 3.38e38)
        np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
        low = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)[finite].astype(np.float64)
        high = ((x.view(np.uint32) & 0xFFFF0000) + 0x10000).view(np.float32)[finite].astype(np.float64)
        below, above = np.abs(x[finite] - low), np.abs(high - x[finite])
        even = (x.view(np.uint32)[finite] >> 16) % 2 == 0
        np.testing.assert_array_equal(y[finite], np.where((below < above) | ((below == above) & even), low, high))


def test_float64_to_float16_rounds_once(run, nest):
    tie = 1 + 2.0**-11
    x = np.array([tie, tie * (1 + 2.0**-40), tie * (1 - 2.0**-40), 2.0**-25, 2.0**-25 * (1 + 2.0**-50), 65520.0,
                  65519.999999999, 1e300, -1e300, np.nan, -np.inf, -0.0, 1e-300])
    program = nest((Buffer("out", float16, True), Buffer("a", float64)),
                        Store("out", i, cast(Load("a", i, float64), float16)))
    actual, _ = run(program, [np.zeros(x.size, np.float16), x], (x.size,))
    with np.errstate(over="ignore"):
        assert_same(actual[0], x.astype(np.float16), float16)


@pytest.mark.parametrize(("of", "to"), [(float32, int32), (float32, uint32), (int32, float32), (uint32, float32),
                                        (float64, int64), (uint64, float64), (float16, int16), (int16, bfloat16),
                                        (bfloat16, uint16), (int8, uint8), (uint64, int64)], ids=lambda d: d.short)
def test_bitcasts(run, nest, of, to, rng):
    a = rng.integers(0, 256, SIZE * of.itemsize, np.uint8).view(of.numpy)
    program = nest((Buffer("out", to, True), Buffer("a", of)),
                        Store("out", i, call("bitcast", Load("a", i, of), dtype=to)))
    actual, _ = run(program, [np.zeros(SIZE, to.numpy), a])
    if of.kind == to.kind == "uint" or (of.kind, to.kind) in (("int", "uint"), ("uint", "int")):
        np.testing.assert_array_equal(actual[0], a.view(to.numpy))
    else:
        assert_same(actual[0], a.view(to.numpy), to)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.short)
def test_constants(run, nest, dtype):
    if dtype.kind == "float":
        values = [0.0, -0.0, 0.1, -1 / 3, 1e-40, 1e38, 123456.0, 2e6, float("inf"), float("-inf"), float("nan"),
                  5e-324, 65504.0, 3.0]
    elif dtype is bool_:
        values = [True, False]
    else:
        info = np.iinfo(dtype.numpy)
        values = [0, 1, info.min, info.max, info.max - 1, *([-1, info.min + 1] if info.min else [])]
    body = [Store("out", const(k, int32), const(v, dtype)) for k, v in enumerate(values)]
    program = nest((Buffer("out", dtype, True),), *body)
    actual, expected = run(program, [np.zeros(len(values), dtype.numpy)], (1,))
    with np.errstate(all="ignore"):
        truth = expected[0] if dtype is bfloat16 else np.array(values, dtype.numpy)
    assert_same(actual[0], truth, dtype)


def test_products_are_not_contracted(run, nest, rng):
    a, b = rng.standard_normal((2, SIZE)).astype(np.float32)
    x, y = Load("a", i, float32), Load("b", i, float32)
    program = nest((Buffer("out", float32, True), Buffer("a", float32), Buffer("b", float32)),
                        Store("out", i, x * y - x * x))
    actual, _ = run(program, [np.zeros(SIZE, np.float32), a, b])
    np.testing.assert_array_equal(actual[0], a * b - a * a)


def test_integer_arithmetic_wraps(run, nest):
    a = np.array([np.iinfo(np.int32).max, np.iinfo(np.int32).min, -1], np.int32)
    x = Load("a", i, int32)
    # A compiler that assumes no overflow turns this into a constant.
    program = nest((Buffer("out", bool_, True), Buffer("a", int32)), Store("out", i, (x + 1) > x))
    actual, _ = run(program, [np.zeros(3, bool), a], (3,))
    np.testing.assert_array_equal(actual[0], [False, True, True])


@pytest.mark.parametrize("dialect", [C, OPENCL, CUDA], ids=lambda d: d.name)
def test_functions_of_processors_are_refused(simt_nest, dialect):
    x = Load("a", i, float32)
    program = simt_nest((Buffer("out", float32, True), Buffer("a", float32)),
                        Store("out", i, call("rarely", x < 1.0, call("sin", x), x)))
    text = f"{dialect.name} has no rarely: decompose the program for the device's target, or replace each call by "
    with pytest.raises(IRError, match=re.escape(text + "math.written_out")):
        print_c(program, dialect)


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.short)
def test_nvrtc_compiles_all_functions(nvrtc, simt_nest, dtype):
    names = exact_functions(dtype) + (list(NATIVE) if dtype in (float32, float64) else [])
    nvrtc(print_c(functions_program(simt_nest, dtype, names), CUDA))
    nvrtc(print_c(casts_program(simt_nest, dtype, [t for t in ALL if t is not dtype]), CUDA))


@pytest.mark.parametrize("of", [uint16, int16, uint32, int32, uint64, int64, *FLOATS], ids=lambda d: d.short)
def test_nvrtc_compiles_bitcasts(nvrtc, simt_nest, of):
    targets = [t for t in (uint16, int16, uint32, int32, uint64, int64, *FLOATS) if t.itemsize == of.itemsize]
    params = (Buffer("a", of), *(Buffer(f"to_{t.short}", t, True) for t in targets))
    body = [Store(f"to_{t.short}", i, Call("bitcast", (Load("a", i, of),), t)) for t in targets if t is not of]
    constants = [Store(f"to_{t.short}", i, const(v, t)) for t in targets if t.kind == "float"
                 for v in (0.1, -1e30, float("inf"), float("-inf"), float("nan"))]
    nvrtc(print_c(simt_nest(params, *body, *constants), CUDA))


