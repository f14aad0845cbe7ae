"""Fourier transforms against NumPy; their gradients are those of linear maps."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.signal.fourier import frequencies, half_frequencies
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("place")
RNG = np.random.default_rng(2)
REAL = RNG.normal(size=(3, 6, 5))
COMPLEX = REAL + 1j * RNG.normal(size=REAL.shape)
NORMS = [None, "backward", "ortho", "forward"]


def same(tensor, reference):
    np.testing.assert_allclose(np.array(tensor.tolist()).reshape(reference.shape), reference, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 4, 9])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dimension(name, n, norm):
    values = REAL if name in ("rfft", "ihfft") else COMPLEX
    for dim in (-1, 1):
        same(getattr(f, f"fft_{name}")(tc.tensor(values), n, dim, norm), getattr(np.fft, name)(values, n, dim, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("s", "axes"), [(None, None), ((4, 7), (0, 2)), ((4, 3), (-1, 1)), (None, (1, 0))])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_dimensions(name, s, axes, norm):
    values = REAL if name == "rfftn" else COMPLEX
    same(getattr(f, f"fft_{name}")(tc.tensor(values), s, axes, norm), getattr(np.fft, name)(values, s, axes, norm))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_two_dimensions(name):
    values = REAL if name == "rfft2" else COMPLEX
    same(getattr(f, f"fft_{name}")(tc.tensor(values)), getattr(np.fft, name)(values))


def test_dtypes():
    assert f.fft_fft(tc.ones(4)).dtype is tc.complex64
    assert f.fft_fft(tc.ones(4, dtype=tc.float64)).dtype is tc.complex128
    assert f.fft_fft(tc.arange(4)).dtype is tc.complex64
    assert f.fft_irfft(tc.ones(4)).dtype is tc.float32


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts(n):
    same(frequencies(n, 0.5, dtype=tc.float64), np.fft.fftfreq(n, 0.5))
    same(half_frequencies(n, 0.5, dtype=tc.float64), np.fft.rfftfreq(n, 0.5))
    same(f.fft_fftshift(tc.tensor(REAL)), np.fft.fftshift(REAL))
    same(f.fft_ifftshift(tc.tensor(REAL), 1), np.fft.ifftshift(REAL, 1))


FUNCTIONS = {
    "fft": (lambda x: f.fft_fft(x, 4, 1, "ortho"), COMPLEX[0]), "ifftn": (lambda x: f.fft_ifftn(x), COMPLEX[0]),
    "rfft": (lambda x: f.fft_rfft(x, 7), REAL[0]), "rfftn": (lambda x: f.fft_rfftn(x, norm="forward"), REAL[0]),
    "irfft": (lambda x: f.fft_irfft(x), COMPLEX[0]), "irfft of an odd size": (lambda x: f.fft_irfft(x, 7), COMPLEX[0]),
    "irfftn": (lambda x: f.fft_irfftn(x), COMPLEX[0]), "hfft": (lambda x: f.fft_hfft(x), COMPLEX[0]),
    "ihfft": (lambda x: f.fft_ihfft(x), REAL[0]), "shift": (lambda x: f.fft_fftshift(x), COMPLEX[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_adjoints(name):
    """The gradient g of Re <w, F x> satisfies Re <g, d> = Re <w, F d> for every direction d."""
    function, values = FUNCTIONS[name]
    x = tc.tensor(values, requires_grad=True)
    result = function(x)
    shape = tuple(result.shape)
    weights = RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if result.dtype.is_complex else 0)
    result.backward(tc.tensor(weights))
    direction = RNG.normal(size=values.shape) + (1j * RNG.normal(size=values.shape) if values.dtype.kind == "c" else 0)
    moved = np.array(function(tc.tensor(direction)).tolist())
    expected = np.sum(weights.conj() * moved).real
    assert np.sum(np.array(x.grad.tolist()).conj() * direction).real == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: f.fft_fft(tc.ones(4), 0), ArgumentError, r"\[fft.fft\] 0 points — a transform has at least one point"),
    (lambda: f.fft_fft(tc.ones(4), norm="x"), ArgumentError, r"\[fft.fft\] norm='x' — the normalisation is"),
    (lambda: f.fft_rfft(tc.ones(4, dtype=tc.complex64)), DtypeError, r"\[fft.rfft\] dtype complex64 — the transform"),
    (lambda: f.fft_fft(tc.tensor(1.0)), DimensionError, r"\[fft.fft\] a 0-dimensional tensor — a transform runs along"),
    (lambda: f.fft_fftn(tc.ones(4, 4), (2,), (0, 1)), ShapeError, r"\[fft.fftn\] sizes \(2,\), dims \[0, 1\]"),
    (lambda: f.fft_fftn(tc.ones(4, 4), None, (0, 0)), ShapeError, r"\[fft.fftn\] sizes None, dims \[0, 0\]"),
    (lambda: f.fft_fftn(tc.ones(4), (2, 2)), ShapeError, r"\[fft.fftn\] sizes \[2, 2\] for 1 dimensions"),
    (lambda: f.fft_rfftn(tc.ones(4), None, ()), ShapeError, r"\[fft.rfftn\] no dims"),
    (lambda: f.fft_irfftn(tc.ones(4), None, ()), ShapeError, r"\[fft.irfftn\] no dims"),
    (lambda: frequencies(0), ArgumentError, r"\[fft.fftfreq\] n=0"),
    (lambda: half_frequencies(0), ArgumentError, r"\[fft.rfftfreq\] n=0"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_frequencies_write_out_and_sizes_may_be_a_number():
    out = tc.zeros(0)
    assert frequencies(4, out=out) is out
    assert out.tolist() == [0, 0.25, -0.5, -0.25]
    assert half_frequencies(4, out=tc.zeros(3)).tolist() == [0, 0.25, 0.5]
    assert tuple(f.fft_fftn(tc.ones(3, 3), s=2).shape) == (3, 2)


def test_one_size_is_that_of_the_last_dimension() -> None:
    x = np.random.default_rng(3).normal(size=(3, 4)) + 0j
    for dim, size in ((None, 5), (-1, 6), (0, 3), (-1, -1)):
        have = [x.shape[dim or -1] * 2 - 2 if size == -1 else size]
        want = np.fft.irfftn(x, have, axes=(-1 if dim is None else dim,))
        got = f.fft_irfftn(tc.tensor(x.tolist(), dtype=tc.complex128), size, dim)
        np.testing.assert_allclose(np.array(got.tolist()), want, atol=1e-12)
