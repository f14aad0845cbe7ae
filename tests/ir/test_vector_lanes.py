"""Nests on groups of lanes, each of which computes several adjacent elements."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import bfloat16, bool_, float32, float64, int8, int32
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Buffer,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.printers.c import print_c
from tensocket_plugins.ir.printers.dialect import CUDA, C
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.text import format_program
from tensocket_plugins.ir.verify import verify

GPU = Target("simt", group_size=16)
LIMITED = Target("simt", group_size=8, max_groups=2)
I, J, M, N = (Var(name, int32) for name in "ijmn")
SIZES = [1, 3, 4, 5, 64, 67, 301]


def nest(inputs, output, *body, rows=False):
    inner = loop(I, N, body, LoopKind.PARALLEL)
    buffers = [*(Buffer(name, dtype) for name, dtype in inputs.items()), Buffer("out", output, writable=True)]
    sizes = [Scalar("m", int32), Scalar("n", int32)] if rows else [Scalar("n", int32)]
    outer = loop(J, M, [inner], LoopKind.PARALLEL) if rows else inner
    return Program("p", (*buffers, *sizes), (Kernel("p", (outer,)),))


def sum_of(dtype):
    return nest({"a": dtype, "b": dtype}, dtype, Store("out", I, Load("a", I, dtype) + Load("b", I, dtype)))


def vectors(program, target=GPU):
    """The sizes of the lanes' own arrays, by name."""
    ready = scheduled(program, target, Strategy.SERIAL)
    return {local.name: local.size for kernel in ready.kernels for local in kernel.locals if local.private}


@pytest.mark.parametrize("target", [GPU, LIMITED], ids=["gpu", "limited"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("dtype", "width"), [(float32, 4), (float64, 2), (int8, 16)], ids=["f32", "f64", "i8"])
def test_lanes_compute_sixteen_bytes_and_the_end_of_the_array(run_both, dtype, width, n, target):
    program = scheduled(sum_of(dtype), target, Strategy.SERIAL)
    assert {local.size for local in program.kernels[0].locals} == {width}
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-50, 50, n).astype(dtype.numpy) for _ in range(2))
    for out in run_both(program, [a, b, np.full(n, 77, dtype.numpy)], [n]):
        np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("n", SIZES)
def test_rows_with_a_condition_and_a_bias_of_other_dtypes(run_both, n):
    """Rows of odd lengths start at addresses that are not aligned; one value of a row is the same for all elements."""
    x, m = Load("x", J * N + I, float32), 5
    program = scheduled(nest(
        {"c": bool_, "x": float32, "row": float32}, float32,
        Let(Var("s", float32), x * Load("row", J, float32)),
        Store("out", J * N + I, select(Load("c", I, bool_), Var("s", float32), 0.5)), rows=True), GPU, Strategy.SERIAL)
    assert len(program.kernels[0].locals) == 3
    rng = np.random.default_rng(n)
    c, values, row = rng.random(n) < 0.5, rng.random((m, n), np.float32), rng.random(m, np.float32)
    expected = np.where(c, values * row[:, None], np.float32(0.5))
    for out in run_both(program, [c, values.ravel(), row, np.zeros(m * n, np.float32)], [m, n]):
        np.testing.assert_array_equal(out, expected.ravel())


def test_elements_beyond_the_end_are_not_accessed():
    program = scheduled(sum_of(float32), GPU, Strategy.SERIAL)
    a = np.arange(9, dtype=np.float32)
    out = np.zeros(9, np.float32)
    interpret(program, [a[:5], a[:5], out[:5]], [5])  # raises at an access outside
    np.testing.assert_array_equal(out, [0, 2, 4, 6, 8, 0, 0, 0, 0])


def test_results_may_replace_their_operand(run_both):
    body = Store("out", I, Load("out", I, float32) * 2.0 + cast(I, float32))
    program = scheduled(nest({}, float32, body), GPU, Strategy.SERIAL)
    for out in run_both(program, [np.arange(37, dtype=np.float32)], [37]):
        np.testing.assert_array_equal(out, 3 * np.arange(37, dtype=np.float32))


def test_the_widest_elements_have_sixteen_bytes():
    mixed = nest({"c": bool_, "h": bfloat16}, bfloat16, Store("out", I, select(
        Load("c", I, bool_), Load("h", I, bfloat16), Load("h", I, bfloat16))))
    assert set(vectors(mixed).values()) == {8}
    compared = nest({"a": float32}, bool_, Store("out", I, Load("a", I, float32) < 0.0))
    assert set(vectors(compared).values()) == {4}


def test_much_arithmetic_takes_fewer_elements():
    value = Load("a", I, float32)
    for _ in range(300):
        value = call("fma", value, value, value)
    assert set(vectors(nest({"a": float32}, float32, Store("out", I, value))).values()) == {2}
    for _ in range(900):
        value = call("fma", value, value, value)
    assert not vectors(nest({"a": float32}, float32, Store("out", I, value)))


@pytest.mark.parametrize("body", [
    Store("out", I, Load("a", I * 2, float32)),
    Store("out", I * 2, Load("a", I, float32)),
    Store("out", I, Load("a", Load("b", I, int32), float32)),
    Store("out", I, Load("out", I + 1, float32) + Load("a", I, float32)),
], ids=["strided load", "strided store", "indirect load", "another element of the result"])
def test_other_accesses_stay_single(body):
    assert not vectors(nest({"a": float32, "b": int32}, float32, body))


def test_lanes_that_run_one_after_the_other_take_one_element():
    assert not vectors(sum_of(float32), Target("simt", sequential=True))


def test_cuda_moves_vectors(ptx):
    source = print_c(scheduled(sum_of(float32), GPU, Strategy.SERIAL), CUDA)
    code = ptx(source)
    assert code.count("ld.global.v4.f32") == 2
    assert code.count("st.global.v4.f32") == 1
    assert ".local" not in code  # the arrays are registers


def test_serial_c_prints_single_elements():
    program = schedule(sum_of(float32), GPU, Strategy.SERIAL)
    text = print_c(program, C)
    assert "size_t" not in text
    assert "a_vector[a_vector_at] = a[" in text


def test_text_shows_vectors():
    program = schedule(sum_of(float32), GPU, Strategy.SERIAL)
    verify(program)
    text = format_program(program)
    assert "  private a_vector: f32[4]\n" in text
    assert "load a_vector = a[first] up to count\n" in text
    assert "store out[first] = out_vector up to count\n" in text


def test_constants_are_stored_as_vectors(run_both):
    program = scheduled(nest({}, int32, Store("out", I, const(7, int32))), GPU, Strategy.SERIAL)
    for out in run_both(program, [np.zeros(11, np.int32)], [11]):
        assert out.tolist() == [7] * 11


@pytest.fixture
def run_both(opencl):
    """``run_both(program, arrays, scalars)``: what the interpreter and an OpenCL device leave in the last array.

    On the device, all arrays begin three elements into their memory.
    """

    def run(program, arrays, scalars):
        results = []
        for execute in (interpret, opencl):
            copies = [a.copy() for a in arrays]
            execute(program, copies, scalars)
            results.append(copies[-1])
        return results

    return run


@pytest.fixture
def ptx():
    """``ptx(source)``: the PTX that NVRTC makes of a source."""
    pytest.importorskip("cuda.bindings")
    from tensocket_cuda.compiler import build

    return lambda source: build(source, "compute_90").decode()
