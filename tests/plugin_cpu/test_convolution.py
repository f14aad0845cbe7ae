"""The direct convolution against sums over windows in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.kernels import winograd
from tensocket_plugins.contract.dtypes import BY_NAME, bfloat16
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16

#: Batch, groups, channels of a group in and out, sizes, kernel, stride, padding, dilation.
CASES = [
    (2, 1, 3, 5, (20,), (3,), (1,), (1,), (1,)),
    (1, 2, 2, 9, (33,), (5,), (3,), (4,), (2,)),
    (2, 1, 1, 16, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 1, 5, 17, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 1, 4, 8, (9, 70), (2, 5), (1, 1), (0, 2), (3, 1)),
    (2, 3, 2, 4, (12, 20), (3, 2), (2, 3), (1, 0), (1, 2)),
    (2, 1, 3, 6, (33, 12), (7, 7), (2, 2), (3, 3), (1, 1)),
    (1, 1, 2, 2, (6, 6), (1, 1), (2, 2), (0, 0), (1, 1)),
    (2, 4, 1, 1, (10, 10), (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 1, 2, 3, (5, 8, 6), (3, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 2)),
    (1, 1, 1, 1, (5, 5), (2, 2), (3, 3), (4, 4), (1, 1)),
]


def outputs(case):
    _, _, _, _, sizes, kernel, stride, padding, dilation = case
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                 for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True))


def windows(x, case):
    """[B, G, C, outputs, taps] of an image."""
    batch, groups, taken, _, _, kernel, stride, padding, dilation = case
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    span = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, span, tuple(range(2, x.ndim)))
    view = view[(slice(None), slice(None), *(slice(None, None, s) for s in stride),
                 *(slice(None, None, d) for d in dilation))]
    return view.reshape(batch, groups, taken, math.prod(outputs(case)), math.prod(kernel))


def convolve(x, w, case):
    batch, groups, taken, made = case[:4]
    found = np.einsum("bgcok,gmck->bgmo", windows(x, case), w.reshape(groups, made, taken, -1))
    return found.reshape(batch, groups * made, *outputs(case))


def operands(case, dtype, rng):
    batch, groups, taken, made, sizes, kernel = case[:6]
    shapes = [(batch, groups * taken, *sizes), (groups * made, taken, *kernel), (batch, groups * made, *outputs(case))]
    return [stored(rng.standard_normal(shape), dtype) for shape in shapes]


def stored(values, dtype):
    return float32_to_bfloat16(values.astype(np.float32)) if dtype is bfloat16 else values.astype(dtype.numpy)


def exact(array, dtype):
    return (bfloat16_to_float32(array) if dtype is bfloat16 else array).astype(np.float64)


def run(device, operator, dtype, shape, ins, case):
    out = np.full(shape, 77, dtype.numpy)
    kernel = device.kernels.find(operator, dtype.name, direct=False)
    kernel.run([out], ins, (*case[6:], case[1]), device.default_stream)
    return out


TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


def close(got, expected, dtype, terms):
    """Within rounding of the sums, relative to their usual size."""
    scale = math.sqrt(max(terms, 1)) + np.abs(expected)
    assert np.max(np.abs(exact(got, dtype) - expected) / scale) < TOLERANCE[dtype.name]


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_all_three_kernels(device, rng, case, name):
    dtype = BY_NAME[name]
    x, w, grad = operands(case, dtype, rng)
    wide_x, wide_w, wide_grad = (exact(a, dtype) for a in (x, w, grad))
    taken, made, taps = case[2], case[3], math.prod(case[5])
    close(run(device, "convolve", dtype, grad.shape, [x, w], case), convolve(wide_x, wide_w, case), dtype, taken * taps)
    close(run(device, "convolve_weight", dtype, w.shape, [grad, x], case), weight(wide_grad, wide_x, case), dtype,
          grad.size)
    expected = transposed(wide_grad, wide_w, case)
    close(run(device, "convolve_input", dtype, x.shape, [grad, w], case), expected, dtype, made * taps)


def weight(grad, x, case):
    """The gradient of the weight."""
    batch, groups, taken, made, _, kernel = case[:6]
    found = np.einsum("bgcok,bgmo->gmck", windows(x, case), grad.reshape(batch, groups, made, -1))
    return found.reshape(groups * made, taken, *kernel)


def transposed(grad, w, case):
    """The gradient of the image, by what every element of it adds."""
    batch, groups, taken, made, sizes = case[:5]
    by_group, expected = grad.reshape(batch, groups, made, -1), np.zeros((batch, groups * taken, *sizes))
    for place in np.ndindex(sizes):
        one = np.zeros((1, *expected.shape[1:]))
        one[(slice(None), slice(None), *place)] = 1
        seen = windows(one, (1, *case[1:]))[0, :, 0]
        parts = np.einsum("gok,gmck,bgmo->bgc", seen, w.reshape(groups, made, taken, -1), by_group)
        expected[(slice(None), slice(None), *place)] = parts.reshape(batch, -1)
    return expected


def test_operands_of_any_layout(device, rng):
    case, dtype = (2, 1, 5, 6, (11, 13), (3, 3), (2, 1), (1, 2), (1, 1)), BY_NAME["float32"]
    plain = operands(case, dtype, rng)
    # The last dimension backwards in memory, and the first one fastest.
    turned = [np.asfortranarray(a[..., ::-1])[..., ::-1] for a in plain]
    assert not any(a.flags.c_contiguous for a in turned)
    for operator, result, first, second in (("convolve", 2, 0, 1), ("convolve_input", 0, 2, 1),
                                            ("convolve_weight", 1, 2, 0)):
        got, expected = (run(device, operator, dtype, plain[result].shape, [ins[first], ins[second]], case)
                         for ins in (turned, plain))
        assert got.tobytes() == expected.tobytes()


def interpreting(device, monkeypatch):
    """A device that has every program run by the reference interpreter, too, and the names of these."""
    other, ran = CpuDevice(0), []

    def compile_ir(program):
        compiled = device.compile_ir(program)

        def both(buffers, scalars, stream):
            copies = [np.array(b) for b in buffers]
            compiled(buffers, scalars, stream)
            interpret(program, copies, scalars)
            # Lanes that nobody uses hold what was in memory, of a NaN any bits.
            np.testing.assert_array_equal(copies[0], buffers[0], program.name)
            ran.append(program.name)

        return both

    monkeypatch.setattr(other, "compile_ir", compile_ir)
    return other, ran


def test_programs_mean_what_the_interpreter_says(device, rng, monkeypatch):
    """The same bits."""
    case, dtype = (2, 1, 2, 3, (5, 6), (3, 2), (2, 1), (1, 1), (1, 1)), BY_NAME["float32"]
    x, w, grad = operands(case, dtype, rng)
    other, ran = interpreting(device, monkeypatch)
    for operator, shape, ins in (("convolve", grad.shape, [x, w]), ("convolve_input", x.shape, [grad, w]),
                                 ("convolve_weight", w.shape, [grad, x])):
        run(other, operator, dtype, shape, ins, case)
    assert set(ran) == {"convolution", "flat_image", "weight_blocks", "weight_gradient"}
    x[0, 0, :, 0] = np.inf
    run(other, "convolve_weight", dtype, w.shape, [grad, x], case)


def test_any_number_of_threads_gives_the_same_bits(device, rng):
    case = (4, 1, 16, 24, (30, 30), (3, 3), (1, 1), (1, 1), (1, 1))
    dtype = BY_NAME["float32"]
    x, w, grad = operands(case, dtype, rng)
    results = []
    for threads in (1, 2, 3):
        other = CpuDevice(0)
        other._compiler = device.compiler
        other.pool.resize(threads)
        results.append(b"".join(run(other, *call, case).tobytes() for call in (
            ("convolve", dtype, grad.shape, [x, w]), ("convolve_input", dtype, x.shape, [grad, w]),
            ("convolve_weight", dtype, w.shape, [grad, x]))))
        other.pool.resize(1)
    assert len(set(results)) == 1


def test_what_is_not_a_number_stays_where_it_is(device, rng):
    case = (2, 1, 2, 3, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1))
    dtype = BY_NAME["float32"]
    x, w, _ = operands(case, dtype, rng)
    x[0, 0, 5, 5] = np.nan
    out = run(device, "convolve", dtype, (2, 3, 12, 12), [x, w], case)
    wrong = np.isnan(out)
    assert wrong[0, :, 4:7, 4:7].all()
    assert wrong.sum() == 27


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_gradient_of_a_weight_is_infinite_where_a_tap_meets_an_infinity(device, rng, case, queued):
    """At either end of every dimension, where rows of the flat image follow each other."""
    dtype, stream = BY_NAME["float32"], device.create_stream() if queued else device.default_stream
    kernel = device.kernels.find("convolve_weight", "float32", direct=False)
    x, w, grad = operands(case, dtype, rng)
    for corner in np.ndindex((2,) * len(case[4])):
        image = x.copy()
        image[(-1, -1, *(-k for k in corner))] = np.inf
        out = np.zeros(w.shape, np.float32)
        kernel.run([out], [grad, image], (*case[6:], case[1]), stream)
        stream.synchronize()
        expected = weight(exact(grad, dtype), exact(image, dtype), case)
        np.testing.assert_array_equal(np.isinf(out), np.isinf(expected))
        assert not np.isnan(out).any()
        finite = np.isfinite(expected)
        close(out[finite], expected[finite], dtype, grad.size)
    image[...] = np.nan
    assert np.isnan(run(device, "convolve_weight", dtype, w.shape, [grad, image], case)).any()


# --------------------------------------------------------------------------------------------------- Winograd's method

THREES = ((3, 3), (1, 1))
#: Few channels, odd sizes, one tile, lines of many tiles, padding of 0 to 3, groups.
TILED = [
    (1, 1, 1, 1, (3, 3), *THREES, (0, 0), (1, 1)),
    (2, 1, 2, 3, (1, 1), *THREES, (1, 1), (1, 1)),
    (1, 1, 3, 1, (1, 2), *THREES, (2, 1), (1, 1)),
    (3, 1, 5, 9, (7, 7), *THREES, (1, 1), (1, 1)),
    (2, 2, 4, 17, (6, 9), *THREES, (0, 2), (1, 1)),
    (1, 3, 8, 8, (5, 4), *THREES, (2, 0), (1, 1)),
    (1, 1, 16, 33, (4, 101), *THREES, (1, 1), (1, 1)),
    (2, 1, 7, 6, (3, 5), *THREES, (3, 4), (1, 1)),
]


@pytest.fixture
def tiled(monkeypatch):
    """Have Winograd's method chosen, with panels of so many vectors; returns what was done."""
    done = []

    def choose(columns, threads=1):
        monkeypatch.setattr(winograd, "plan", lambda layer, work, _: winograd.divided(layer, work, threads, columns))
        monkeypatch.setattr(winograd, "weight_plan",
                            lambda layer, work, _: winograd.weight_divided(layer, work, threads))

    def noted(plain):
        def call(*args):
            done.append(found := plain(*args))
            return found

        return call

    for name in ("convolve", "convolve_weight"):
        monkeypatch.setattr(winograd, name, noted(getattr(winograd, name)))
    choose.done = done
    return choose


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("case", TILED, ids=lambda case: "-".join(map(str, case[:5] + case[7:8])))
def test_tiles(device, rng, tiled, case, name, columns):
    dtype = BY_NAME[name]
    x, w, grad = operands(case, dtype, rng)
    wide_x, wide_w, wide_grad = (exact(a, dtype) for a in (x, w, grad))
    tiled(columns, threads=3)
    close(run(device, "convolve", dtype, grad.shape, [x, w], case), convolve(wide_x, wide_w, case), dtype, case[2] * 9)
    close(run(device, "convolve_input", dtype, x.shape, [grad, w], case), transposed(wide_grad, wide_w, case), dtype,
          case[3] * 9)
    close(run(device, "convolve_weight", dtype, w.shape, [grad, x], case), weight(wide_grad, wide_x, case), dtype,
          grad.size)
    assert tiled.done == [True, True, True]


