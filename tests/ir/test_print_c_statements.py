"""Statements in C, and what the printer says of programs that it cannot print."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import (
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
    uint8,
)
from tensocket_plugins.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Buffer,
    Combine,
    Declare,
    If,
    IRError,
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
from tensocket_plugins.ir.printers.c import kernel_params, print_c
from tensocket_plugins.ir.printers.dialect import CUDA, OPENCL, C
from tensocket_plugins.ir.verify import verify

LANES = 64
SIZE = 200
i, n = Var("i", int32), Var("n", int32)
N = Scalar("n", int32)


def test_shared_parts_are_computed_once(run, nest, dialect, rng):
    x = Load("a", i, float32)
    for _ in range(40):
        x = 0.5 * (x * x + x)  # 2**40 operations if printed as a tree
    program = nest((Buffer("out", float32, True), Buffer("a", float32)), Store("out", i, x))
    a = rng.uniform(-1, 1, SIZE).astype(np.float32)
    actual, _ = run(program, [np.zeros(SIZE, np.float32), a])
    truth = a.copy()
    for _ in range(40):
        truth = np.float32(0.5) * (truth * truth + truth)
    np.testing.assert_array_equal(actual[0], truth)
    assert print_c(program, dialect).count(" * ") < 100


def test_long_chains_are_split(execute, nest):
    x = Load("a", i, float32)
    for _ in range(2000):
        x = x + 1.0
    program = nest((Buffer("out", float32, True), Buffer("a", float32)), Store("out", i, x), check=False)
    out = np.zeros(4, np.float32)
    execute(program, [out, np.arange(4, dtype=np.float32)], (4,))
    np.testing.assert_array_equal(out, np.arange(4) + 2000)


def loops_program(nest):
    """``out[i] = sum(a[i, 2:n:s])`` by a loop with a variable, plus 4 unrolled ones."""
    s, j, k = Var("s", int32), Var("j", int32), Var("k", int32)
    total, stop = Var("total", int64), Var("stop", int32)
    return nest(
        (Buffer("out", int64, True), Buffer("a", int64), Scalar("s", int32)),
        Declare(total, const(0, int64)), Declare(stop, n + 0),
        loop(j, stop, (Assign(total, total + Load("a", i * n + j, int64)), Assign(stop, stop - 0)), start=2, step=s),
        loop(k, 4, (Assign(total, total + cast(k, int64)),), LoopKind.VECTOR),
        Store("out", i, total))


def test_loops_and_variables(run, nest, rng):
    a = rng.integers(-100, 100, (9, 9))
    actual, _ = run(loops_program(nest), [np.zeros(9, np.int64), a.ravel()], (3, 9))
    np.testing.assert_array_equal(actual[0], a[:, 2::3].sum(1) + 6)


@pytest.mark.parametrize("dtype", [int32, int64, float32, float64], ids=lambda d: d.short)
@pytest.mark.parametrize("function", ["add", "min", "max"])
def test_atomics(run, nest, dtype, function, rng):
    program = nest((Buffer("out", dtype, True), Buffer("a", dtype)),
                        Atomic(function, "out", i % 3, Load("a", i, dtype)))
    a = rng.integers(-50, 50, SIZE).astype(dtype.numpy)
    start = np.full(3, 5, dtype.numpy)
    actual, _ = run(program, [start, a])
    merge = {"add": np.add, "min": np.minimum, "max": np.maximum}[function]
    np.testing.assert_array_equal(actual[0], [merge.reduce(np.append(a[k::3], start[k])) for k in range(3)])


def test_atomic_minimum_keeps_nan(run, nest):
    program = nest((Buffer("out", float32, True), Buffer("a", float32)),
                        Atomic("min", "out", const(0, int32), Load("a", i, float32)))
    a = np.linspace(-1, 1, SIZE).astype(np.float32)
    a[17] = np.nan
    actual, _ = run(program, [np.zeros(1, np.float32), a])
    assert np.isnan(actual[0][0])


def tree_program(dtype):
    """Two kernels: sums of chunks by a tree in local memory into a temporary, then the sum of these."""
    g, l, step = Var("g", int32), Var("l", int32), Var("step", int32)
    acc = Var("acc", dtype)

    def tree(first, store):
        halves = []
        width = LANES
        while width > 1:
            width //= 2
            both = Load("tile", l, dtype) + Load("tile", l + width, dtype)
            halves += [Barrier(), If(l < width, (Store("tile", l, both),))]
        return (*first, Store("tile", l, acc), *halves, Barrier(), If(call("eq", l, 0), (store,)))

    at = g * LANES + l
    load = select(at < n, Load("a", select(at < n, at, 0), dtype), 0)
    first = tree((Let(acc, load),), Store("part", g, Load("tile", const(0, int32), dtype)))
    many = (n + (LANES - 1)) // LANES
    second = tree((Declare(acc, const(0, dtype)),
                   loop(step, many, (Assign(acc, acc + Load("part", step, dtype)),), start=l, step=LANES)),
                  Store("out", const(0, int32), Load("tile", const(0, int32), dtype)))
    tile = (Local("tile", dtype, LANES),)
    program = Program(
        "sum", (Buffer("out", dtype, True), Buffer("a", dtype), N),
        (Kernel("chunks", (loop(g, many, (loop(l, LANES, first, LoopKind.LANE),), LoopKind.GROUP),), tile),
         Kernel("final", (loop(g, 1, (loop(l, LANES, second, LoopKind.LANE),), LoopKind.GROUP),), tile)),
        (Temporary("part", dtype, many),))
    verify(program)
    return program


@pytest.mark.parametrize("dtype", [int32, float32, float64], ids=lambda d: d.short)
def test_local_memory_barriers_and_temporaries(opencl, dtype, rng):
    a = rng.integers(-1000, 1000, 1777).astype(dtype.numpy)
    out = np.zeros(1, dtype.numpy)
    opencl(tree_program(dtype), [out, a], (a.size,))
    assert out[0] == a.sum()


def local_types_program():
    """Reverses bools and halves within a group through local memory, and takes a maximum there with an atomic."""
    g, l = Var("g", int32), Var("l", int32)
    body = (Store("flags", l, Load("c", l, bool_)), Store("halves", l, Load("a", l, float16)),
            If(call("eq", l, 0), (Store("best", const(0, int32), const(-1e9, float32)),)), Barrier(),
            Store("c_out", l, Load("flags", (LANES - 1) - l, bool_)),
            Store("a_out", l, Load("halves", (LANES - 1) - l, float16)),
            Atomic("max", "best", const(0, int32), cast(Load("a", l, float16), float32)), Barrier(),
            If(call("eq", l, 0), (Store("m_out", const(0, int32), Load("best", const(0, int32), float32)),)))
    program = Program(
        "swap", (Buffer("c_out", bool_, True), Buffer("a_out", float16, True), Buffer("m_out", float32, True),
                 Buffer("c", bool_), Buffer("a", float16)),
        (Kernel("k", (loop(g, 1, (loop(l, LANES, body, LoopKind.LANE),), LoopKind.GROUP),),
                (Local("flags", bool_, LANES), Local("halves", float16, LANES), Local("best", float32, 1))),))
    verify(program)
    return program


def test_local_bool_half_and_atomic(opencl, rng):
    c, a = rng.integers(0, 2, LANES).astype(bool), rng.standard_normal(LANES).astype(np.float16)
    arrays = [np.zeros(LANES, bool), np.zeros(LANES, np.float16), np.zeros(1, np.float32), c, a]
    opencl(local_types_program(), arrays, ())
    np.testing.assert_array_equal(arrays[0], c[::-1])
    np.testing.assert_array_equal(arrays[1], a[::-1])
    assert arrays[2][0] == a.max()


def axes_program():
    """A matrix transposed with two axes of groups and two of lanes; the last loop of a kind is the fastest axis."""
    gy, gx, ly, lx = (Var(name, int64) for name in ("gy", "gx", "ly", "lx"))
    rows, columns = Var("rows", int64), Var("columns", int64)
    y, x = Var("y", int64), Var("x", int64)
    body = (Let(y, gy * 4 + ly), Let(x, gx * 16 + lx),
            If((y < rows) & (x < columns), (Store("out", x * rows + y, Load("a", y * columns + x, int16)),)))
    nest = loop(gy, (rows + 3) // 4, (loop(gx, (columns + 15) // 16, (
        loop(ly, 4, (loop(lx, 16, body, LoopKind.LANE),), LoopKind.LANE),), LoopKind.GROUP),), LoopKind.GROUP)
    program = Program("transpose", (Buffer("out", int16, True), Buffer("a", int16), Scalar("rows", int64),
                                    Scalar("columns", int64)), (Kernel("k", (nest,)),))
    verify(program)
    return program


def test_two_axes(opencl, rng):
    a = rng.integers(-9, 9, (13, 37)).astype(np.int16)
    out = np.zeros(a.size, np.int16)
    opencl(axes_program(), [out, a.ravel()], a.shape)
    np.testing.assert_array_equal(out.reshape(37, 13), a.T)


def argmax_nest():
    """An unscheduled row argmax: two accumulators over two loops."""
    j, k = Var("j", int32), Var("k", int32)
    value, index = Var("value", float32), Var("index", int32)
    a, b, p, q = Var("a_value", float32), Var("b_value", float32), Var("a_index", int32), Var("b_index", int32)
    x = Load("a", i * 12 + j * 4 + k, float32)
    left = (a > b) | (call("eq", a, b) & (p < q))
    reduce = Reduce((value, index), ((j, const(3, int32)), (k, const(4, int32))), (Let(Var("x", float32), x),),
                    (Var("x", float32), j * 4 + k), (const(float("-inf"), float32), const(2**31 - 1, int32)),
                    Combine((a, p), (b, q), (select(left, a, b), select(left, p, q))))
    program = Program("argmax", (Buffer("out", int32, True), Buffer("a", float32), N),
                      (Kernel("k", (loop(i, n, (reduce, Store("out", i, index)), LoopKind.PARALLEL),)),))
    verify(program)
    return program


def test_reductions_in_serial_c(serial_c, rng):
    a = rng.integers(0, 5, (20, 12)).astype(np.float32)
    out = np.zeros(20, np.int32)
    serial_c(argmax_nest(), [out, a.ravel()], (20,))
    np.testing.assert_array_equal(out, a.argmax(1))


def test_reserved_names_are_changed(run, nest):
    half, new, expf = Var("half", float32), Var("new", float32), Var("expf", float32)
    program = nest((Buffer("float", float32, True), Buffer("kernel", float32), Scalar("ts_0", float32)),
                        Let(half, Load("kernel", i, float32)), Let(new, half + half), Let(expf, call("exp", new * new)),
                        Store("float", i, expf + Var("ts_0", float32)))
    actual, _ = run(program, [np.zeros(3, np.float32), np.zeros(3, np.float32)], (0.5, 3))
    np.testing.assert_array_equal(actual[0], [1.5, 1.5, 1.5])


@pytest.mark.parametrize("dtype", [int32, int64, float32, float64], ids=lambda d: d.short)
def test_nvrtc_compiles_atomics(nvrtc, simt_nest, dtype):
    body = [Atomic(f, "out", i, Load("a", i, dtype)) for f in ("add", "min", "max")]
    nvrtc(print_c(simt_nest((Buffer("out", dtype, True), Buffer("a", dtype)), *body), CUDA))


@pytest.mark.parametrize("make", [lambda: tree_program(float32), lambda: tree_program(float64), local_types_program,
                                  axes_program])
def test_nvrtc_compiles_statements(nvrtc, make):
    nvrtc(print_c(make(), CUDA))


def test_nvrtc_compiles_loops(nvrtc, simt_nest):
    nvrtc(print_c(loops_program(simt_nest), CUDA))


@pytest.mark.parametrize("name", ["div", "exp", "half", "main", "normalize"])
def test_kernels_may_have_any_name(execute, nest, name):
    program = nest((Buffer("out", int32, True),), Store("out", i, i * 2))
    program = Program(name, program.params, (Kernel(name, program.kernels[0].body),))
    out = np.zeros(5, np.int32)
    execute(program, [out], (5,))
    np.testing.assert_array_equal(out, [0, 2, 4, 6, 8])


def test_text_depends_on_the_program_alone():
    assert print_c(tree_program(float64), OPENCL) == print_c(tree_program(float64), OPENCL)


def test_float64_is_enabled_only_where_it_is_used():
    assert "cl_khr_fp64" in print_c(tree_program(float64), OPENCL)
    text = print_c(tree_program(float32), OPENCL)
    assert "double" not in text
    assert "fp64" not in text


def test_contraction_is_off_in_every_opencl_source():
    assert print_c(tree_program(int32), OPENCL).startswith("#pragma OPENCL FP_CONTRACT OFF\n")


def test_kernels_take_what_they_use():
    program = tree_program(float32)
    names = [[p.name for p in kernel_params(program, k, OPENCL)] for k in program.kernels]
    assert names == [["a", "n", "part"], ["out", "n", "part"]]


def test_group_extents_are_no_parameters_of_the_kernel():
    g = Var("g", int32)
    kernel = Kernel("k", (loop(g, n, (Store("out", g, const(1, int32)),), LoopKind.GROUP),))
    program = Program("p", (Buffer("out", int32, True), N), (kernel,))
    assert [p.name for p in kernel_params(program, kernel, OPENCL)] == ["out"]
    assert [p.name for p in kernel_params(program, kernel, C)] == ["out", "n"]


def test_unscheduled_programs_are_refused(serial_nest):
    unscheduled = serial_nest((Buffer("out", int32, True),), Store("out", i, i))
    with pytest.raises(IRError, match="kernel k is not scheduled: loop i is PARALLEL"):
        print_c(unscheduled, OPENCL)
    reduction = argmax_nest()
    body = reduction.kernels[0].body[0].body
    bare = Program("p", reduction.params, (Kernel("k", (loop(i, n, body, LoopKind.GROUP),)),))
    with pytest.raises(IRError, match="kernel k is not scheduled: it has a Reduce"):
        print_c(bare, CUDA)


def test_serial_c_has_no_barriers():
    with pytest.raises(IRError, match="C has no barriers"):
        print_c(tree_program(int32), C)


def test_unknown_types_and_names_are_refused():
    x = Load("a", i, complex64)
    program = Program("p", (Buffer("out", complex64, True), Buffer("a", complex64), N),
                      (Kernel("k", (loop(i, n, (Store("out", i, x),), LoopKind.GROUP),)),))
    with pytest.raises(IRError, match=r"OpenCL C has no type for complex64"):
        print_c(program, OPENCL)
    spelled = Program("p", (Buffer("out 1", int32, True), N),
                      (Kernel("k", (loop(i, n, (Store("out 1", i, i),), LoopKind.GROUP),)),))
    with pytest.raises(IRError, match="'out 1' cannot be a name in OpenCL C"):
        print_c(spelled, OPENCL)


def test_loops_out_of_place_are_refused():
    g, l = Var("g", int32), Var("l", int32)
    inner = loop(l, LANES, (Store("out", l, l),), LoopKind.LANE)
    outer = loop(g, 1, (Let(i, g), inner), LoopKind.GROUP)
    program = Program("p", (Buffer("out", int32, True),), (Kernel("k", (outer,)),))
    with pytest.raises(IRError, match="loop l is not among the outermost loops"):
        print_c(program, OPENCL)
    varying = Program("p", (Buffer("out", int32, True), N), (Kernel("k", (loop(l, n, inner.body, LoopKind.LANE),)),))
    with pytest.raises(IRError, match="extent of LANE loop l is not a constant"):
        print_c(varying, OPENCL)


def test_missing_atomics_are_refused(simt_nest):
    program = simt_nest((Buffer("out", uint8, True),), Atomic("add", "out", i, const(1, uint8)), check=False)
    with pytest.raises(IRError, match="OpenCL C has no atomic add of uint8"):
        print_c(program, OPENCL)
