"""Inner products of the CPU backend against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch

DTYPES = {"float32": 2e-6, "float64": 1e-14}


def vectors(rng, size, dtype):
    return [rng.standard_normal(size).astype(dtype) for _ in range(2)]


def near(found, x, y, bound):
    x, y = x.astype(np.float64), y.astype(np.float64)
    assert abs(found.item() - x @ y) <= bound * (np.abs(x) @ np.abs(y) + 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 7, 4096, 4097, 70000])
@pytest.mark.parametrize("name", ["dot", "vdot", "inner", "matmul"])
def test_vectors(rng, name, size, dtype):
    x, y = vectors(rng, size, dtype)
    found = getattr(torch, name)(torch.tensor(x), torch.tensor(y))
    assert found.shape == ()
    assert found.dtype is getattr(torch, dtype)
    near(found, x, y, DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cut", [slice(None, None, 2), slice(0, 5000), slice(1, None, 3)])
def test_parts_of_vectors(rng, cut, dtype):
    x, y = vectors(rng, 20000, dtype)
    a, b = torch.tensor(x)[cut], torch.tensor(y)[cut]
    near(a.dot(b), x[cut], y[cut], DTYPES[dtype])
    near(a.flip(0).dot(b), x[cut][::-1], y[cut], DTYPES[dtype])
    near(a.expand(1, -1) @ b, x[cut], y[cut], DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_one_row_and_one_column(rng, dtype):
    x, y = vectors(rng, 70000, dtype)
    row, column = torch.tensor(x)[None], torch.tensor(y)[:, None]
    for _ in range(3):
        found = row @ column
        assert found.shape == (1, 1)
        near(found, x, y, DTYPES[dtype])
    near(column.t() @ row.t(), x, y, DTYPES[dtype])
    wide = torch.tensor(np.stack([y, x], 1))
    near(row @ wide[:, :1], x, y, DTYPES[dtype])


def test_added_to_a_bias(rng):
    x, y = vectors(rng, 70000, "float64")
    bias = torch.tensor([3.0], dtype=torch.float64)
    found = torch.nn.functional.linear(torch.tensor(x)[None], torch.tensor(y)[None], bias)
    assert abs(found.item() - 3 - x @ y) < 1e-9


def test_sizes_that_differ_raise():
    with pytest.raises(RuntimeError, match="last size"):
        torch.ones(5000).dot(torch.ones(5001))


def test_not_a_number_and_infinity_arrive():
    x = torch.ones(5000)
    x[4999] = float("nan")
    assert torch.isnan(x.dot(torch.ones(5000)))
    x[4999] = float("inf")
    assert x.dot(torch.ones(5000)) == float("inf")


def test_complex_vectors(rng):
    x = (rng.standard_normal(9000) + 1j * rng.standard_normal(9000))
    y = (rng.standard_normal(9000) + 1j * rng.standard_normal(9000))
    found = torch.vdot(torch.tensor(x), torch.tensor(y)).item()
    assert abs(found - np.vdot(x, y)) < 1e-9
    assert abs(torch.dot(torch.tensor(x), torch.tensor(y)).item() - x @ y) < 1e-9
