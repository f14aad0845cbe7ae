"""Composites with sums as one call of machine code: the sums have the bits of those that the composite's calls make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.dispatch.registry import clear_tables
from tensocket_operators.unrolled import fronts

F = torch.nn.functional
pytestmark = [pytest.mark.usefixtures("fresh_tables"), pytest.mark.native]

CASES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "mean of all": (lambda x, y: F.margin_ranking_loss(x, y, -y.sign()),
                    lambda x, y: np.maximum(np.sign(y) * (x - y), 0).mean()),
    "sum of all": (lambda x, y: F.poisson_nll_loss(x, y, reduction="sum"), lambda x, y: (np.exp(x) - y * x).sum()),
    "sum of rows": (lambda x, y: torch.linalg.vecdot(x, y), lambda x, y: (x * y).sum(-1)),
    "sum of rows, kept": (lambda x, y: torch.logsumexp(x, 1, True),
                          lambda x, y: np.log(np.exp(x).sum(1, keepdims=True))),
}


@pytest.fixture(autouse=True)
def _launched_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "LAUNCHED_CALLS", 3)


def contents(turn: int, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(turn)
    return random.standard_normal(shape) * 10.0 ** random.integers(-3, 1, shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (4, 9), (2, 40), (7, 1), (1, 33), (3, 3, 11)])
@pytest.mark.parametrize("name", list(CASES))
def test_sums_have_the_same_bits(name: str, shape: tuple[int, ...], dtype: Any,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    run, reference = CASES[name]

    def outcome(turn: int) -> Any:
        return run(*[torch.tensor(contents(k, shape), dtype=dtype) for k in (turn, turn + 100)])

    with monkeypatch.context() as patch:
        patch.setattr(fronts, "LAUNCHED_CALLS", 10**9)
        wanted = [outcome(turn).numpy().tobytes() for turn in range(12)]
    clear_tables()
    for turn in (*[0] * 9, *range(12)):
        found = outcome(turn).numpy()
        assert found.tobytes() == wanted[turn]
        expected = reference(contents(turn, shape), contents(turn + 100, shape))
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_losses_are_launched(asked: list[bool]) -> None:
    x, y = (torch.tensor(contents(k, (3, 5)), dtype=torch.float32) for k in range(2))
    for name, (run, _) in CASES.items():
        asked.clear()
        for _ in range(12):
            run(x, y)
        assert any(asked), name


def test_sums_in_another_order_are_not_launched(asked: list[bool]) -> None:
    x, y = (torch.tensor(contents(k, (3, 5)), dtype=torch.float32) for k in range(2))
    for _ in range(12):
        torch.linalg.vecdot(x, y, dim=0)
    assert not any(asked)


def test_slow_calls_are_launched_sooner(asked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor(contents(0, (3, 5)), dtype=torch.float32)
    monkeypatch.setattr(fronts, "LAUNCHED_CALLS", 50)

    def recorded(seconds_per_call: float) -> bool:
        clear_tables()
        asked.clear()
        monkeypatch.setattr(fronts, "_CALL_SECONDS", seconds_per_call)
        for _ in range(12):
            torch.trapezoid(x)
        return any(asked)

    assert recorded(1e-9)
    assert not recorded(1e9)
