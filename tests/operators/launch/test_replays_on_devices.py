"""Replays on devices with memory of their own: soon, and of arrays that the host would not record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.launch import replay
from tensocket_operators import functions as F
from tensocket_operators.differentiation import replayed_rules
from tensocket_operators.unrolled import launches
from tensocket_plugins.contract.plans import ReplayPlan
from tensocket_plugins.kit import plans

#: Calls until a composite in a rule, and the rule itself, are recorded, and some more.
CALLS = 3 * replay.CALLS + 3


@pytest.fixture(autouse=True)
def fresh_tables() -> Iterator[None]:
    """Closures that a test's calls make begin with it and end with it."""
    clear_tables()
    yield
    clear_tables()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each replay that the device is to compile, whether it did; the host would record no array of the tests."""
    for module in (replay, replayed_rules, launches):
        monkeypatch.setattr(module, "ELEMENTS", 2)
    runtime, answers = tc.zeros(1)._device_state.runtime, list[bool]()
    compile_plan = runtime.compile_plan

    def noted(plan: Any, next_path: Any) -> Any:
        made = compile_plan(plan, next_path)
        answers.extend([made is not None] if type(plan) is ReplayPlan else [])
        return made

    monkeypatch.setattr(runtime, "compile_plan", noted)
    return answers


def test_rows_and_their_gradients(asked: list[bool], near: Any) -> None:
    for seed in range(CALLS):
        values = np.random.default_rng(seed).standard_normal((5, 7))
        x = tc.tensor(values, requires_grad=True)
        y = x.softmax(1)
        (y * y).sum().backward()
        shares = np.exp(values) / np.exp(values).sum(1, keepdims=True)
        near(y, shares)
        near(x.grad, 2 * shares * (shares - (shares * shares).sum(1, keepdims=True)))
    assert sum(asked) >= 2  # the rows, and a rule


def test_products_and_their_gradients(asked: list[bool], near: Any) -> None:
    for seed in range(CALLS):
        draw = np.random.default_rng(seed)
        a, b, c, g = (draw.standard_normal(shape) for shape in ((4, 3), (6, 3), (6,), (4, 6)))
        x, w, bias = (tc.tensor(v, requires_grad=True) for v in (a, b, c))
        result = F.linear(x, w, bias)
        near(result, a @ b.T + c)
        result.backward(tc.tensor(g))
        for leaf, expected in ((x, g @ b), (w, g.T @ a), (bias, g.sum(0))):
            near(leaf.grad, expected)
    assert any(asked)


def test_arrays_above_the_limit_are_not_recorded(asked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (replay, replayed_rules, launches):
        monkeypatch.setattr(module, "DEVICE_ELEMENTS", 4)
    for size in (2, 3):
        x = tc.ones(size, 2, requires_grad=True)
        for _ in range(CALLS):
            F.layer_norm(x, (2,)).sum().backward()
        assert any(asked) == (size == 2)
        asked.clear()


def test_gradients_of_classes_replay_one_launch(asked: list[bool], near: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, replaying = list[tuple[int, int]](), plans._replaying

    def counted(empty: Any, plan: Any, call: Any, layouts: Any, launches: Any, next_path: Any) -> Any:
        made.append((len(plan.operands), len(launches)))
        return replaying(empty, plan, call, layouts, launches, next_path)

    monkeypatch.setattr(plans, "_replaying", counted)
    labels = np.array([0, 3, 1, -100])
    for seed in range(CALLS):
        values = np.random.default_rng(seed).standard_normal((4, 5))
        x = tc.tensor(values, requires_grad=True)
        F.cross_entropy(x, tc.tensor(labels)).backward()
        shares = np.exp(values) / np.exp(values).sum(1, keepdims=True)
        near(x.grad, (shares - np.eye(5)[labels % 5]) * (labels >= 0)[:, None] / 3)
    assert max(made)[1] == 1  # the rule has the most operands; the forward pass has counted the labels
