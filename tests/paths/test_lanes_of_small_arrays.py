"""Kernels whose vector lanes are small arrays: values beside NumPy's, for whole tiles of arrays and for the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_cpu.native import contents

#: Numbers of arrays: fewer than the kernels serve, whole tiles of 16, and tiles with a rest.
COUNTS = (7, 32, 48, 61, 2000)
INTEGERS = ("int32", "int64")
FLOATS = ("float32", "float64")


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Numbers of which many are equal, zeros of both signs, infinities and NaN."""
    kind = np.dtype(dtype).kind
    made = contents.operands_like([np.zeros(shape, dtype)], 3 if kind == "f" else 1)[0]
    rng = np.random.default_rng(seed)
    few = rng.integers(-2, 3, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.7, few, made)


# ------------------------------------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("rows", [(5,), (5, 3), (2, 1), (40, 2), (1, 9)])
def test_extremes_of_short_rows(dtype: str, rows: tuple[int, ...]) -> None:
    for count in COUNTS:
        x = numbers((count * 9, *rows), dtype)
        t = torch.tensor(x)
        for axis in range(1, x.ndim):
            for name in ("argmax", "argmin", "amax", "amin"):
                np.testing.assert_array_equal(getattr(t, name)(axis).numpy(), getattr(np, name)(x, axis))
            values, places = t.max(axis, True)
            np.testing.assert_array_equal(places.numpy(), np.argmax(x, axis, keepdims=True))
            np.testing.assert_array_equal(values.numpy(), np.max(x, axis, keepdims=True))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("rows", [(5,), (6, 3), (31,), (1, 4)])
def test_modes_of_short_rows(dtype: str, rows: tuple[int, ...]) -> None:
    """NaN equals nothing; of several most frequent numbers, the smallest is the mode."""
    for count in (1, *COUNTS):
        x = numbers((count, *rows), dtype)
        for axis in range(1, x.ndim):
            lines = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
            wanted = []
            for line in lines:
                counts = [max(int((line == v).sum()), 1) for v in line]
                most = max(counts)
                best = min((v for v, n in zip(line, counts, strict=True) if n == most),
                           key=lambda v: (v != v, v))
                same = np.flatnonzero(line == best) if best == best else np.flatnonzero(line != line)[:1]
                wanted.append((best, same[-1]))
            values, places = torch.tensor(x).mode(axis)
            shape = values.shape
            np.testing.assert_array_equal(values.numpy(), np.array([v for v, _ in wanted], dtype).reshape(shape))
            np.testing.assert_array_equal(places.numpy(), np.array([k for _, k in wanted]).reshape(shape))


# ------------------------------------------------------------------------------------------------------------- images


def windows(x: Any, size: int, step: int, pad: int) -> Any:
    """[N, C, outputs, outputs, size, size]; borders are -inf."""
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::step, ::step]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("size", "step", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_largest_elements_of_small_images(dtype: str, size: int, step: int, pad: int) -> None:
    for count in COUNTS:
        x = np.random.default_rng(count).integers(-3, 4, (count, 1, 7, 6)).astype(dtype)
        values, places = F.max_pool2d(torch.tensor(x), size, step, pad, return_indices=True)
        wanted = windows(x, size, step, pad)
        np.testing.assert_array_equal(values.numpy(), wanted.max((4, 5)))
        flat = x.reshape(count, 1, 42)
        np.testing.assert_array_equal(np.take_along_axis(flat, places.numpy().reshape(count, 1, -1), 2),
                                      values.numpy().reshape(count, 1, -1))
        first = wanted.reshape(*wanted.shape[:4], -1).argmax(-1)
        rows = np.arange(values.shape[2])[:, None] * step - pad + first // size
        np.testing.assert_array_equal(places.numpy(), rows * 6 + np.arange(values.shape[3]) * step - pad + first % size)


def test_the_last_nan_of_a_small_image_wins() -> None:
    x = torch.zeros(40, 1, 4, 4)
    x[:, 0, 0, 1] = x[:, 0, 1, 0] = float("nan")
    values, places = F.max_pool2d(x, 2, return_indices=True)
    assert values[:, 0, 0, 0].isnan().all()
    assert (places[:, 0, 0, 0] == 4).all()


@pytest.mark.parametrize("dtype", [*FLOATS, "float16"])
def test_means_and_interpolation_of_small_images(dtype: str) -> None:
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    for count in COUNTS:
        x = np.random.default_rng(count).standard_normal((count, 1, 6, 5)).astype(dtype)
        t, wide = torch.tensor(x), x.astype(np.float64)
        means = np.lib.stride_tricks.sliding_window_view(wide, (3, 2), (2, 3))[:, :, ::1, ::2].mean((4, 5))
        np.testing.assert_allclose(F.avg_pool2d(t, (3, 2), (1, 2)).numpy(), means, atol=tolerance)
        line = F.interpolate(t[:, 0], size=9, mode="linear", align_corners=True).numpy()
        at = np.linspace(0, 4, 9)
        low = np.minimum(at.astype(int), 3)
        wanted = wide[:, 0][..., low] * (low + 1 - at) + wide[:, 0][..., low + 1] * (at - low)
        np.testing.assert_allclose(line, wanted, atol=2 * tolerance)


def test_one_image_has_the_values_that_it_has_among_others() -> None:
    """Lanes and single images compute in the same order."""
    x = torch.randn(61, 2, 6, 6)
    for run in (lambda t: F.avg_pool2d(t, 3, 2, 1), lambda t: F.interpolate(t, size=(4, 9), mode="bicubic"),
                lambda t: F.adaptive_avg_pool2d(t, (4, 3)), lambda t: F.max_pool2d(t, 3, 2, 1)):
        together = run(x)
        for first in (0, 37, 44):
            assert torch.equal(run(x[first:first + 17].clone()), together[first:first + 17])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [2, 3])