def test_tiles_of_any_layout(device, rng, tiled):
    case, dtype = (2, 1, 5, 6, (11, 13), *THREES, (1, 2), (1, 1)), BY_NAME["float32"]
    x, w, grad = operands(case, dtype, rng)
    tiled(3)
    for operator, shape, first, second in (("convolve", grad.shape, x, w), ("convolve_input", x.shape, grad, w),
                                           ("convolve_weight", w.shape, grad, x)):
        expected = run(device, operator, dtype, shape, [first, second], case)
        for turn in (lambda a: np.asfortranarray(a[..., ::-1])[..., ::-1], lambda a: np.repeat(a, 2, axis=3)[..., ::2]):
            got = run(device, operator, dtype, shape, [turn(first), turn(second)], case)
            assert got.tobytes() == expected.tobytes()
    one = np.broadcast_to(np.float32(0.7), grad.shape)
    for operator, shape, second in (("convolve_input", x.shape, w), ("convolve_weight", w.shape, x)):
        expected = run(device, operator, dtype, shape, [np.ascontiguousarray(one), second], case)
        assert run(device, operator, dtype, shape, [one, second], case).tobytes() == expected.tobytes()


def test_programs_of_tiles_mean_what_the_interpreter_says(device, rng, tiled, monkeypatch):
    case, dtype = (1, 2, 2, 3, (5, 7), *THREES, (1, 0), (1, 1)), BY_NAME["float32"]
    x, w, grad = operands(case, dtype, rng)
    other, ran = interpreting(device, monkeypatch)
    tiled(2)
    run(other, "convolve", dtype, grad.shape, [x, w], case)
    run(other, "convolve_input", dtype, x.shape, [grad, w], case)
    run(other, "convolve_weight", dtype, w.shape, [grad, x], case)
    assert set(ran) == {"winograd", "winograd_weights", "winograd_sums", "winograd_gradient"}


