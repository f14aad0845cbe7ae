"""Equality of whole tensors: every dtype, few and many elements, NaN, zeros of both signs, views."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (3, 5), (128,), (129,), (70, 70)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_compares_every_element(dtype, shape, supports):
    if not supports(dtype):
        pytest.skip("the device lacks the dtype")
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    x, y = torch.tensor(values.copy()), torch.tensor(values.copy())
    assert torch.equal(x, y) is True
    for place in {0, x.numel() - 1} if x.numel() else ():
        other = values.copy()
        other.reshape(-1)[place] = 1 - bool(other.reshape(-1)[place])
        assert torch.equal(x, torch.tensor(other)) is bool(np.array_equal(values, other))


@pytest.mark.parametrize("count", [1, 7, 200])
@pytest.mark.parametrize("dtype", [name for name in DTYPES if name.startswith(("float", "complex"))])
def test_nan_equals_nothing_and_zeros_are_equal(dtype, count, supports):
    if not supports(dtype):
        pytest.skip("the device lacks the dtype")
    nan, zero = np.full(count, np.nan, dtype), np.zeros(count, dtype)
    assert torch.equal(torch.tensor(nan), torch.tensor(nan.copy())) is False
    assert torch.equal(torch.tensor(zero), torch.tensor(-zero)) is True


@pytest.mark.usefixtures("device")
def test_views_are_compared_by_position():
    values = np.arange(12.0).reshape(3, 4)
    x = torch.tensor(values)
    assert torch.equal(x.transpose(0, 1), torch.tensor(values.T.copy()))
    assert not torch.equal(x.transpose(0, 1), torch.tensor(values.reshape(4, 3)))
    assert torch.equal(torch.ones(1).expand(3, 4), torch.ones(3, 4))
    assert not torch.equal(x, x.reshape(4, 3))
