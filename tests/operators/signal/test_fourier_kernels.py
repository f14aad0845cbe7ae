"""Kernels of short Fourier transforms against NumPy in float64; the library's results have the same form."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.signal.codelets import is_short

RNG = np.random.default_rng(5)
NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@pytest.fixture(autouse=True)
def processor():
    pytest.importorskip("tensocket_cpu")
    tc.set_default_device("cpu")


@pytest.fixture
def launches(monkeypatch):
    """Let kernels serve arrays of all sizes, and return a list of the arrays that they transformed."""
    seen = []
    kernels = importlib.import_module("tensocket_operators.signal.fourier_kernel_cpu")
    original = kernels._along
    monkeypatch.setattr(kernels, "_along", lambda *args: seen.append(args[1]) or original(*args))
    for module in ("transforms", "fourier_paths"):
        monkeypatch.setattr(f"tensocket_operators.signal.{module}.MANY", 1)
    return seen


def values(name, shape):
    x = RNG.normal(size=shape)
    return x if name in ("rfft", "ihfft", "rfftn") else x + 1j * RNG.normal(size=shape)


def tensor(x, *, narrow=False):
    dtypes = (tc.complex64, tc.complex128) if x.dtype.kind == "c" else (tc.float32, tc.float64)
    return tc.tensor(x.tolist(), dtype=dtypes[0 if narrow else 1])


def close(result, expected, *, narrow=False):
    found = np.array(result.tolist()).reshape(expected.shape)
    bound = (2e-6 if narrow else 1e-14) * max(np.abs(expected).max(), 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("narrow", [False, True])
def test_all_short_sizes(launches, name, narrow):
    x = values(name, (3, 9))
    sizes = [n for n in range(1, 34) if is_short(n)]
    assert sizes[-1] == 32
    for n in sizes:
        close(getattr(f, f"fft_{name}")(tensor(x, narrow=narrow), n), getattr(np.fft, name)(x, n), narrow=narrow)
    assert len(launches) == len(sizes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(20, 6, 3), (2, 6, 19), (5, 6, 7), (18, 6), (1, 6, 1)])
def test_rows_apart_and_adjacent(launches, name, shape):
    x = values(name, shape)
    for n, norm in ((10, "ortho"), (4, "forward"), (6, None)):
        close(getattr(f, f"fft_{name}")(tensor(x), n, 1, norm), getattr(np.fft, name)(x, n, 1, norm))
    assert len(launches) == 3


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(launches, name):
    x = values(name, (5, 6, 7))
    for s, axes in (((3, 10), (1, 2)), ((4, 8), (2, 0)), ((2, 3, 5), (0, 1, 2))):
        close(getattr(f, f"fft_{name}")(tensor(x), s, axes, "ortho"), getattr(np.fft, name)(x, s, axes, "ortho"))
    assert len(launches) == 7


@pytest.mark.parametrize("name", NAMES)
def test_real_values_of_complex_transforms(launches, name):
    x = RNG.normal(size=(4, 6, 5))
    for n in (5, 10):
        close(getattr(f, f"fft_{name}")(tensor(x), n, 1), getattr(np.fft, name)(x, n, 1))
    close(f.fft_irfftn(tensor(x), (3, 10), (0, 1)), np.fft.irfftn(x, (3, 10), (0, 1)))
    assert len(launches) == 4


def test_views_are_copied(launches):
    x = values("fft", (6, 8))
    close(f.fft_fft(tensor(x).t()), np.fft.fft(x.T))
    close(f.fft_rfft(tensor(x.real)[::2, 1:]), np.fft.rfft(x.real[::2, 1:]))
    close(f.fft_hfft(tensor(x).conj()), np.fft.hfft(x.conj()))
    close(f.fft_hfftn(tensor(x), (5, 12)), np.fft.irfftn(x.conj(), (5, 12), axes=(0, 1)) * 60)
    assert len(launches) == 5


def test_the_library_transforms_other_sizes(launches):
    x = values("fft", (3, 40))
    for n in (11, 33, 26, 64):
        assert not is_short(n)
        close(f.fft_fft(tensor(x), n), np.fft.fft(x, n))
    assert not launches


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "ihfft"])
def test_many_elements_are_transformed_alike_with_and_without_gradients(name):
    x = tensor(values(name, (300, 12, 3)), narrow=True)
    plain = getattr(f, f"fft_{name}")(x, 10, 1, "ortho")
    recorded = getattr(f, f"fft_{name}")(x.detach().requires_grad_(True), 10, 1, "ortho")
    assert plain.tolist() == recorded.tolist()


def test_recorded_passes_compute_the_gradients_of_eager_ones():
    x = tensor(values("irfft", (5, 6)), narrow=True).requires_grad_(True)
    weights = RNG.normal(size=(5, 10))
    expected = np.fft.rfft(weights) * np.array([1, 2, 2, 2, 2, 1]) / 10
    for _ in range(1200):
        x.grad = None
        (f.fft_irfft(x, 10) * tensor(weights, narrow=True)).sum().backward()
    close(x.grad, expected, narrow=True)
