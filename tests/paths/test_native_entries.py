"""Native entries of functions that NumPy rounds differently: made when a call is small enough for them, not before."""

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
