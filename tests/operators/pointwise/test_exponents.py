"""Products with powers of two, against NumPy's ``ldexp``, and neighbours of numbers that no element of a tensor is."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as f


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ldexp_rounds_once(dtype, device):
    rng = np.random.default_rng(5)
    lowest, highest = (-1074, 1023) if dtype is np.float64 else (-149, 127)
    x = np.concatenate([np.ldexp(rng.uniform(-1, 1, 4000), rng.integers(lowest, highest, 4000)).astype(dtype),
                        dtype([0.0, -0.0, math.inf, -math.inf, math.nan, 1.7, 2.0**-149])])
    n = rng.integers(-2300, 2300, len(x))
    n[::2] //= 8
    got = f.ldexp(torch.tensor(x, device=device), torch.tensor(n, device=device))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.array(got.tolist(), dtype), np.ldexp(x, n))


def test_ldexp_of_far_exponents(device):
    n = torch.tensor([1 << 40, -(1 << 40), 2000, -2000, 200], device=device)
    assert f.ldexp(torch.tensor([1.0, 1.0, 0.0, math.inf, 1e-30], device=device), n).tolist() == [
        math.inf, 0.0, 0.0, math.inf, float(np.ldexp(np.float32(1e-30), 200))]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp_keeps_the_dtype_of_floats(name):
    x, n = torch.tensor([1.5, 3.0], dtype=getattr(torch, name)), torch.tensor([4, -1])
    for left, right in ((x, n), (x, n[0]), (x[0], n)):
        assert f.ldexp(left, right).dtype is x.dtype
    assert f.ldexp(x, n).tolist() == [24.0, 1.5]
    assert f.ldexp(n, n).dtype is torch.float32
    assert f.ldexp(n, n).tolist() == [64.0, -0.5]
    assert f.ldexp(x[:1], torch.tensor([0.5])).dtype is torch.result_type(x, torch.tensor([0.5]))
    assert x.ldexp_(n) is x
    assert x.tolist() == [24.0, 1.5]


def test_ldexp_has_a_gradient():
    x = torch.tensor([1.5, -3.0, 1e-30], requires_grad=True)
    f.ldexp(x, torch.tensor([4, -1, 120])).sum().backward()
    assert x.grad.tolist() == [16.0, 0.5, 2.0**120]


@pytest.mark.parametrize(("name", "number", "neighbour"), [("float16", 2048.0, 2050.0), ("bfloat16", 256.0, 258.0)])
def test_nextafter_rounds_a_number_without_dimensions_first(name, number, neighbour):
    x = torch.tensor(number, dtype=getattr(torch, name))
    beside = torch.tensor(int(number) + 1)  # no number of the dtype; the nearest is the first
    for left, right in ((x, beside), (beside, x), (x.reshape(1), beside), (beside, x.reshape(1))):
        assert f.nextafter(left, right).reshape(()).item() == number
    assert f.nextafter(x, torch.tensor(int(number) + 2)).item() == neighbour
