"""Shortcuts to generated kernels give what the general way gives, and leave to it what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tensocket_operators as torch
from tensocket_operators import functions as f
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, ShapeError

#: More than NumPy serves on the host; other devices have no such limit.
LARGE = 20_000
SIZE = 40


def values(shape, seed, device=None, dtype="float32"):
    return torch.tensor(np.random.default_rng(seed).uniform(0.5, 2.0, shape).astype(dtype), device=device)


@pytest.fixture
def general(monkeypatch):
    """How often the general way ran."""
    calls = []
    run = Pointwise.run_arrays

    def counted(self, *args):
        calls.append(self.name)
        return run(self, *args)

    monkeypatch.setattr(Pointwise, "run_arrays", counted)
    return calls


def host(x):
    return x.detach()._values().copy()


def test_results(device, general):
    n = LARGE if device == "cpu" else 12
    a, b = values((2, n), 1, device), values((2, n), 2, device)
    x, y = host(a), host(b)
    np.testing.assert_array_equal(host(a * b), x * y)
    np.testing.assert_array_equal(host(a - 0.25), x - np.float32(0.25))
    np.testing.assert_array_equal(host(a > b), x > y)
    np.testing.assert_array_equal(host(-a), -x)
    np.testing.assert_array_equal(host(a.sqrt()), np.sqrt(x))
    a.mul_(b)
    a.add_(2)
    np.testing.assert_array_equal(host(a), x * y + np.float32(2))
    assert a._version == 2
    if device != "plain":  # without a code generator
        assert general == []


def test_extra_arguments_that_specialise_kernels(device, general):
    n = LARGE if device == "cpu" else 12
    x = values((2, n), 5, device)
    y = host(x).astype(np.float64)
    inner = np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)
    for _ in range(2):  # with kept plans, too
        np.testing.assert_allclose(host(f.gelu(x)), y * special.ndtr(y), rtol=1e-6)
        np.testing.assert_allclose(host(f.gelu(x, approximate="tanh")), 0.5 * y * (1 + np.tanh(inner)), rtol=1e-6)
        np.testing.assert_allclose(host(f.logit(x / 4)), special.logit(y / 4), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(host(f.logit(x / 4, 0.25)), special.logit(np.clip(y / 4, 0.25, 0.75)), atol=1e-6)
    if device != "plain":
        assert general == []
    with pytest.raises(ArgumentError, match="the approximation is 'none' or 'tanh'"):
        f.gelu(x, approximate="other")


def test_any_layout(device, general):
    n = LARGE if device == "cpu" else 12
    a, b = values((4, n), 3, device), values((n,), 4, device)
    x, y = host(a), host(b)
    for _ in range(2):  # with kept plans, too
        np.testing.assert_array_equal(host(a + b), x + y)
        np.testing.assert_array_equal(host(b * a), x * y)
        np.testing.assert_array_equal(host(a + a[:, :1]), x + x[:, :1])
        np.testing.assert_array_equal(host(a[:, ::2] + a[:, 1::2]), x[:, ::2] + x[:, 1::2])
        np.testing.assert_array_equal(host(a.t() + a.t()), x.T + x.T)
        np.testing.assert_array_equal(host(a.t() + 2.0), x.T + np.float32(2))
        np.testing.assert_array_equal(host(-a[1:, 3:]), -x[1:, 3:])
    assert (a.t() + 2.0).stride() == a.t().stride()
    a.add_(b)
    a.t().mul_(0.5)
    a[:, ::2].add_(values((4, n // 2), 9, device))
    x = (x + y) * np.float32(0.5)
    x[:, ::2] += host(values((4, n // 2), 9))
    np.testing.assert_array_equal(host(a), x)
    if device != "plain":
        assert general == []


def test_shared_memory_goes_the_general_way(general):
    b = values((2 * SIZE + 1,), 4)
    y = host(b).copy()
    b[1:SIZE + 1].add_(b[1::2])
    y[1:SIZE + 1] = y[1:SIZE + 1] + y[1::2]
    np.testing.assert_array_equal(host(b), y)
    assert general == ["add"]
    b.add_(b)
    np.testing.assert_array_equal(host(b), y + y)
    assert general == ["add"]


def test_shapes_that_do_not_fit():
    a = values((SIZE, 2), 5)
    for _ in range(2):
        with pytest.raises(ShapeError, match="add"):
            a + values((3,), 6)
        with pytest.raises(ShapeError, match="add"):
            a.add_(values((2, SIZE, 2), 6))
        with pytest.raises(ShapeError, match="expanded"):
            values((1, 2), 5).expand(SIZE, 2).add_(a)


def test_what_may_not_be_written_is_refused():
    with torch.inference_mode():
        made = values((SIZE,), 5) * 1.0
    with pytest.raises(AutogradError):
        made.add_(1.0)
    leaf = values((SIZE,), 5).requires_grad_()
    with pytest.raises(AutogradError):
        leaf.add_(1.0)


@pytest.mark.parametrize("dtype", ["float16", "int32", "float64"])
def test_other_dtypes(dtype):
    a = values((SIZE,), 6, dtype=dtype)
    x = a.detach()._values().copy()
    np.testing.assert_array_equal(host(a + a), x + x)
    np.testing.assert_array_equal(host(a * 3), x * x.dtype.type(3))
    a.sub_(1)
    np.testing.assert_array_equal(host(a), x - x.dtype.type(1))


def test_more_operands(device, general):
    n = LARGE if device == "cpu" else 12
    a, b, c = values((3, n), 7, device), values((n,), 8, device), values((3, 1), 9, device)
    x, y, z = host(a), host(b), host(c)
    mask = torch.tensor(x > 1.0, device=device)
    for value in (0.5, 2):
        np.testing.assert_array_equal(host(torch.addcmul(b, a, c, value=value)), y + np.float32(value) * x * z)
        np.testing.assert_array_equal(host(torch.where(mask, a, value)), np.where(x > 1, x, np.float32(value)))
        np.testing.assert_array_equal(host(a.masked_fill(mask, value)), np.where(x > 1, np.float32(value), x))
    np.testing.assert_array_equal(host(torch.where(mask, c, b)), np.where(x > 1, z, y))
    np.testing.assert_array_equal(host(a.clamp(0.75, 1.25)), np.clip(x, 0.75, 1.25))
    np.testing.assert_array_equal(host(torch.where(mask, mask, mask)), x > 1)
    if device != "plain":
        assert general == []


def test_other_dtypes_of_more_operands():
    a, mask = values((SIZE,), 7), torch.ones(SIZE, dtype=torch.bool_)
    assert torch.where(mask, a, a.to(torch.float64)).dtype is torch.float64
    assert torch.where(mask, mask, 2.5).dtype is torch.float32
    assert torch.where(mask, torch.ones(SIZE, dtype=torch.int32), 2.5).dtype is torch.float32
    assert torch.where(mask, mask, a).tolist()[:2] == [1.0, 1.0]
    whole = torch.ones(SIZE, dtype=torch.int64)
    assert torch.addcmul(whole, whole, whole, value=2).tolist()[-1] == 3
