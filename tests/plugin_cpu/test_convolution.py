"""The direct convolution against sums over windows in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
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
    batch, groups, taken, made = case[:4]
    taps = math.prod(case[5])
    close(run(device, "convolve", dtype, grad.shape, [x, w], case), convolve(wide_x, wide_w, case), dtype, taken * taps)
    by_group = wide_grad.reshape(batch, groups, made, -1)
    expected = np.einsum("bgcok,bgmo->gmck", windows(wide_x, case), by_group).reshape(w.shape)
    close(run(device, "convolve_weight", dtype, w.shape, [grad, x], case), expected, dtype, by_group.size)
    # The transpose, by what every element of the image adds.
    expected = np.zeros(x.shape)
    for place in np.ndindex(x.shape[2:]):
        one = np.zeros((1, x.shape[1], *x.shape[2:]))
        one[(slice(None), slice(None), *place)] = 1
        seen = windows(one, (1, *case[1:]))[0, :, 0]
        parts = np.einsum("gok,gmck,bgmo->bgc", seen, wide_w.reshape(groups, made, taken, -1), by_group)
        expected[(slice(None), slice(None), *place)] = parts.reshape(batch, -1)
    close(run(device, "convolve_input", dtype, x.shape, [grad, w], case), expected, dtype, made * taps)


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


def test_programs_mean_what_the_interpreter_says(device, rng, monkeypatch):
    """The same bits: every program of the three kernels is run by the reference interpreter, too."""
    case, dtype = (2, 1, 2, 3, (5, 6), (3, 2), (2, 1), (1, 1), (1, 1)), BY_NAME["float32"]
    x, w, grad = operands(case, dtype, rng)
    other, ran = CpuDevice(0), []

    def compile_ir(program):
        compiled = device.compile_ir(program)

        def both(buffers, scalars, stream):
            copies = [np.array(b) for b in buffers]
            compiled(buffers, scalars, stream)
            interpret(program, copies, scalars)
            assert copies[0].tobytes() == buffers[0].tobytes(), program.name
            ran.append(program.name)

        return both

    monkeypatch.setattr(other, "compile_ir", compile_ir)
    for operator, shape, ins in (("convolve", grad.shape, [x, w]), ("convolve_input", x.shape, [grad, w]),
                                 ("convolve_weight", w.shape, [grad, x])):
        run(other, operator, dtype, shape, ins, case)
    assert set(ran) == {"convolution", "flat_image", "weight_blocks", "weight_gradient"}


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
