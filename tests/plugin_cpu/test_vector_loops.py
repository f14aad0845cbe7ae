"""VECTOR loops as vector instructions, against NumPy and against the same loops printed for one lane at a time."""

from __future__ import annotations

import platform

import llvmlite.binding as llvm
import numpy as np
import pytest

from tensocket_cpu.code import compiler
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
    uint64,
)
from tensocket_plugins.ir.functions import FUNCTIONS
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Assign,
    Buffer,
    Call,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Local,
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
from tensocket_plugins.ir.printers.llvm import print_llvm

I, J, N, S = (Var(name, int32) for name in ("i", "j", "n", "s"))
V = LoopKind.VECTOR
DTYPES = (bool_, uint8, int8, int32, uint32, int64, uint64, float16, bfloat16, float32, float64)
LIBRARY = {"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow"}


def program(body, buffers, scalars=(N,), locals=()):
    params = (*(Buffer(name, dtype, name.startswith("out")) for name, dtype in buffers),
              *(Scalar(s.name, s.dtype) for s in scalars))
    return Program("test", params, (Kernel("test", tuple(body), tuple(locals)),))


def run(device, built, arrays, scalars=()):
    """Results of the compiled program, which must have no loop over lanes, checked against the interpreter's."""
    expected = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        interpret(built, expected, scalars)
    device.compile_ir(built)(arrays, scalars, device.default_stream)
    for got, want in zip(arrays, expected, strict=True):
        assert got.tobytes() == want.tobytes() or np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
    return arrays[0]


