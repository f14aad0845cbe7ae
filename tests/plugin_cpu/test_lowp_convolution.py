"""Convolutions of bfloat16 numbers by products of pairs, against sums over windows in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.kernels import lowp_convolution, winograd
from tensocket_cpu.linear.blas import host_features
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16

pytestmark = pytest.mark.skipif(not all(map(host_features().get, ("avx512bf16", "avx512vl", "avx512bw", "avx512dq"))),
                                reason="the processor does not multiply pairs")

#: Batch, groups, channels of a group in and out, sizes, kernel, stride, padding, dilation.
CASES = [
    (2, 1, 3, 5, (20,), (3,), (1,), (1,), (1,)),
    (1, 2, 2, 9, (33,), (5,), (3,), (4,), (2,)),
    (2, 1, 2, 16, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 1, 5, 17, (7, 7), (3, 3), (2, 2), (1, 1), (1, 1)),
    (1, 1, 4, 8, (9, 70), (2, 5), (1, 1), (0, 2), (3, 1)),
    (2, 3, 2, 4, (12, 20), (3, 2), (2, 3), (1, 0), (1, 2)),
    (2, 1, 3, 6, (33, 12), (7, 7), (2, 2), (3, 3), (1, 1)),
    (1, 1, 2, 2, (6, 6), (1, 1), (2, 2), (0, 0), (1, 1)),
    (1, 1, 2, 3, (5, 8, 6), (3, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 2)),
    (1, 1, 2, 2, (5, 5), (2, 2), (3, 3), (4, 4), (1, 1)),
    (2, 1, 40, 35, (12, 11), (5, 5), (1, 1), (2, 2), (1, 1)),
]


@pytest.fixture
def own(device, monkeypatch):
    """A device that multiplies pairs wherever it can."""
    monkeypatch.setattr(lowp_convolution, "_ROWS", 2)
    monkeypatch.setattr(lowp_convolution, "_TERMS", 1)
    for name in ("plan", "weight_plan"):
        monkeypatch.setattr(winograd, name, lambda *args: None)
    made = CpuDevice(0)
    made._compiler = device.compiler
    return made


def outputs(case):
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(*case[4:], strict=True))


def operands(case, rng):
    batch, groups, taken, made, sizes, kernel = case[:6]
    shapes = [(batch, groups * taken, *sizes), (groups * made, taken, *kernel), (batch, groups * made, *outputs(case))]
    return [float32_to_bfloat16(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]


def references(case, x, w, grad):
    """Result, gradient of the image and of the weight, tap by tap."""
    batch, groups, taken, made, sizes, kernel, stride, padding, dilation = case
    x, w, grad = (bfloat16_to_float32(a).astype(np.float64) for a in (x, w, grad))
    padded = np.pad(x.reshape(batch, groups, taken, *sizes), [(0, 0)] * 3 + [(p, p) for p in padding])
    w, grad = w.reshape(groups, made, taken, *kernel), grad.reshape(batch, groups, made, *outputs(case))
    out, dx, dw = np.zeros(grad.shape), np.zeros(padded.shape), np.zeros(w.shape)
    for tap in np.ndindex(kernel):
        seen = (..., *(slice(t * d, t * d + (o - 1) * s + 1, s)
                       for t, d, o, s in zip(tap, dilation, outputs(case), stride, strict=True)))
        out += np.einsum("bgc...,gmc->bgm...", padded[seen], w[(..., *tap)])
        dx[seen] += np.einsum("bgm...,gmc->bgc...", grad, w[(..., *tap)])
        dw[(..., *tap)] = np.einsum("bgmo,bgco->gmc", grad.reshape(*grad.shape[:3], -1),
                                    padded[seen].reshape(*padded.shape[:3], -1))
    inner = (..., *(slice(p, p + n) for p, n in zip(padding, sizes, strict=True)))
    return (out.reshape(batch, groups * made, *outputs(case)), dx[inner].reshape(batch, groups * taken, *sizes),
            dw.reshape(groups * made, taken, *kernel))


def run(device, operator, shape, ins, case, stream=None):
    out = np.full(shape, 77, np.uint16)
    kernel = device.kernels.find(operator, "bfloat16", direct=False)
    kernel.run([out], ins, (*case[6:], case[1]), stream or device.default_stream)
    return out


def three(device, case, x, w, grad):
    return (run(device, "convolve", grad.shape, [x, w], case), run(device, "convolve_input", x.shape, [grad, w], case),
            run(device, "convolve_weight", w.shape, [grad, x], case))


def close(got, expected, terms):
    """One rounding, and sums in float32."""
    assert (np.abs(bfloat16_to_float32(got) - expected) <= 2.0**-8 * np.abs(expected) + 1e-5 * math.sqrt(terms)).all()


def counted(monkeypatch):
    """Return a list that gets one entry for each kernel that runs."""
    ran = []

    def noted(plain):
        def call(*args):
            found = plain(*args)
            ran.append(found)
            return found

        return call

    for name in ("convolve", "weight_gradient"):
        monkeypatch.setattr(lowp_convolution, name, noted(getattr(lowp_convolution, name)))
    return ran


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_all_three_kernels(own, rng, monkeypatch, case):
    ran = counted(monkeypatch)
    x, w, grad = operands(case, rng)
    expected = references(case, x, w, grad)
    turned = [np.asfortranarray(a[..., ::-1])[..., ::-1] for a in (x, w, grad)]
    for ins in ((x, w, grad), (x, w, grad), turned):  # planned, kept, and laid out differently
        for got, right in zip(three(own, case, *ins), expected, strict=True):
            close(got, right, grad.size)
    assert ran == [None, None, True] * 3


def test_any_number_of_threads_gives_the_same_bits(own, rng):
    case = (3, 1, 24, 40, (30, 30), (5, 5), (1, 1), (2, 2), (1, 1))
    ins, results = operands(case, rng), []
    for threads in (1, 2, 3):
        own.set_num_threads(threads)
        results.append(b"".join(made.tobytes() for made in three(own, case, *ins)))
    own.set_num_threads(1)
    assert len(set(results)) == 1


def test_streams_wait_their_turn(own, rng):
    case, stream = CASES[3], own.create_stream()
    x, w, grad = operands(case, rng)
    for operator, shape, ins in (("convolve", grad.shape, [x, w]), ("convolve_input", x.shape, [grad, w]),
                                 ("convolve_weight", w.shape, [grad, x])):
        for _ in range(2):
            out = run(own, operator, shape, ins, case, stream)
            stream.synchronize()
            assert out.tobytes() == run(own, operator, shape, ins, case).tobytes()


def test_infinities_stay_where_they_are(own, rng, monkeypatch):
    case = (2, 1, 3, 4, (9, 8), (3, 3), (1, 1), (1, 1), (1, 1))
    x, w, grad = operands(case, rng)
    x[1, 2, 0, 7] = float32_to_bfloat16(np.float32([np.inf]))[0]
    ran = counted(monkeypatch)
    out, _, dw = (bfloat16_to_float32(made) for made in three(own, case, x, w, grad))
    wrong = ~np.isfinite(out)
    assert wrong[1, :, :2, 6:].all()
    assert wrong.sum() == 4 * 4
    # The first row's end is met by the lower taps of its own and the neighbours' columns, and by nothing else.
    assert ran == [None, None, False]
    expected = np.zeros((4, 3, 3, 3), bool)
    expected[:, 2, :2, 1:] = True
    np.testing.assert_array_equal(~np.isfinite(dw), expected)


@pytest.mark.parametrize(("channels", "made", "kernel", "stride", "used"), [
    (16, 16, 5, 1, True), (16, 15, 5, 1, False), (14, 16, 3, 2, False), (16, 32, 3, 2, True)])
def test_where_it_is_used(device, rng, monkeypatch, channels, made, kernel, stride, used):
    case = (1, 1, channels, made, (9, 9), (kernel,) * 2, (stride,) * 2, (1, 1), (1, 1))
    x, w, grad = operands(case, rng)
    ran, other = counted(monkeypatch), CpuDevice(0)
    other._compiler = device.compiler
    close(run(other, "convolve", grad.shape, [x, w], case), references(case, x, w, grad)[0], channels * kernel**2)
    assert bool(ran) == used
    monkeypatch.setattr("tensocket_cpu.device.host_features", dict)
    without = CpuDevice(0)
    without._compiler = device.compiler
    ran.clear()
    close(run(without, "convolve", grad.shape, [x, w], case), references(case, x, w, grad)[0], channels * kernel**2)
    assert not ran
