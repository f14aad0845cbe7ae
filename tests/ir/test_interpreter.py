"""The interpreter against NumPy and Python integers, on unscheduled and scheduled programs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_plugins.contract.arrays import Block, DeviceArray, Storage
from tensocket_plugins.contract.dtypes import (
    BY_NAME,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
)
from tensocket_plugins.ir import interpreter
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Assign,
    Buffer,
    Combine,
    Declare,
    If,
    IRError,
    Kernel,
    Let,
    Load,
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

I, J, K, N = (Var(name, int32) for name in ("i", "j", "k", "n"))
P, G, L = LoopKind.PARALLEL, LoopKind.GROUP, LoopKind.LANE


def program(*kernels, params, temporaries=()):
    return Program("test", tuple(params), kernels, tuple(temporaries))


def kernel(*body, locals=()):
    return Kernel("kernel", body, tuple(locals))


def pointwise(value_of, inputs, output):
    """A program ``out[i] = value_of(in0[i], ...)`` and a function that runs it."""
    loads = [Load(f"in{k}", I, dtype) for k, dtype in enumerate(inputs)]
    store = Store("out", I, value_of(*loads))
    params = [*(Buffer(f"in{k}", d) for k, d in enumerate(inputs)), Buffer("out", output, True), Scalar("n", int32)]
    built = program(kernel(loop(I, N, [store], P)), params=params)

    def run(*arrays):
        out = np.zeros(len(arrays[0]), output.numpy)
        interpret(built, [*arrays, out], [len(out)])
        return out

    return run


def add_reduce(result, loops, value, dtype, body=()):
    left, right = Var("a_left", dtype), Var("a_right", dtype)
    return Reduce((result,), tuple(loops), tuple(body), (value,), (const(0, dtype),),
                  Combine((left,), (right,), (left + right,)))


# ------------------------------------------------------------------------------------------------------ functions


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integer_arithmetic_wraps_like_twos_complement(name, rng):
    dtype = BY_NAME[name]
    bits = dtype.itemsize * 8
    info = np.iinfo(dtype.numpy)
    a = rng.integers(info.min, info.max, 200, dtype.numpy, endpoint=True)
    b = rng.integers(info.min, info.max, 200, dtype.numpy, endpoint=True)
    a[0], b[0] = info.min, info.max

    def wrap(x):
        x %= 1 << bits
        return x - (1 << bits) if dtype.kind == "int" and x >> (bits - 1) else x

    for function, exact in [("add", lambda x, y: x + y), ("sub", lambda x, y: x - y), ("mul", lambda x, y: x * y)]:
        got = pointwise(lambda x, y, f=function: call(f, x, y), [dtype, dtype], dtype)(a, b)
        assert got.tolist() == [wrap(exact(x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert pointwise(lambda x: -x, [dtype], dtype)(a).tolist() == [wrap(-x) for x in a.tolist()]


@pytest.mark.parametrize("name", ["int8", "int32", "int64", "uint8"])
def test_integer_division_truncates(name, rng):
    dtype = BY_NAME[name]
    info = np.iinfo(dtype.numpy)
    a = rng.integers(info.min, info.max, 300, dtype.numpy)
    b = rng.integers(max(info.min, -50), 50, 300, dtype.numpy)
    b[b == 0] = 7
    quotient = pointwise(lambda x, y: x // y, [dtype, dtype], dtype)(a, b)
    remainder = pointwise(lambda x, y: x % y, [dtype, dtype], dtype)(a, b)
    for x, y, q, r in zip(a.tolist(), b.tolist(), quotient.tolist(), remainder.tolist(), strict=True):
        expected = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        if expected <= info.max:
            assert (q, r) == (expected, x - y * expected)


def test_shift_right_is_arithmetic_for_signed_integers_only():
    assert pointwise(lambda x: x >> 1, [int8], int8)(np.array([-3, 5], np.int8)).tolist() == [-2, 2]
    assert pointwise(lambda x: x >> 1, [uint8], uint8)(np.array([253, 5], np.uint8)).tolist() == [126, 2]


def test_min_max_propagate_nan():
    a, b = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    for function, last in (("min", 2), ("max", 3)):
        got = pointwise(lambda x, y, f=function: call(f, x, y), [float32, float32], float32)(a, b)
        assert np.isnan(got[:2]).all()
        assert got[2] == last


def test_erf_follows_the_standard_library():
    x = np.linspace(-4, 4, 101)
    assert pointwise(lambda v: call("erf", v), [float64], float64)(x).tolist() == [math.erf(v) for v in x]


def test_casts_between_kinds():
    floats = np.array([-1.7, 1.7, 0.0, 100.5], np.float32)
    assert pointwise(lambda v: cast(v, int32), [float32], int32)(floats).tolist() == [-1, 1, 0, 100]
    assert pointwise(lambda v: cast(v, bool_), [float32], bool_)(floats).tolist() == [True, True, False, True]
    ints = np.array([-1, 300], np.int32)
    assert pointwise(lambda v: cast(v, uint8), [int32], uint8)(ints).tolist() == [255, 44]
    assert pointwise(lambda v: cast(v, float32), [bool_], float32)(np.array([True, False])).tolist() == [1, 0]
    assert pointwise(lambda v: cast(v, float16), [float32], float16)(np.float32([1e9, 0.1])).tolist() == [
        math.inf, float(np.float16(0.1))]


def test_bitcast_keeps_bits():
    got = pointwise(lambda v: call("bitcast", v, dtype=uint32), [float32], uint32)(np.float32([1.0, -0.0]))
    assert got.tolist() == [0x3F800000, 0x80000000]


def test_bfloat16_casts_round_to_nearest_even(rng):
    values = rng.integers(0, 1 << 32, 5000, np.uint32).view(np.float32)
    special = np.uint32([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 1, 0x3F808000,
                         0x3F818000]).view(np.float32)
    values = np.concatenate((values, special))
    bits = pointwise(lambda v: cast(v, bfloat16), [float32], bfloat16)(values)
    back = pointwise(lambda v: cast(v, float32), [bfloat16], float32)(bits)
    assert np.array_equal(np.isnan(values), np.isnan(back))
    for value, got in zip(values.tolist(), back.tolist(), strict=True):
        if math.isnan(value):
            continue
        mantissa, exponent = math.frexp(value) if math.isfinite(value) else (value, 0)
        # Eight significant bits; subnormals have the spacing of the smallest normal number.
        exponent = max(exponent, -125)
        with np.errstate(over="ignore"):
            expected = float(np.float32(math.ldexp(round(math.ldexp(value, 8 - exponent)), exponent - 8))) if (
                math.isfinite(mantissa)) else value
        assert got == expected or (abs(got) == math.inf and abs(expected) >= 2.0**128)
        assert math.copysign(1, got) == math.copysign(1, value)


# ---------------------------------------------------------------------------------------------------------- loops


def test_strided_copy_through_nested_loops(rng):
    source = rng.standard_normal((5, 7)).astype(np.float32)
    s0, s1, m = (Var(name, int32) for name in ("s0", "s1", "m"))
    body = loop(I, N, [loop(J, m, [Store("out", I * m + J, Load("x", I * s0 + J * s1, float32))], P)], P)
    params = [Buffer("x", float32), Buffer("out", float32, True), *(Scalar(s, int32) for s in ("n", "m", "s0", "s1"))]
    built = program(kernel(body), params=params)
    for view in (source, source.T, source[::2, ::-1]):
        out = np.zeros(view.shape, np.float32)
        interpret(built, [view, out], [*view.shape, *(s // 4 for s in view.strides)])
        assert np.array_equal(out, view)


def test_chunks_cover_a_large_loop(monkeypatch):
    monkeypatch.setattr(interpreter, "LANES", 64)
    x = np.arange(1000, dtype=np.int32)
    assert np.array_equal(pointwise(lambda v: v * 3, [int32], int32)(x), x * 3)


def test_empty_loops_touch_nothing():
    assert pointwise(lambda v: v * 3, [int32], int32)(np.zeros(0, np.int32)).size == 0


def test_ragged_parallel_loop_and_serial_loop(rng):
    """Row i sums its first i elements, once with a mutable variable, once with ``Reduce``, and marks them."""
    n = 9
    x = rng.standard_normal((n, n))
    total, reduced = Var("total", float64), Var("reduced", float64)
    body = [
        Declare(total, const(0.0, float64)),
        loop(J, I, [Assign(total, total + Load("x", I * N + J, float64))]),
        Store("sums", I, total),
        add_reduce(reduced, [(K, I)], Load("x", I * N + K, float64), float64),
        Store("reduced", I, reduced),
        loop(Var("m", int32), I, [Store("mark", I * N + Var("m", int32), const(1, int32))], P),
    ]
    params = [Buffer("x", float64), Buffer("sums", float64, True), Buffer("reduced", float64, True),
              Buffer("mark", int32, True), Scalar("n", int32)]
    sums, folds, mark = np.zeros(n), np.zeros(n), np.zeros((n, n), np.int32)
    interpret(program(kernel(loop(I, N, body, P)), params=params), [x, sums, folds, mark], [n])
    expected = [math.fsum(x[i, :i]) for i in range(n)]
    assert np.allclose(sums, expected, atol=1e-12)
    assert np.allclose(folds, expected, atol=1e-12)
    assert np.array_equal(mark, np.tri(n, k=-1, dtype=np.int32))


def test_masked_off_iterations_touch_no_memory():
    x, out = np.arange(4, dtype=np.int32), np.full(4, -1, np.int32)
    params = [Buffer("x", int32), Buffer("out", int32, True), Scalar("n", int32)]
    guarded = If(I < 4, (Store("out", I, Load("x", I, int32)),))
    interpret(program(kernel(loop(I, N, [guarded], P)), params=params), [x, out], [10])
    assert out.tolist() == [0, 1, 2, 3]
    nothing = If(I < 0, (Store("out", I, Load("x", I, int32)),))
    interpret(program(kernel(loop(I, N, [nothing], P)), params=params), [x[:0], out[:0]], [10])


def test_serial_loop_with_start_and_step():
    out = np.zeros(10, np.int32)
    body = loop(I, N, [Store("out", I, I)], start=1, step=3)
    interpret(program(kernel(body), params=[Buffer("out", int32, True), Scalar("n", int32)]), [out], [10])
    assert out.tolist() == [0, 1, 0, 0, 4, 0, 0, 7, 0, 0]


def test_kernels_run_in_order_and_share_temporaries(rng):
    x, out = rng.standard_normal(6), np.zeros(6)
    first = kernel(loop(I, N, [Store("t", I, Load("x", I, float64) * 2.0)], P))
    second = kernel(loop(J, N, [Store("out", J, Load("t", J, float64) + 1.0)], P))
    params = [Buffer("x", float64), Buffer("out", float64, True), Scalar("n", int32)]
    interpret(program(first, second, params=params, temporaries=[Temporary("t", float64, N)]), [x, out], [6])
    assert np.array_equal(out, x * 2 + 1)


# ----------------------------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 100, 1025])
def test_sum_is_pairwise_whatever_the_chunk(size, rng, monkeypatch):
    x = rng.standard_normal(size).astype(np.float32)

    def tree(values):
        if len(values) == 1:
            return values[0]
        half = 1 << (len(values) - 1).bit_length() - 1
        return tree(values[:half]) + tree(values[half:])

    s = Var("s", float32)
    built = program(kernel(add_reduce(s, [(I, N)], Load("x", I, float32), float32), Store("out", const(0, int32), s)),
                    params=[Buffer("x", float32), Buffer("out", float32, True), Scalar("n", int32)])
    for chunk in (1 << 20, 64, 1):
        monkeypatch.setattr(interpreter, "ELEMENTS", chunk)
        out = np.zeros(1, np.float32)
        interpret(built, [x, out], [size])
        assert out[0] == (tree(list(x)) if size else 0)


def test_matmul(rng, monkeypatch):
    monkeypatch.setattr(interpreter, "ELEMENTS", 256)
    a, b = rng.standard_normal((5, 6)), rng.standard_normal((6, 4))
    out, s = np.zeros((5, 4)), Var("s", float64)
    body = loop(I, 5, [loop(J, 4, [
        add_reduce(s, [(K, const(6, int32))], Load("a", I * 6 + K, float64) * Load("b", K * 4 + J, float64), float64),
        Store("out", I * 4 + J, s)], P)], P)
    interpret(program(kernel(body), params=[Buffer("a", float64), Buffer("b", float64), Buffer("out", float64, True)]),
              [a, b, out], [])
    assert np.allclose(out, a @ b, atol=1e-12)


def test_argmax_over_two_loops_with_two_accumulators(rng):
    x = rng.standard_normal((4, 3, 5)).astype(np.float32)
    best, where = Var("best", float32), Var("where", int64)
    a, b, p, q = Var("a", float32), Var("b", float32), Var("p", int64), Var("q", int64)
    wins = (a > b) | (~(b > a) & (p <= q))
    reduce = Reduce((best, where), ((J, const(3, int32)), (K, const(5, int32))), (Let(Var("at", int32), J * 5 + K),),
                    (Load("x", I * 15 + Var("at", int32), float32), cast(Var("at", int32), int64)),
                    (const(-math.inf, float32), const(2**62, int64)),
                    Combine((a, p), (b, q), (select(wins, a, b), select(wins, p, q))))
    out = np.zeros(4, np.int64)
    interpret(program(kernel(loop(I, 4, [reduce, Store("out", I, where)], P)),
                      params=[Buffer("x", float32), Buffer("out", int64, True)]), [x, out], [])
    assert np.array_equal(out, x.reshape(4, -1).argmax(1))


def test_softmax_row_kernel(rng):
    x, out = rng.standard_normal((3, 8)), np.zeros((3, 8))
    top, total = Var("top", float64), Var("total", float64)
    left, right = Var("l", float64), Var("r", float64)
    at = I * 8 + K
    highest = Reduce((top,), ((J, const(8, int32)),), (), (Load("x", I * 8 + J, float64),),
                     (const(-math.inf, float64),), Combine((left,), (right,), (call("max", left, right),)))
    m = Var("m", int32)
    power = call("exp", Load("x", I * 8 + m, float64) - top)
    body = [highest, add_reduce(total, [(m, const(8, int32))], power, float64),
            loop(K, 8, [Store("out", at, call("exp", Load("x", at, float64) - top) / total)], P)]
    interpret(program(kernel(loop(I, 3, body, P)), params=[Buffer("x", float64), Buffer("out", float64, True)]),
              [x, out], [])
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert np.allclose(out, expected, rtol=1e-13)


# ------------------------------------------------------------------------------------------------ handles, errors


def test_device_arrays_with_offset_and_strides():
    memory = np.zeros(64, np.uint8)
    array = DeviceArray(Storage(Block(memory, 64, None), None), float32, (3,), (2,), 4)
    stride = Var("stride", int32)
    body = loop(I, 3, [Store("out", I * stride, cast(I, float32) + 1.0)], P)
    built = program(kernel(body), params=[Buffer("out", float32, True), Scalar("stride", int32)])
    interpret(built, [array], [2])
    assert memory.view(np.float32).tolist() == [0] * 4 + [1, 0, 2, 0, 3] + [0] * 7
    with pytest.raises(IRError, match=r"store to out\[6\]: the array has elements 0 to 4"):
        interpret(built, [array], [3])


@pytest.mark.parametrize(("index", "message"), [
    (I + 1, r"load from x\[4\]: the array has elements 0 to 3"),
    (I - 1, r"load from x\[-1\]: the array has elements 0 to 3"),
])
def test_out_of_range_names_buffer_and_index(index, message):
    body = loop(I, 4, [Store("out", I, Load("x", index, int32))], P)
    with pytest.raises(IRError, match=message):
        interpret(program(kernel(body), params=[Buffer("x", int32), Buffer("out", int32, True)]),
                  [np.zeros(4, np.int32), np.zeros(4, np.int32)], [])


def bad(body, match, buffers=(), scalars=(), params=()):
    return pytest.param(body, buffers, scalars, params, match, id=match[:30])


OUT = Buffer("out", int32, True)
FOUR = (np.zeros(4, np.int32),)


@pytest.mark.parametrize(("body", "buffers", "scalars", "params", "match"), [
    bad((), "takes 1 buffers and 0 scalars, not 0 and 0", params=[OUT]),
    bad((), "takes 0 buffers and 0 scalars, not 0 and 1", scalars=[1]),
    bad((), "buffer out is int32, given float64", buffers=[np.zeros(1)], params=[OUT]),
    bad((), "scalar n: 2147483648 does not fit into int32", scalars=[2**31], params=[Scalar("n", int32)]),
    bad((Store("x", const(0, int32), const(0, int32)),), "array x is not defined"),
    bad((Store("out", const(0, int32), I),), "variable i is not defined", FOUR, params=[OUT]),
    bad((Store("out", const(0, int32), I),), "store to out: the buffer is not writable", FOUR, [1],
        [Buffer("out", int32), Scalar("i", int32)]),
    bad((loop(I, 4, [Store("out", I, const(5, int32) % I)], P),), "imod by zero", FOUR, params=[OUT]),
    bad((loop(I, 4, [], step=0),), "loop i has a step that is not positive"),
])
def test_errors(body, buffers, scalars, params, match):
    with pytest.raises(IRError, match=match):
        interpret(program(kernel(*body), params=params), buffers, scalars)


def test_device_array_of_another_dtype():
    array = DeviceArray(Storage(Block(np.zeros(8, np.uint8), 8, None), None), float32, (2,), (1,), 0)
    with pytest.raises(IRError, match="buffer out is int32, given float32"):
        interpret(program(kernel(), params=[OUT]), [array], [])
    with pytest.raises(IRError, match="temporary t has -1 elements"):
        interpret(program(kernel(), params=[], temporaries=[Temporary("t", int32, const(-1, int32))]), [], [])


def test_device_arrays_move_as_unsigned_integers_of_their_size():
    """A copy that preserves bits takes any dtype as an unsigned one."""
    uint16, bits = BY_NAME["uint16"], np.array([0x7C01, 0x8000, 0x3C00], np.uint16)  # a signalling NaN, -0, 1
    blocks = [Block(data.view(np.uint8).copy(), 6, None) for data in (np.zeros(3, np.uint16), bits)]
    arrays = [DeviceArray(Storage(block, None), BY_NAME["float16"], (3,), (1,), 0) for block in blocks]
    params = [Buffer("out", uint16, True), Buffer("a", uint16)]
    interpret(program(kernel(loop(I, 3, [Store("out", I, Load("a", I, uint16))], P)), params=params), arrays, [])
    np.testing.assert_array_equal(blocks[0].buffer.view(np.uint16), bits)