def values(dtype, rng, count):
    if dtype is bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.kind != "float":
        return rng.integers(1, 100, count).astype(dtype.numpy)
    if dtype is bfloat16:
        return (rng.standard_normal(count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return (rng.standard_normal(count) * 50).astype(dtype.numpy)


def test_neighbours_are_read_and_written_at_once(device, rng):
    built = program([loop(J, 16, [Store("out", N + J, Load("in0", N + J, float32) * 2.0)], V)],
                    [("out", float32), ("in0", float32)])
    text = print_llvm(built)
    assert "load <16 x float>" in text
    assert "br " not in text
    x = rng.standard_normal(40).astype(np.float32)
    out = run(device, built, [np.zeros(40, np.float32), x], (5,))
    np.testing.assert_array_equal(out[5:21], x[5:21] * 2)
    assert not out[:5].any()
    assert not out[21:].any()


def test_other_steps_gather_and_scatter(device, rng):
    added = Load("in0", J * S, float32) + Load("in0", N - J, float32)
    built = program([loop(J, 8, [Store("out", J * 3 + 1, added)], V)],
                    [("out", float32), ("in0", float32)], (N, S))
    x = rng.standard_normal(64).astype(np.float32)
    out = run(device, built, [np.zeros(30, np.float32), x], (20, 7))
    lanes = np.arange(8)
    np.testing.assert_array_equal(out[lanes * 3 + 1], x[lanes * 7] + x[20 - lanes])


@pytest.mark.parametrize("step", [2, 3])
def test_every_second_and_every_third_element(device, rng, step):
    """Steps that are known: nothing beyond the last element is read."""
    built = program([loop(J, 16, [If(J < N, (Store("out", J, Load("in0", J * step, float32)),))], V)],
                    [("out", float32), ("in0", float32)])
    assert ("gather" in print_llvm(built)) == (step == 3)
    x = rng.standard_normal(10 * step + 1).astype(np.float32)
    out = run(device, built, [np.zeros(16, np.float32), x], (11,))
    np.testing.assert_array_equal(out[:11], x[::step])


@pytest.mark.parametrize("count", [0, 3, 16])
def test_one_element_for_all_lanes_is_read_only_where_a_lane_takes_part(device, rng, count):
    built = program([loop(J, 16, [If(J < N, (Store("out", J, Load("in0", J * 0 + S, float32)),))], V)],
                    [("out", float32), ("in0", float32)], (N, S))
    assert "gather" not in print_llvm(built)
    x = rng.standard_normal(3).astype(np.float32)
    # Far beyond the array, where nothing may be read.
    out = run(device, built, [np.zeros(16, np.float32), x], (count, 2 if count else (1 << 31) - 1))
    np.testing.assert_array_equal(out, np.where(np.arange(16) < count, x[2], 0))


@pytest.mark.parametrize("step", [2, 3])
def test_small_local_arrays_are_permuted_in_registers(device, rng, step):
    whole = [loop(J, 8, [Store("line", J + 8 * k, Load("in0", J + 8 * k, float32))], V) for k in range(step)]
    turn = loop(J, 8, [Let(Var("value", float32), Load("line", J * step + 1, float32)),
                       Store("out", J, Var("value", float32))], V)
    spread = loop(J, 8, [Store("line", J * step, Load("in0", J, float32) * 2.0)], V)
    back = [loop(J, 8, [Store("out", J + 8 * (k + 1), Load("line", J + 8 * k, float32))], V) for k in range(step)]
    built = program([*whole, turn, spread, *back], [("out", float32), ("in0", float32)], (),
                    [Local("line", float32, 8 * step)])
    assert not any(word in print_llvm(built) for word in ("gather", "scatter", "masked"))
    x = rng.standard_normal(8 * step).astype(np.float32)
    out = run(device, built, [np.zeros(8 * step + 8, np.float32), x])
    expected = x.copy()
    expected[::step] = x[:8] * 2
    np.testing.assert_array_equal(out, np.concatenate([x[1::step], expected]))


def test_lanes_beyond_a_local_array_are_masked_off(device, rng):
    fill = loop(J, 8, [Store("line", J, Load("in0", J, float32))], V)
    built = program([fill, loop(J, 8, [If(J < N, (Store("out", J, Load("line", J * 2 + 1, float32)),
                                                 Store("line", J * 2, Load("in0", J, float32))))], V),
                     loop(J, 8, [Store("out", J + 8, Load("line", J, float32))], V)],
                    [("out", float32), ("in0", float32)], (N,), [Local("line", float32, 8)])
    x = rng.standard_normal(8).astype(np.float32)
    out = run(device, built, [np.zeros(16, np.float32), x], (3,))
    expected = x.copy()
    expected[:6:2] = x[:3]
    np.testing.assert_array_equal(out, np.concatenate([x[1:6:2], np.zeros(5), expected]))


@pytest.mark.parametrize(("bound", "lanes"), [(16, 16), (11, 16), (0, 16), (5, 8)])
@pytest.mark.parametrize("dtype", [float32, int8, bool_, int64, bfloat16])
def test_neighbours_are_read_backwards_at_once(device, rng, dtype, bound, lanes):
    """Nothing before the last lane's element is read."""
    built = program([loop(J, lanes, [If(J < N, (Store("out", J, Load("in0", N - 1 - J, dtype)),))], V)],
                    [("out", dtype), ("in0", dtype)])
    assert "gather" not in print_llvm(built)
    x = values(dtype, rng, bound)
    out = run(device, built, [np.zeros(lanes, dtype.numpy), x], (bound,))
    np.testing.assert_array_equal(out[:bound], x[::-1])


def test_narrow_numbers_of_wide_positions(device):
    built = program([loop(J, 16, [Store("out", J, cast(cast(J, int64) * 3 + cast(N, int64), int32))], V)],
                    [("out", int32)])
    np.testing.assert_array_equal(run(device, built, [np.zeros(16, np.int32)], (7,)), np.arange(16) * 3 + 7)


def test_elements_of_elements(device, rng):
    at = Load("in1", J, int64)
    built = program([loop(J, 8, [Store("out", J, Load("in0", at, float32))], V)],
                    [("out", float32), ("in0", float32), ("in1", int64)], ())
    x, index = rng.standard_normal(64).astype(np.float32), rng.integers(0, 64, 8)
    np.testing.assert_array_equal(run(device, built, [np.zeros(8, np.float32), x, index]), x[index])


@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_a_condition_masks_reads_and_writes(device, rng, count):
    added = Load("in0", I - 1, float32) + Load("in1", N - N, float32)
    built = program([loop(J, 16, [If(J < N, (Let(I, J + 1), Store("out", J, added)))], V)],
                    [("out", float32), ("in0", float32), ("in1", float32)])
    x, y = rng.standard_normal(count).astype(np.float32), rng.standard_normal(min(count, 1)).astype(np.float32)
    out = run(device, built, [np.full(16, -1, np.float32), x, y], (count,))
    np.testing.assert_array_equal(out[:count], x + y if count else x)
    assert (out[count:] == -1).all()


@pytest.mark.parametrize("bound", [-3, 0, 4, 5, 6, 20, 21, 40])
@pytest.mark.parametrize("form", ["lt", "le", "turned lt", "turned le"])
def test_comparisons_of_positions_with_bounds(device, bound, form):
    position, name = J + 5, form.split()[-1]
    condition = call(name, N, position) if "turned" in form else call(name, position, N)
    built = program([loop(J, 16, [Store("out", J, condition)], V)], [("out", bool_)])
    got = run(device, built, [np.zeros(16, np.bool_)], (bound,))
    positions = np.arange(16) + 5
    expected = {"lt": positions < bound, "le": positions <= bound,
                "turned lt": bound < positions, "turned le": bound <= positions}[form]
    np.testing.assert_array_equal(got, expected)


def test_conditions_nest_and_strided_accesses_are_masked(device, rng):
    inner = If(Load("in0", J * 2, float32) < 0.0, (Store("out", J * 2, const(7.0, float32)),))
    built = program([loop(J, 16, [If(J < N, (inner,))], V)], [("out", float32), ("in0", float32)])
    x = rng.standard_normal(12).astype(np.float32)
    out = run(device, built, [np.zeros(12, np.float32), x], (6,))
    np.testing.assert_array_equal(out[::2], np.where(x[::2] < 0, 7, 0))


def test_variables_are_kept_per_lane(device, rng):
    total = Var("total", float32)
    body = [Declare(total, Load("in0", J, float32)), Assign(total, total + 1.0),
            If(J < 3, (Assign(total, total * 10.0),)), Store("out", J, total)]
    built = program([loop(J, 8, body, V)], [("out", float32), ("in0", float32)], ())
    x = rng.integers(0, 50, 8).astype(np.float32)
    out = run(device, built, [np.zeros(8, np.float32), x])
    np.testing.assert_array_equal(out, np.where(np.arange(8) < 3, (x + 1) * 10, x + 1))


def test_serial_loops_run_for_all_lanes_together(device, rng):
    total = Var("total", float32)
    element = Load("in0", (J * N + I) * 3, float32)
    body = [Declare(total, const(0.0, float32)),
            If(J < S, (loop(I, N, [If(element > 0.0, (Assign(total, total + element),))]), Store("out", J, total)))]
    built = program([loop(J, 16, body, V)], [("out", float32), ("in0", float32)], (N, S))
    assert "<16 x float>" in print_llvm(built)
    x = rng.integers(-50, 50, 16 * 5 * 3).astype(np.float32)
    out = run(device, built, [np.full(16, -1, np.float32), x], (5, 11))
    np.testing.assert_array_equal(out[:11], np.maximum(x.reshape(16, 5, 3)[:11, :, 0], 0).sum(1))
    assert (out[11:] == -1).all()


def test_a_loop_whose_length_differs_between_lanes_stays_scalar(device, rng):
    built = program([loop(J, 8, [loop(I, J + 1, [Store("out", J * 8 + I, Load("in0", I, float32))])], V)],
                    [("out", float32), ("in0", float32)], ())
    x = rng.standard_normal(8).astype(np.float32)
    out = run(device, built, [np.zeros(64, np.float32), x]).reshape(8, 8)
    np.testing.assert_array_equal(out, np.tril(np.broadcast_to(x, (8, 8))))


def test_local_arrays_become_registers(device, rng):
    at = lambda k: Load("part", k, float32)
    built = program([
        loop(J, 32, [Store("part", J, const(0.0, float32))], V),
        loop(I, N, [loop(J, 32, [Store("part", J, at(J) + Load("in0", I * 32 + J, float32))], V)]),
        loop(J, 16, [Store("part", J, at(J) + at(J + 16))], V),
        loop(J, 16, [Store("out", J, at(J))], V),
    ], [("out", float32), ("in0", float32)], locals=(Local("part", float32, 32),))
    x = rng.integers(-99, 99, 32 * 9).astype(np.float32)
    out = run(device, built, [np.zeros(16, np.float32), x], (9,))
    np.testing.assert_array_equal(out, x.reshape(9, 2, 16).sum((0, 1)))


@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.name)
def test_casts(device, rng, source):
    for target in DTYPES:
        built = program([loop(J, 16, [Store("out", J, cast(Load("in0", J, source), target))], V)],
                        [("out", target), ("in0", source)], ())
        x = values(source, rng, 16)
        if source.kind == "float" and target.kind in ("int", "uint") and source is not bfloat16:
            x = np.abs(x) % 100
        elif source is bfloat16:
            x &= 0x7FFF
        run(device, built, [np.zeros(16, target.numpy), x.astype(source.numpy)])


FORMS = [(name, dtype) for name, row in sorted(FUNCTIONS.items())
         for dtype in (bool_, int32, uint8, int64, float32, float64)
         if row.rule in ("same", "compare") and {"bool": "b", "float": "f"}.get(dtype.kind, "i") in row.domain]


@pytest.mark.parametrize(("name", "dtype"), FORMS, ids=lambda v: v if isinstance(v, str) else v.name)
def test_functions(device, rng, name, dtype):
    args = [Load(f"in{k}", J, dtype) for k in range(FUNCTIONS[name].arity)]
    value = call(name, *args)
    built = program([loop(J, 16, [Store("out", J, value)], V)],
                    [("out", value.dtype), *((f"in{k}", dtype) for k in range(len(args)))], ())
    library = name in LIBRARY and dtype.kind == "float"
    # A remainder looks whether any lane needs the library.
    assert ("br " in print_llvm(built)) == (library or name == "fmod")
    if library:
        return  # one lane at a time, as tested elsewhere
    arrays = [values(dtype, rng, 16) for _ in args]
    if name in ("shl", "shr"):
        arrays[1] %= dtype.itemsize * 8
    if dtype.kind == "float":
        arrays[0][:3] = [np.nan, np.inf, -0.0]
    run(device, built, [np.zeros(16, value.dtype.numpy), *arrays])


def test_select_bitcast_and_uniform_values(device, rng):
    x = Load("in0", J, float32)
    word = Call("bitcast", (x,), int32)
    value = select((word & 1) < 1, x, Load("in0", N, float32))
    built = program([loop(J, 16, [Store("out", J, value)], V)], [("out", float32), ("in0", float32)])
    data = rng.standard_normal(16).astype(np.float32)
    out = run(device, built, [np.zeros(16, np.float32), data], (3,))
    np.testing.assert_array_equal(out, np.where(data.view(np.int32) & 1, data[3], data))


def test_lane_numbers_are_values(device):
    built = program([loop(J, 16, [Store("out", J, cast(J * N + 1, float32))], V)], [("out", float32)])
    out = run(device, built, [np.zeros(16, np.float32)], (5,))
    np.testing.assert_array_equal(out, np.arange(16) * 5 + 1)


def test_all_dtypes_have_a_name():
    assert {d.name for d in DTYPES} <= set(BY_NAME)


@pytest.mark.parametrize(("found", "text"), [
    ({"avx2": True, "avx512f": True}, "+avx2,+avx512f,-prefer-256-bit"),
    ({"avx2": True, "avx512f": False}, "+avx2,-avx512f"), (None, "")])
def test_vectors_are_as_wide_as_the_processors(monkeypatch, found, text):
    def features():
        if found is None:
            raise RuntimeError("unknown processor")
        made = llvm.FeatureMap()
        made.update(found)
        return made

    monkeypatch.setattr(compiler.llvm, "get_host_cpu_features", features)
    assert compiler._features() == text


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="LLVM may know no other processors")
def test_the_feature_gives_loops_of_intel_processors_vectors_of_64_bytes():
    text = """define void @f(ptr noalias %a, ptr noalias %b) {
start:
  br label %loop
loop:
  %i = phi i64 [0, %start], [%next, %loop]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %x = load float, ptr %p
  %y = fmul float %x, %x
  store float %y, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 4096
  br i1 %more, label %loop, label %end
end:
  ret void
}"""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()

    def code(features):
        machine = target.create_target_machine(cpu="sapphirerapids", features=features, opt=3)
        module = llvm.parse_assembly(text)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return machine.emit_assembly(module)

    assert "zmm" in code("-prefer-256-bit")
    assert "zmm" not in code("")