def test_windows_at_random_distances(dtype: str, dims: int) -> None:
    run = getattr(F, f"fractional_max_pool{dims}d")
    x = np.random.default_rng(dims).integers(-3, 4, (5, 3, *(9, 8, 7)[:dims])).astype(dtype)
    samples = np.random.default_rng(1).random((5, 3, dims)).astype(dtype)
    sizes, kernel, outputs = x.shape[2:], (3, 2, 2)[:dims], (4, 5, 1)[:dims]
    values, places = run(torch.tensor(x), kernel, outputs, return_indices=True, _random_samples=torch.tensor(samples))
    order = (1, 0) if dims == 2 else (0, 1, 2)
    real = np.dtype(dtype).type
    for n, c in np.ndindex(5, 3):
        starts = []
        for d in range(dims):
            u, last = samples[n, c, order[d]], sizes[d] - kernel[d]
            step = real(last) / real(max(outputs[d] - 1, 1))
            starts.append([*[int((real(k) + u) * step) - int(u * step) for k in range(outputs[d] - 1)], last])
        for o in np.ndindex(*outputs):
            corner = [starts[d][o[d]] for d in range(dims)]
            part = x[n, c][tuple(slice(s, s + k) for s, k in zip(corner, kernel, strict=True))]
            place = np.add(corner, np.unravel_index(part.argmax(), part.shape))
            assert values[(n, c, *o)].item() == part.max()
            assert places[(n, c, *o)].item() == np.ravel_multi_index(place, sizes)


def test_gradients_of_windows_at_random_distances() -> None:
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, requires_grad=True)
    samples = torch.rand(2, 3, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: F.fractional_max_pool2d(x, 2, 3, _random_samples=samples), (x,))
    # The general path serves numbers that are none from 0 to 1; windows depend on their fractions.
    found, wanted = (F.fractional_max_pool2d(x, 2, 4, _random_samples=samples * 0 + s) for s in (3.25, 0.25))
    assert torch.equal(found, wanted)


# ------------------------------------------------------------------------------------------------ products, unpooling


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_vector_products(dtype: str) -> None:
    x, y = (np.random.default_rng(k).integers(-9, 9, (3, 70, 3)).astype(dtype) for k in range(2))
    a, b = torch.tensor(x), torch.tensor(y)
    np.testing.assert_array_equal(torch.linalg.cross(a, b).numpy(), np.cross(x, y))
    np.testing.assert_array_equal(torch.cross(a, b, dim=0).numpy(), np.cross(x, y, axis=0))
    np.testing.assert_array_equal(torch.linalg.cross(a[:, :1], b).numpy(), np.cross(x[:, :1], y))
    np.testing.assert_array_equal(torch.linalg.cross(a.mT.contiguous().mT, b[::2][:1]).numpy(), np.cross(x, y[:1]))
    np.testing.assert_array_equal(torch.linalg.cross(a[0, 0], b[0, 0]).numpy(), np.cross(x[0, 0], y[0, 0]))


def test_gradients_of_vector_products() -> None:
    x, y = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True), torch.randn(1, 3, dtype=torch.float64)
    y.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: torch.linalg.cross(x, y.expand(2, 1, 3)), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: torch.linalg.cross(x, y.expand(2, 1, 3)), (x, y))


@pytest.mark.parametrize("dtype", [*FLOATS, "float16"])
def test_unpooling_of_many_lines(dtype: str) -> None:
    for count in COUNTS:
        x = np.random.default_rng(count).standard_normal((count, 2, 6)).astype(dtype)
        values, places = F.max_pool1d(torch.tensor(x), 2, return_indices=True)
        wanted = np.zeros_like(x)
        np.put_along_axis(wanted, places.numpy(), values.numpy(), -1)
        for _ in range(80):  # replays
            found = F.max_unpool1d(values, places, 2)
        np.testing.assert_array_equal(found.numpy(), wanted)
    wrong = places.clone()
    wrong[-1, -1, -1] = 6
    for _ in range(2):
        with pytest.raises(IndexError):
            F.max_unpool1d(values, wrong, 2)


@pytest.mark.filterwarnings("error")
def test_operators_take_batches_of_examples_at_once() -> None:
    x, samples = torch.randn(4, 3, 40, 6, 6), torch.rand(3, 40, 2)
    values, places = F.max_pool2d(x[0], 2, return_indices=True)
    runs = [
        lambda t: F.fractional_max_pool2d(t, 2, 3, _random_samples=samples), lambda t: F.interpolate(t, size=(4, 9)),
        lambda t: torch.linalg.cross(t[..., :3], t[..., 3:]), lambda t: t.mode(-1).indices,
        lambda t: F.max_unpool2d(values * t.sum(), places, 2)]
    for run in runs:
        assert torch.allclose(torch.func.vmap(run)(x), torch.stack([run(t) for t in x]))