def test_any_division_gives_the_same_bits(device, rng, tiled):
    case, dtype = (3, 1, 16, 40, (21, 17), *THREES, (1, 1), (1, 1)), BY_NAME["float32"]
    x, w, grad = operands(case, dtype, rng)
    results = set()
    for threads in (1, 2, 3, 50):
        tiled(3, threads)
        results.add(run(device, "convolve", dtype, grad.shape, [x, w], case).tobytes()
                    + run(device, "convolve_weight", dtype, w.shape, [grad, x], case).tobytes())
    assert len(results) == 1


WIDE = (4, 1, 64, 64, (12, 12), *THREES, (1, 1), (1, 1))


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_tiles_that_are_not_finite_are_computed_directly(device, rng, tiled, value, queued):
    """The method itself would spread it over whole tiles."""
    dtype, stream = BY_NAME["float32"], device.create_stream() if queued else device.default_stream
    x, w, _ = operands(WIDE, dtype, rng)
    x[1, 3, 5, 5] = value
    out = np.zeros((4, 64, 12, 12), np.float32)
    device.kernels.find("convolve", "float32", direct=False).run([out], [x, w], (*WIDE[6:], 1), stream)
    stream.synchronize()
    assert tiled.done == [False]
    wrong = ~np.isfinite(out)
    assert wrong[1, :, 4:7, 4:7].all()
    assert wrong.sum() == 64 * 9


