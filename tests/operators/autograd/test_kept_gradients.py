"""First gradients of leaves: kept without a copy if nobody else can see their memory, also where they are reshaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as tc
from tensocket_core.autograd import accumulate


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of the gradients that are copied."""
    shapes: list[tuple[int, ...]] = []
    copy = accumulate.copy_in_layout

    def noted(grad: Any, leaf: Any) -> Any:
        shapes.append(tuple(grad.shape))
        return copy(grad, leaf)

    monkeypatch.setattr(accumulate, "copy_in_layout", noted)
    return shapes


def test_sums_over_rows_are_kept(device: str, copied: list[tuple[int, ...]]) -> None:
    bias, scale = tc.zeros(3, requires_grad=True), tc.ones(3, requires_grad=True)
    ((tc.ones(2, 5, 3) * 2) * scale + bias).sum().backward()
    assert bias.grad.tolist() == [10.0] * 3
    assert scale.grad.tolist() == [20.0] * 3
    assert copied == []


def own(grad: Any) -> Any:
    return grad if grad._base is None else grad._base


@pytest.mark.parametrize("keep", [lambda grad: grad, own, lambda grad: grad.detach(), lambda grad: own(grad).detach(),
                                  lambda grad: grad.reshape(-1)[1:]])
def test_gradients_that_somebody_holds_are_copied(device: str, keep: Callable[[Any], Any]) -> None:
    bias, held = tc.zeros(3, requires_grad=True), list[Any]()
    bias.register_hook(lambda grad: held.append(keep(grad)))
    (tc.ones(2, 5, 3) + bias).sum().backward()
    bias.grad.add_(1)
    assert set(held[0].reshape(-1).tolist()) == {10.0}
    assert bias.grad.tolist() == [11.0] * 3
