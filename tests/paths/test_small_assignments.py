"""``x[index] = value`` with basic indices, which few elements take a short way for."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch


@pytest.mark.parametrize("index", [0, (1, 2), slice(1, 3), (slice(None), slice(0, 4, 2)), (..., -1), (None, 0)])
@pytest.mark.parametrize("value", [2, -0.5, True, float("nan")])
def test_numbers(index: object, value: float) -> None:
    x, expected = torch.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
    before = x._version
    x[index], expected[index] = value, value
    np.testing.assert_array_equal(x.numpy(), expected)
    assert x._version == before + 1


def test_tensors_broadcast_and_are_converted() -> None:
    x, expected = torch.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
    x[1:], expected[1:] = x[:-1].clone(), expected[:-1].copy()
    x[:, 1], expected[:, 1] = torch.tensor(7.0), 7
    x[0], expected[0] = torch.ones(1, 1, 4), 1
    x[2], expected[2] = torch.tensor(3), 3  # of another dtype
    np.testing.assert_array_equal(x.numpy(), expected)


def test_what_does_not_fit_is_refused_as_ever() -> None:
    x = torch.zeros(3, 4)
    with pytest.raises(IndexError):
        x[0, 9] = 1
    with pytest.raises(RuntimeError):
        x[0] = torch.ones(7)
    with pytest.raises(RuntimeError):
        x.expand(2, 3, 4)[0, :, :] = torch.ones(5)
    with pytest.raises(RuntimeError):
        torch.zeros(3, dtype=torch.int64)[0] = 1j  # type: ignore[index]


def test_gradients_see_what_is_written() -> None:
    a, b = torch.zeros(3), torch.ones(3, requires_grad=True)
    a[0] = b[1] * 2
    a.sum().backward()
    np.testing.assert_array_equal(b.grad.numpy(), [0, 2, 0])
    c = b * 1
    c[0] = 5.0
    b.grad = None
    c.sum().backward()
    np.testing.assert_array_equal(b.grad.numpy(), [0, 1, 1])
    d = b * 3
    square = d * d
    d.detach()[0] = 1.0
    with pytest.raises(RuntimeError):
        square.sum().backward()
