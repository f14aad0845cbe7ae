"""Compiled kernels against the reference interpreter (bit for bit) and against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import (
    BY_NAME,
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
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.functions import FUNCTIONS
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Assign,
    Atomic,
    Buffer,
    Combine,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Temporary,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.schedule.partials import RUN
from tensocket_plugins.ir.strategies import Strategy

I, J, K, N, M = (Var(name, int32) for name in ("i", "j", "k", "n", "m"))
P, V = LoopKind.PARALLEL, LoopKind.VECTOR

INTEGERS = (uint8, uint16, uint32, uint64, int8, int16, int32, int64)
FLOATS = (float16, bfloat16, float32, float64)
EVERY = (bool_, *INTEGERS, *FLOATS)
LIBM = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow")


def bits_of_float32(values):
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def samples(dtype, rng, count=600):
    """Ordinary and extreme values of a dtype, as its storage."""
    if dtype is bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.kind in ("int", "uint"):
        info = np.iinfo(dtype.numpy)
        special = np.array([info.min, info.max, 0, 1, 2, 7, info.max - 1, info.min + 1], dtype.numpy)
        return np.concatenate([special, rng.integers(info.min, info.max, count - 8, dtype.numpy, endpoint=True)])
    wide = np.concatenate([
        [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.5, np.inf, -np.inf, np.nan, 65504.0, 6e-8, -6e-5, 1e-40, 3e38, 1e5],
        rng.normal(size=(count - 17) // 2) * 3, rng.normal(size=count - 17 - (count - 17) // 2) * 1e4])
    with np.errstate(over="ignore"):
        return bits_of_float32(wide) if dtype is bfloat16 else wide.astype(dtype.numpy)


def shuffled(values, rng):
    return values[rng.permutation(len(values))]


def pointwise(value_of, inputs, output):
    loads = [Load(f"in{k}", I, dtype) for k, dtype in enumerate(inputs)]
    store = Store("out", I, value_of(*loads))
    params = [Buffer("out", output, True), *(Buffer(f"in{k}", d) for k, d in enumerate(inputs)), Scalar("n", int32)]
    return Program("test", tuple(params), (Kernel("test", (loop(I, N, [store], P),)),))


def same_bits(got, expected, dtype):
    """Equal as numbers; NaN equals NaN, but 0.0 does not equal -0.0."""
    if dtype.kind != "float":
        np.testing.assert_array_equal(got, expected)
        return
    if dtype is bfloat16:
        got, expected = ((a.astype(np.uint32) << 16).view(np.float32) for a in (got, expected))
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    unsigned = f"u{got.itemsize}"
    np.testing.assert_array_equal(got[~nan].view(unsigned), expected[~nan].view(unsigned))


def check(device, program, output, arrays, scalars=None):
    scalars = [len(arrays[0])] if scalars is None else scalars
    got, expected = np.zeros(len(arrays[0]), output.numpy), np.zeros(len(arrays[0]), output.numpy)
    device.compile_ir(program)([got, *arrays], scalars, device.default_stream)
    interpret(program, [expected, *arrays], scalars)
    same_bits(got, expected, output)
    return got


def dtypes_of(domain):
    return [d for d in EVERY if {"bool": "b", "int": "i", "uint": "i", "float": "f"}[d.kind] in domain]


ROWS = [(f.name, d) for f in FUNCTIONS.values() if f.rule in ("same", "compare") and f.name not in LIBM
        for d in dtypes_of(f.domain) if d not in (float16, bfloat16)]


@pytest.mark.parametrize(("name", "dtype"), ROWS, ids=[f"{name}-{dtype.short}" for name, dtype in ROWS])
def test_function_matches_interpreter(device, rng, name, dtype):
    function = FUNCTIONS[name]
    arrays = [shuffled(samples(dtype, rng), rng) for _ in range(function.arity)]
    if name in ("idiv", "imod"):
        arrays[1][arrays[1] == 0] = 3
    if name in ("shl", "shr"):
        arrays[1] = (np.arange(len(arrays[1])) % (8 * dtype.itemsize)).astype(dtype.numpy)
    output = bool_ if function.rule == "compare" else dtype
    check(device, pointwise(lambda *x: call(name, *x), [dtype] * function.arity, output), output, arrays)


CASTS = [(a, b) for a in EVERY for b in EVERY]


@pytest.mark.parametrize(("source", "target"), CASTS, ids=[f"{a.short}-{b.short}" for a, b in CASTS])
def test_cast_matches_interpreter(device, rng, source, target):
    values = samples(source, rng)
    if source.kind == "float" and target.kind in ("int", "uint"):
        # Out of range nothing is specified.
        wide = (values.astype(np.uint32) << 16).view(np.float32) if source is bfloat16 else values.astype(np.float64)
        info = np.iinfo(target.numpy)
        low = max(info.min, -2.0**62)
        values = values[(wide >= low) & (wide <= min(info.max, 2.0**62))]
        assert len(values) > 10
    check(device, pointwise(lambda x: cast(x, target), [source], target), target, [values])


def test_float_to_narrow_integer_wraps_around_like_c(device):
    values = np.array([300.0, -1.0, -129.0, 70000.0], np.float32)
    got = check(device, pointwise(lambda x: cast(cast(x, int32), uint8), [float32], uint8), uint8, [values])
    direct = np.zeros(4, np.uint8)
    device.compile_ir(pointwise(lambda x: cast(x, uint8), [float32], uint8))([direct, values], [4],
                                                                             device.default_stream)
    np.testing.assert_array_equal(direct, got)
    np.testing.assert_array_equal(direct, [44, 255, 127, 112])


@pytest.mark.parametrize("target", INTEGERS, ids=lambda d: d.short)
def test_float_to_integer_out_of_range_does_not_trap(device, target):
    values = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 1.0], np.float64)
    out = np.zeros(6, target.numpy)
    device.compile_ir(pointwise(lambda x: cast(x, target), [float64], target))([out, values], [6],
                                                                               device.default_stream)
    assert out[5] == 1


@pytest.mark.parametrize(("source", "target"), [(float32, int32), (int32, float32), (float32, uint32), (float16, int16),
                                                (bfloat16, int16), (uint16, bfloat16), (float64, int64),
                                                (int64, uint64)])
def test_bitcast_keeps_the_bits(device, rng, source, target):
    values = samples(source, rng)
    out = np.zeros(len(values), target.numpy)
    program = pointwise(lambda x: call("bitcast", x, dtype=target), [source], target)
    device.compile_ir(program)([out, values], [len(values)], device.default_stream)
    np.testing.assert_array_equal(out.view(f"u{out.itemsize}"), values.view(f"u{out.itemsize}"))


@pytest.mark.parametrize("dtype", EVERY, ids=lambda d: d.short)
def test_select_matches_interpreter(device, rng, dtype):
    condition = rng.integers(0, 2, 600).astype(np.bool_)
    arrays = [condition, samples(dtype, rng), shuffled(samples(dtype, rng), rng)]
    check(device, pointwise(select, [bool_, dtype, dtype], dtype), dtype, arrays)


@pytest.mark.parametrize("name", LIBM)
@pytest.mark.parametrize("dtype", [float32, float64], ids=["f32", "f64"])
def test_library_functions_are_accurate(device, rng, name, dtype):
    x, y = rng.uniform(0.01, 4, (2, 500)).astype(dtype.numpy)
    arrays = [x, y] if name == "pow" else [x]
    out = np.zeros(500, dtype.numpy)
    program = pointwise(lambda *e: call(name, *e), [dtype] * len(arrays), dtype)
    device.compile_ir(program)([out, *arrays], [500], device.default_stream)
    exact = np.array([getattr(math, name)(*map(float, row)) for row in zip(*arrays, strict=True)])
    np.testing.assert_allclose(out, exact, rtol=4 * np.finfo(dtype.numpy).eps, atol=4 * np.finfo(dtype.numpy).eps)


@pytest.mark.parametrize("dtype", [float32, float64], ids=["f32", "f64"])
def test_remainders_are_exact_next_to_multiples_and_for_long_quotients(device, rng, dtype):
    y = rng.uniform(0.1, 10, 4000).astype(dtype.numpy)
    x = (rng.integers(0, 1 << 22, 4000) * y).astype(dtype.numpy)
    near = [np.nextafter(x, x.dtype.type(end)) for end in (-np.inf, np.inf)]
    far = (x * 2.0**rng.integers(-20, 90, 4000)).astype(dtype.numpy)
    for first, second in ((x, y), (near[0], y), (-near[1], y), (near[1], -y), (far, y), (y, np.nextafter(y, y * 2))):
        program = pointwise(lambda a, b: call("fmod", a, b), [dtype] * 2, dtype)
        got = check(device, program, dtype, [first, second])
        assert (np.abs(got) < np.abs(second)).all()


@pytest.mark.parametrize("name", LIBM)
@pytest.mark.parametrize("lanes", [1, 16])
def test_float64_functions_as_arithmetic_match_the_interpreter(device, rng, name, lanes):
    """Vectors too; tiny numbers are left out, for there the interpreter's ``fma`` may round twice."""
    first, second = rng.uniform(-30, 30, 640), rng.uniform(-9, 9, 640)
    first[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300]
    arrays = [first, second] if name == "pow" else [first]
    value = call(name, *(Load(f"x{k}", I * lanes + J, float64) for k in range(len(arrays))))
    body = loop(J, lanes, [Store("out", I * lanes + J, value)], V)
    params = (Buffer("out", float64, True), *(Buffer(f"x{k}", float64) for k in range(len(arrays))), Scalar("n", int32))
    program = decompose(Program("wide", params, (Kernel("wide", (loop(I, N, [body], P),)),)), device.target)
    check(device, program, float64, arrays, [640 // lanes])


def test_kernel_named_like_a_c_function_calls_the_library(device):
    program = pointwise(lambda x: call("exp", x), [float64], float64)
    named = Program("exp", program.params, (Kernel("exp", program.kernels[0].body),))
    out = np.zeros(3)
    device.compile_ir(named)([out, np.array([0.0, 1.0, 2.0])], [3], device.default_stream)
    np.testing.assert_allclose(out, np.exp([0.0, 1.0, 2.0]), rtol=1e-15)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.short)
def test_constants_are_rounded_to_their_dtype(device, dtype):
    numbers = [0.1, -1e300, 1e300, math.inf, -math.inf, math.nan, 65519.0, 65520.0, 1 + 2**-8, 1 + 2**-9, -0.0, 1e-39]
    body = [Store("out", const(k, int32), const(v, dtype)) for k, v in enumerate(numbers)]
    program = Program("constants", (Buffer("out", dtype, True),), (Kernel("constants", tuple(body)),))
    got = np.zeros(len(numbers), dtype.numpy)
    device.compile_ir(program)([got], [], device.default_stream)
    with np.errstate(over="ignore"):
        if dtype is bfloat16:
            np.testing.assert_array_equal(got, bits_of_float32(numbers))
        else:
            np.testing.assert_array_equal(got, np.asarray(numbers, np.float64).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [d for d in EVERY if d not in (float16, bfloat16)], ids=lambda d: d.short)
def test_scalars_of_every_dtype(device, dtype):
    value = {"bool": True, "float": -1.1}.get(dtype.kind) if dtype.kind in ("bool", "float") else \
        int(np.iinfo(dtype.numpy).max)
    program = Program("scalar", (Buffer("out", dtype, True), Scalar("x", dtype)),
                      (Kernel("scalar", (Store("out", const(0, int32), Var("x", dtype)),)),))
    out = np.zeros(1, dtype.numpy)
    device.compile_ir(program)([out], [value], device.default_stream)
    assert out[0] == dtype.numpy.type(value)


def test_scalar_float32_beyond_its_range_becomes_infinite(device):
    program = Program("scalar", (Buffer("out", float32, True), Scalar("x", float32)),
                      (Kernel("scalar", (Store("out", const(0, int32), Var("x", float32)),)),))
    out = np.zeros(1, np.float32)
    device.compile_ir(program)([out], [1e300], device.default_stream)
    assert out[0] == np.inf


# ------------------------------------------------------------------------------------------------ loops, statements


def strided(index=int32):
    """``out = in0 + in1`` over two dimensions with stride arguments."""
    i, j, n, m = (Var(name, index) for name in ("i", "j", "n", "m"))
    strides = {name: [Var(f"{name}_{axis}", index) for axis in "ij"] for name in ("out", "in0", "in1")}

    def at(name):
        return i * strides[name][0] + j * strides[name][1]

    store = Store("out", at("out"), Load("in0", at("in0"), float32) + Load("in1", at("in1"), float32))
    body = loop(i, n, [loop(j, m, [store], P)], P)
    params = [Buffer("out", float32, True), Buffer("in0", float32), Buffer("in1", float32),
              Scalar("n", index), Scalar("m", index),
              *(Scalar(v.name, index) for pair in strides.values() for v in pair)]
    return Program("strided", tuple(params), (Kernel("strided", (body,)),))


@pytest.mark.parametrize("index", [int32, int64], ids=["i32", "i64"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "row", "column", "reversed", "sliced", "strided_out"])
def test_strided_arrays(device, rng, index, layout):
    a, b = rng.normal(size=(2, 37, 61)).astype(np.float32)
    out = np.zeros((37, 61), np.float32)
    if layout == "transposed":
        a = np.ascontiguousarray(a.T).T
    elif layout == "row":
        b = np.broadcast_to(b[0], a.shape)
    elif layout == "column":
        b = np.broadcast_to(b[:, :1], a.shape)
    elif layout == "reversed":
        a = a[::-1, ::-1]
    elif layout == "sliced":
        a = rng.normal(size=(80, 200)).astype(np.float32)[5:42, 3:186:3]
    elif layout == "strided_out":
        out = np.zeros((37, 122), np.float32)[:, ::2]
    scalars = [37, 61, *(s // 4 for array in (out, a, b) for s in array.strides)]
    device.compile_ir(strided(index))([out, a, b], scalars, device.default_stream)
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1)])
def test_few_or_no_iterations(device, shape):
    a = np.ones(shape, np.float32)
    out = np.full(shape, 7, np.float32)
    device.compile_ir(strided())([out, a, a], [*shape, *(s // 4 for s in a.strides) , *(s // 4 for s in a.strides),
                                               *(s // 4 for s in a.strides)], device.default_stream)
    np.testing.assert_array_equal(out, a + a)


def test_in_place(device, rng):
    x = rng.normal(size=1000).astype(np.float32)
    expected = x * x
    device.compile_ir(pointwise(lambda a, b: a * b, [float32] * 2, float32))([x, x, x], [1000], device.default_stream)
    np.testing.assert_array_equal(x, expected)


def test_let_declare_assign_if_and_serial_loops(device, rng):
    """Collatz steps of every element, and nothing for negative ones."""
    x, steps = Var("x", int64), Var("steps", int64)
    start = Load("in0", I, int64)
    odd = call("eq", call("and", x, const(1, int64)), const(1, int64))
    body = [
        Declare(x, start), Declare(steps, const(0, int64)),
        If(call("le", const(1, int64), start), (
            loop(J, 200, [
                If(call("ne", x, const(1, int64)), (
                    Let(Var("next", int64), select(odd, x * 3 + 1, x // 2)),
                    Assign(x, Var("next", int64)),
                    Assign(steps, steps + 1),
                )),
            ]),
        )),
        Store("out", I, steps),
    ]
    program = Program("collatz", (Buffer("out", int64, True), Buffer("in0", int64), Scalar("n", int32)),
                      (Kernel("collatz", (loop(I, N, body, P),)),))
    values = np.arange(-3, 100, dtype=np.int64)

    def count(v):
        steps = 0
        while v > 1:
            v, steps = (3 * v + 1 if v % 2 else v // 2), steps + 1
        return steps

    got = check(device, program, int64, [values])
    np.testing.assert_array_equal(got, [count(int(v)) for v in values])


def test_loads_are_not_reused_across_stores(device):
    """The same expression object in two statements is evaluated in each."""
    doubled = Load("out", I, int32) * 2
    program = Program("twice", (Buffer("out", int32, True), Buffer("in0", int32), Scalar("n", int32)),
                      (Kernel("twice", (loop(I, N, [Store("out", I, Load("in0", I, int32)), Store("out", I, doubled),
                                                    Store("out", I, doubled)], P),)),))
    got = check(device, program, int32, [np.arange(10, dtype=np.int32)])
    np.testing.assert_array_equal(got, 4 * np.arange(10))


def test_gather_by_index_array(device, rng):
    index = rng.integers(0, 50, 600).astype(np.int32)
    table = rng.normal(size=50).astype(np.float32)
    program = Program("gather", (Buffer("out", float32, True), Buffer("in0", int32), Buffer("table", float32),
                                 Scalar("n", int32)),
                      (Kernel("gather", (loop(I, N, [
                          Let(K, Load("in0", I, int32)), Store("out", I, Load("table", K, float32))], P),)),))
    out = np.zeros(600, np.float32)
    device.compile_ir(program)([out, index, table], [600], device.default_stream)
    np.testing.assert_array_equal(out, table[index])


@pytest.mark.parametrize("function", ["add", "min", "max"])
@pytest.mark.parametrize("dtype", [float32, float64, int32, int64], ids=lambda d: d.short)
def test_atomics(device, rng, function, dtype):
    values = rng.integers(-100, 100, 5000).astype(dtype.numpy)
    index = rng.integers(0, 7, 5000).astype(np.int32)
    program = Program("atomic", (Buffer("out", dtype, True), Buffer("in0", dtype), Buffer("at", int32),
                                 Scalar("n", int32)),
                      (Kernel("atomic", (loop(I, N, [
                          Atomic(function, "out", Load("at", I, int32), Load("in0", I, dtype))], P),)),))
    out, expected = np.zeros(7, dtype.numpy), np.zeros(7, dtype.numpy)
    device.compile_ir(program)([out, values, index], [5000], device.default_stream)
    {"add": np.add, "min": np.minimum, "max": np.maximum}[function].at(expected, index, values)
    np.testing.assert_array_equal(out, expected)


def test_local_arrays_and_vector_loops(device, rng):
    """Reverse blocks of 8 through a local array."""
    body = [loop(J, 8, [Store("block", J, Load("in0", I * 8 + J, float32))], V),
            loop(J, 8, [Store("out", I * 8 + J, Load("block", 7 - J, float32))], V)]
    program = Program("reverse", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32)),
                      (Kernel("reverse", (loop(I, N, body, P),), (Local("block", float32, 8),)),))
    x = rng.normal(size=80).astype(np.float32)
    out = np.zeros(80, np.float32)
    device.compile_ir(program)([out, x], [10], device.default_stream)
    np.testing.assert_array_equal(out.reshape(10, 8), x.reshape(10, 8)[:, ::-1])


def test_kernels_in_order_with_a_temporary(device, rng):
    program = Program(
        "two", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32)),
        (Kernel("first", (loop(I, N, [Store("t", I, Load("in0", I, float32) * 2.0)], P),)),
         Kernel("second", (loop(I, N, [Store("out", I, Load("t", N - 1 - I, float32) + 1.0)], P),))),
        (Temporary("t", float32, N * 2),))
    x = rng.normal(size=300).astype(np.float32)
    np.testing.assert_array_equal(check(device, program, float32, [x]), x[::-1] * 2 + 1)


# ----------------------------------------------------------------------------------------- scheduled reductions


def reduction(combine, identity, value, dtype, outer=True):
    """``out[i] = fold of value(in0[i, j])`` over rows, or over everything."""
    left, right, acc = (Var(name, dtype) for name in ("left", "right", "acc"))
    at = I * M + J if outer else J
    fold = Reduce((acc,), ((J, M),), (), (value(cast(Load("in0", at, float32), dtype)),), (const(identity, dtype),),
                  Combine((left,), (right,), (combine(left, right),)))
    store = Store("out", I if outer else const(0, int32), cast(acc, float32))
    body = (loop(I, N, [fold, store], P),) if outer else (fold, store)
    params = (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32), Scalar("m", int32))
    return Program("fold", params, (Kernel("fold", body),))


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (2, 5000), (1, 100_003), (50, 64), (4, 0)])
@pytest.mark.parametrize("outer", [True, False], ids=["rows", "all"])
def test_sums(device, rng, strategy, shape, outer):
    x = rng.normal(size=shape).astype(np.float32)
    out = np.zeros(shape[0] if outer else 1, np.float32)
    program = schedule(reduction(lambda a, b: a + b, 0.0, lambda v: v, float64, outer), device.target, strategy)
    device.compile_ir(program)([out, x], [shape[0], shape[1] if outer else x.size], device.default_stream)
    wide = x.astype(np.float64).reshape(shape[0] if outer else 1, -1 if x.size else 0)
    # In vectors, runs of RUN elements are added in float32.
    roundings = 0 if strategy is Strategy.SERIAL else RUN
    bound = 2.0**-24 * (roundings * np.abs(wide).sum(axis=1) + np.abs(wide.sum(axis=1)))
    assert (np.abs(out - wide.sum(axis=1)) <= bound).all()


@pytest.mark.parametrize("strategy", Strategy)
def test_maximum_propagates_nan(device, rng, strategy):
    x = rng.normal(size=(4, 3000)).astype(np.float32)
    x[1, 1234] = np.nan
    x[2] = -np.inf
    out = np.zeros(4, np.float32)
    program = schedule(reduction(lambda a, b: call("max", a, b), -math.inf, lambda v: v, float32), device.target,
                       strategy)
    device.compile_ir(program)([out, x], [4, 3000], device.default_stream)
    np.testing.assert_array_equal(out, x.max(axis=1))


def test_every_dtype_of_the_profile_has_a_type(device):
    """Kernels know complex numbers as pairs of floats, float8 as bytes."""
    lowered = {"complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"}
    assert {BY_NAME[name] for name in device.profile.dtypes - lowered} == set(EVERY)
    assert lowered < device.profile.dtypes
