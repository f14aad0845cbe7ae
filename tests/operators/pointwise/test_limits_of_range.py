"""Values at the ends of ranges: overflow of integers, weights 0 and 1, infinities, and operands of several dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as f
from tensocket_plugins.kit.host_kernels import _gcd

INTEGERS = {"int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64}


def wrapped(value: int, dtype: str) -> int:
    """A whole number cut to the bits of a dtype."""
    info = np.iinfo(dtype)
    cut = value & ((1 << info.bits) - 1)
    return cut - (1 << info.bits) if cut > info.max else cut


def drawn(dtype: str, seed: int, low: int | None = None) -> list[int]:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return [int(n) for n in rng.integers(info.min if low is None else low, info.max, 60, dtype, endpoint=True)]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_with_large_exponents(device, supports, dtype):
    if not supports(dtype):
        return
    bases = [*drawn(dtype, 0), 3, 5, 2, 0, 1]
    exponents = [*drawn(dtype, 1, 0), 101, 64, 65, 66, 127]
    x, n = (torch.tensor(values, dtype=INTEGERS[dtype], device=device) for values in (bases, exponents))
    wanted = [wrapped(pow(a, b, 1 << 64), dtype) for a, b in zip(bases, exponents, strict=True)]
    assert f.pow(x, n).tolist() == wanted
    assert f.pow(x, 101).tolist() == [wrapped(pow(a, 101, 1 << 64), dtype) for a in bases]
    assert f.pow(x[:1], n[:1]).tolist() == wanted[:1]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_multiples_that_do_not_fit(device, supports, dtype):
    """Narrow integers are multiplied in 32 bits; wide ones wrap before the magnitude is taken."""
    if not supports(dtype):
        return
    first, second = drawn(dtype, 2), drawn(dtype, 3)
    bits = max(np.iinfo(dtype).bits, 32)
    wanted = []
    for a, b in zip(first, second, strict=True):
        divisor = math.gcd(a, b)
        part = 0 if divisor == 0 else abs(a) // divisor * (1 if a > 0 else -1)
        wanted.append(wrapped(abs(wrapped(part * b, f"int{bits}")), dtype))
    x, y = (torch.tensor(values, dtype=INTEGERS[dtype], device=device) for values in (first, second))
    assert f.lcm(x, y).tolist() == wanted


def test_weights_of_an_interpolation_at_its_ends(device):
    x, y = torch.tensor([-1e30, 3.0, 0.25], device=device), torch.tensor([88.0, -1e30, 0.5], device=device)
    for weight, wanted in ((0, x), (1.0, y), (0.0, x), (1, y)):
        assert f.lerp(x, y, weight).tolist() == wanted.tolist()
        assert f.lerp(x, y, torch.full((3,), float(weight), device=device)).tolist() == wanted.tolist()
    assert f.lerp(x[2:], y[2:], 3.0).tolist() == [1.0]
    assert f.lerp(x[2:], y[2:], -1.0).tolist() == [0.0]


def test_limits_of_a_logit_in_any_order(device):
    x = torch.tensor([0.25, 1.7, -2.0], device=device)
    assert f.logit(x, 1.0).tolist() == [math.inf, -math.inf, math.inf]
    found = f.logit(x, 0.25).tolist()
    assert np.allclose(found, [-math.log(3), math.log(3), -math.log(3)])
    assert f.logit(x, math.nan).tolist()[0] == pytest.approx(-math.log(3))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logarithms_of_complex_zeros_and_infinities(device, supports, dtype, dtypes):
    if not supports(dtype):
        return
    x = torch.tensor([0j, complex(math.inf, 0), complex(1, math.inf), 4 + 0j], dtype=dtypes[dtype], device=device)
    for function, base in ((f.log2, 2.0), (f.log10, 10.0)):
        found = function(x).tolist()
        assert found[:2] == [complex(-math.inf, 0), complex(math.inf, 0)]
        assert found[2].real == math.inf
        assert found[2].imag == pytest.approx(math.pi / 2 / math.log(base), rel=1e-6)
        assert found[3] == pytest.approx(math.log(4) / math.log(base), rel=1e-6)


def test_the_derivative_of_digamma_far_out(device):
    x = torch.tensor([math.inf, 0.0, 1.0, 0.5], device=device)
    assert np.allclose(f.polygamma(1, x).tolist(), [0.0, math.inf, math.pi ** 2 / 6, math.pi ** 2 / 2])


def test_products_over_dimensions_of_size_one_keep_the_dtype(device):
    a, b = (torch.ones((1, 3, 2), dtype=torch.int32, device=device) for _ in range(2))
    found = f.tensordot(a, b, ([0, 2], [1, 2]))
    assert found.dtype is torch.int32
    assert found.tolist() == [[6], [6], [6]]


def test_cosines_of_floats_and_integers(device):
    x, y = np.array([[1.5, -2.0, 0.5]]), np.array([[3, 1, -7]])
    wanted = (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
    for kind in (torch.int32, torch.int64, torch.float32):
        found = f.cosine_similarity(torch.tensor(x, device=device), torch.tensor(y, dtype=kind, device=device))
        assert found.dtype is torch.float64
        assert np.allclose(found.tolist(), wanted, rtol=1e-12)
    found = f.cosine_similarity(torch.tensor(x, dtype=torch.float32, device=device), torch.tensor(y, device=device))
    assert np.allclose(found.tolist(), wanted, rtol=1e-6)


def _euclid(a, b, bits):
    """The steps that C takes: what wraps around is its own magnitude, and remainders have the dividend's sign."""
    def magnitude(v):
        return v if v == -(1 << (bits - 1)) else abs(v)

    a, b = magnitude(a), magnitude(b)
    while b:
        a, b = b, (abs(a) % abs(b)) * (-1 if a < 0 else 1)
    return a


@pytest.mark.skipif(not torch.is_available("cpu"), reason="no backend on the host is installed")
@pytest.mark.parametrize("count", [1, 256, 70000])
def test_divisors_of_the_smallest_number_are_those_of_c(count):
    near = np.resize(np.arange(-128, 128), count).astype(np.int8)
    low = np.full(count, -128, np.int8)
    for x, y in ((low, near), (near, low)):
        wanted = np.resize([_euclid(int(a), int(b), 8) for a, b in zip(x[:256], y[:256], strict=True)], count)
        assert np.array_equal(f.gcd(torch.from_numpy(x), torch.from_numpy(y)).numpy(), wanted)
        assert np.array_equal(_gcd(x, y), wanted)
