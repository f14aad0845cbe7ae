"""Native entries of functions that NumPy rounds differently or computes in several calls: made when a call is small
enough for them, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import clear_tables

pytestmark = pytest.mark.native

CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (lambda x: x.exp(), np.exp),
    "sign": (lambda x: x.sign(), np.sign),  # NumPy's is not the operator's on NaN: the formula takes several calls
    "sum": (lambda x: x.sum(), lambda x: x.sum()),
    "softmax_rows": (lambda x: torch.softmax(x, -1), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax_rows": (lambda x: torch.log_softmax(x, dim=1), lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
}


@pytest.fixture
def native_entries() -> Iterator[dict[Any, Any]]:
    state = open_device("cpu")
    before = dict(state.native_entries)
    state.native_entries.clear()
    clear_tables()
    yield state.native_entries
    state.native_entries.update(before)
    clear_tables()


@pytest.mark.parametrize("name", CASES)
def test_large_calls_need_no_native_entry(name: str, native_entries: dict[Any, Any]) -> None:
    run, expected = CASES[name]
    large, small = (np.linspace(-1, 2, rows * 65, dtype=np.float32).reshape(rows, 65) for rows in (4096, 3))
    for _ in range(2):
        found = run(torch.tensor(large))
        np.testing.assert_allclose(found.numpy(), expected(large.astype(np.float64)), rtol=2e-5, atol=1e-6)
    assert not any(key[0] == name for key in native_entries)
    for _ in range(3):
        found = run(torch.tensor(small))
        np.testing.assert_allclose(found.numpy(), expected(small.astype(np.float64)), rtol=2e-5, atol=1e-6)
        assert any(key[0] == name for key in native_entries)
    np.testing.assert_allclose(run(torch.tensor(large)).numpy(), expected(large.astype(np.float64)), rtol=2e-5,
                               atol=1e-6)


def test_large_and_small_round_alike(native_entries: dict[Any, Any]) -> None:
    values = torch.linspace(-5, 5, 40000)
    parts = torch.cat([values[k:k + 500].clone().tanh() for k in range(0, 40000, 500)])
    assert (values.tanh() == parts).all().item()


def test_operands_by_name_and_wrong_ones(native_entries: dict[Any, Any]) -> None:
    assert torch.exp(input=torch.zeros(3)).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(TypeError):
        torch.exp()
    with pytest.raises(TypeError):
        torch.exp("a")


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod", "nansum"])
@pytest.mark.parametrize("value", [2.5, -0.0, float("nan"), float("inf")])
def test_reductions_of_one_number_have_an_entry(name: str, value: float, native_entries: dict[Any, Any]) -> None:
    x, expected = torch.tensor(value), 0.0 if name == "nansum" and value != value else value
    for _ in range(3):
        for found in (getattr(x, name)(), getattr(x, name)(0), getattr(x, name)(-1)):
            assert found.shape == ()
            np.testing.assert_array_equal(found.numpy(), np.float32(expected))
            assert found.data_ptr() != x.data_ptr()
        assert (found + torch.ones(2)).dtype is torch.float32
        assert (found + torch.ones(2, dtype=torch.float16)).dtype is torch.float16  # it has no dimensions
    with pytest.raises(IndexError):
        getattr(x, name)(1)


def test_three_operands_have_an_entry(native_entries: dict[Any, Any]) -> None:
    a, b, c = (np.random.default_rng(k).normal(size=(5, 7)).astype(np.float32) for k in range(3))
    x, y, z = map(torch.tensor, (a, b, c))
    for _ in range(3):
        np.testing.assert_array_equal(torch.clamp(x, y, z).numpy(), np.minimum(np.maximum(a, b), c))
        np.testing.assert_allclose(torch.addcmul(x, y, z).numpy(), a + b.astype(np.float64) * c, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(torch.lerp(x, y, 0.25).numpy(), a + 0.25 * (b.astype(np.float64) - a), rtol=1e-5,
                                   atol=1e-6)
        np.testing.assert_allclose(torch.lerp(x, y, z).numpy(), a + c.astype(np.float64) * (b - a), rtol=1e-5,
                                   atol=1e-5)
        # Shapes, layouts and numbers that the entry declines.
        np.testing.assert_array_equal(torch.clamp(x, y[0], z).numpy(), np.minimum(np.maximum(a, b[0]), c))
        np.testing.assert_array_equal(torch.clamp(x.T, y.T, z.T).numpy(), np.minimum(np.maximum(a, b), c).T)
        np.testing.assert_array_equal(torch.clamp(x, 0.5, 1).numpy(), np.clip(a, 0.5, 1))
        np.testing.assert_array_equal(torch.clamp(x, torch.tensor(0.5), z).numpy(),
                                      np.minimum(np.maximum(a, np.float32(0.5)), c))
    with pytest.raises(RuntimeError):
        torch.lerp(x, y[:, :3], 0.25)


def test_two_numbers_have_an_entry(native_entries: dict[Any, Any]) -> None:
    a = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    x, whole = torch.tensor(a), torch.tensor([-3, 0, 5])
    for _ in range(3):
        for low, high in ((-0.5, 0.5), (-1, 0.25), (0, 1), (0.5, -0.5), (-0.0, np.inf), (np.nan, 1.0)):
            low_, high_ = np.float32(low), np.float32(high)
            np.testing.assert_array_equal(x.clamp(low, high).numpy(), np.minimum(np.maximum(a, low_), high_))
            leaf = x.clone().requires_grad_()
            leaf.clamp(low, high).sum().backward()
            np.testing.assert_array_equal(leaf.grad.numpy(), ((a >= low_) & (a <= high_)).astype(np.float32))
        assert whole.clamp(-1, 2).tolist() == [-1, 0, 2]
        assert whole.clamp(-1.5, 2).tolist() == [-1.5, 0.0, 2.0]
        # Numbers and tensors, which the entry declines.
        y = torch.tensor(a[::-1].copy())
        np.testing.assert_array_equal(x.clamp(y, 0.5).numpy(), np.minimum(np.maximum(a, a[::-1]), np.float32(0.5)))
        np.testing.assert_array_equal(x.clamp(0.5, y).numpy(), np.minimum(np.maximum(a, np.float32(0.5)), a[::-1]))
        with pytest.raises(torch.errors.ArgumentError, match="1e\\+300 for float32"):
            x.clamp(0, 1e300)