def test_a_weights_gradient_that_is_not_finite_is_computed_directly(device, rng, tiled):
    dtype = BY_NAME["float32"]
    x, w, grad = operands(WIDE, dtype, rng)
    # In the first row, which the last row of a window never meets.
    x[1, 3, 0, 5] = np.inf
    out = run(device, "convolve_weight", dtype, w.shape, [grad, x], WIDE)
    assert tiled.done == [False]
    wrong = ~np.isfinite(out)
    assert wrong[:, 3, :2].all()
    assert wrong.sum() == 64 * 6


def test_tiles_whose_parts_overflow_are_computed_directly(device, rng, tiled):
    dtype = BY_NAME["float32"]
    x, w, _ = operands(WIDE, dtype, rng)
    x[:], w[:] = 0, 0
    # The method adds these two up before it multiplies.
    x[0, 0, 2, 2] = x[0, 0, 3, 2] = 3e38
    w[0, 0, 1, 1] = 0.5
    out = run(device, "convolve", dtype, (4, 64, 12, 12), [x, w], WIDE)
    assert tiled.done == [False]
    assert np.array_equal(out[:, :1], x[:, :1] * np.float32(0.5))
    assert not out[:, 1:].any()


def test_where_tiles_are_faster():
    float32 = BY_NAME["float32"]

    def chosen(batch, depth, size, made):
        layer = winograd.Layer(batch, 1, depth, made, (size, size), (size, size), (1, 1), False)
        plans = winograd.plan(layer, float32, 2), winograd.weight_plan(layer, float32, 2)
        assert (plans[0] is None) == (plans[1] is None)
        return plans[0]

    assert all(chosen(*layer) for layer in ((8, 32, 28, 64), (16, 64, 56, 64), (1, 512, 7, 512), (4, 256, 14, 256)))
    assert not any(chosen(*layer) for layer in ((1, 1, 28, 16), (16, 3, 56, 64), (64, 1, 100, 1)))
