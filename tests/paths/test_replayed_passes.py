"""Whole backward passes as replays: they serve graphs of the recorded form only, and leave what the engine leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.launch import entries
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_operators.differentiation import replayed_passes

F = torch.nn.functional
pytestmark = [pytest.mark.usefixtures("fresh_tables"),
              pytest.mark.skipif(not entries.ENABLED, reason="machine code is turned off")]
#: Passes until launches are recorded, and some more.
PASSES = 4


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How each pass was served: by ``matched`` or ``found`` recordings, or ``no``; nothing is recorded at first."""
    replayed_passes._KNOWN.clear()
    replayed_passes._MATCHED.clear()
    replayed_passes._MISSES.clear()
    monkeypatch.setattr(replayed_passes, "PASSES", 0)
    answers: list[str] = []
    original, matched = replayed_passes.replayed_pass, replayed_passes._Replays.matched
    by_match: list[bool] = []

    def noted_match(*args: Any) -> Any:
        made = matched(*args)
        by_match.append(made is not None)
        return made

    def noted(*args: Any) -> Any:
        by_match.clear()
        made = original(*args)
        answers.append("no" if made is None else "matched" if any(by_match) else "found")
        return made

    monkeypatch.setattr(replayed_passes._Replays, "matched", noted_match)
    monkeypatch.setattr(replayed_passes, "replayed_pass", noted)
    before = OVERRIDDEN_KERNELS[:]
    OVERRIDDEN_KERNELS.clear()
    yield answers
    OVERRIDDEN_KERNELS[:] = before
    replayed_passes._KNOWN.clear()
    replayed_passes._MATCHED.clear()
    replayed_passes._MISSES.clear()


def leaf(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def repeat(run: Callable[[], Any]) -> Any:
    """Run often enough that the last run is replayed, and return its result."""
    for _ in range(PASSES - 1):
        run()
    return run()


def test_a_leaf_gets_the_gradients_of_all_its_uses(served: list[str]) -> None:
    x = leaf(1.0, 2.0)

    def run() -> None:
        x.grad = None
        (x * x + x * 3.0).sum().backward()

    repeat(run)
    assert served == ["no", "matched", "matched", "matched"]
    np.testing.assert_array_equal(x.grad.numpy(), [5.0, 7.0])


def test_gradients_add_up(served: list[str]) -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for k in range(1, 2 * PASSES):
        (x * y).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), k * np.array([3.0, 4.0]))
    assert served[-1] == "matched"
    kept = x.grad
    (x * y).sum().backward()
    assert x.grad is kept, "gradients are added in place"


def test_graphs_of_equal_rules_and_other_connections(served: list[str]) -> None:
    """Each has two products and a sum of them; leaves are shared in other ways, or products are in another order."""
    for seed in range(3 * PASSES):
        values = np.random.default_rng(seed).standard_normal((3, 2))
        for form in range(6):
            a, b, c = [torch.tensor(v, requires_grad=True) for v in values]
            first, second = [(a, b), (a, a), (b, a), (a, b), (a, c), (b, b)][form], [
                (b, c), (b, c), (a, c), (b, a), (b, b), (a, c)][form]
            (first[0] * first[1] + second[0] * second[1] * (form + 1.0)).sum().backward()
            wanted = {id(a): np.zeros(2), id(b): np.zeros(2), id(c): np.zeros(2)}
            for (x, y), factor in ((first, 1.0), (second, form + 1.0)):
                wanted[id(x)] = wanted[id(x)] + y.detach().numpy() * factor
                wanted[id(y)] = wanted[id(y)] + x.detach().numpy() * factor
            for x in (a, b, c):
                found = np.zeros(2) if x.grad is None else x.grad.numpy()
                np.testing.assert_allclose(found, wanted[id(x)], rtol=1e-14)
    assert "found" in served  # more forms than machine code looks for


def test_recordings_let_later_forms_be_looked_at(served: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only passes of which none is recorded are seldom looked at."""
    monkeypatch.setattr(replayed_passes, "PASSES", 2)
    monkeypatch.setattr(replayed_passes, "_MISSED", 4)
    for size in range(1, 7):
        x = torch.ones(size, dtype=torch.float64, requires_grad=True)
        for _ in range(4):
            (x * x).sum().backward()
        assert served[-1] == "matched", size


def test_order_of_branches_is_part_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine adds the gradient of the newer branch first: sums of three may round otherwise."""
    rng = np.random.default_rng(0)
    for k in range(4 * PASSES):
        x = torch.tensor(rng.standard_normal(8), requires_grad=True)
        if k % 2:
            left, right = x.sin(), x.exp()
        else:
            right = x.exp()
            left = x.sin()
        loss = (left + right + x).sum()
        (found,) = torch.autograd.grad(loss, x, retain_graph=True)
        with monkeypatch.context() as patch:
            patch.setattr(replayed_passes, "replayed_pass", lambda *args: None)
            (wanted,) = torch.autograd.grad(loss, x)
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_shapes_dtypes_and_numbers_are_part_of_the_form() -> None:
    for k in range(3 * PASSES):
        for shape, dtype, number in (((2,), torch.float64, 2.0), ((3, 2), torch.float64, 2.0),
                                     ((2,), torch.float32, 2.0), ((2,), torch.float64, 0.5 * k)):
            x = torch.tensor(np.random.default_rng(k).random(shape), dtype=dtype, requires_grad=True)
            y = torch.ones(2, dtype=dtype, requires_grad=True)
            found = torch.autograd.grad((x * number * y).sum(), (x, y))
            assert found[0].dtype is dtype
            assert found[0].shape == x.shape
            np.testing.assert_allclose(found[0].numpy(), np.full(shape, number), rtol=1e-6)
            np.testing.assert_allclose(found[1].numpy(), number * x.detach().numpy().reshape(-1, 2).sum(0), rtol=1e-6)


def test_hooks_run(served: list[str]) -> None:
    x, seen = leaf(1.0, 2.0), []
    repeat(lambda: (x * x).sum().backward())
    assert served[-1] == "matched"
    x.grad = None
    handle = x.register_hook(lambda grad: seen.append(grad.tolist()))
    (x * x).sum().backward()
    handle.remove()
    assert seen == [[2.0, 4.0]]
    y = x * x
    y.register_hook(lambda grad: 2 * grad)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [4.0, 8.0]
    y = x * x
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_saved_tensors_are_freed_and_checked(served: list[str]) -> None:
    x = leaf(1.0, 2.0)
    loss = repeat(lambda: torch.autograd.grad((x * x).sum(), x) and (x * x).sum())
    assert served[-1] == "matched"
    torch.autograd.grad(loss, x, retain_graph=True)
    torch.autograd.grad(loss, x)
    with pytest.raises(RuntimeError, match="freed by the first backward"):
        torch.autograd.grad(loss, x)
    y = x * 2
    loss = (y * y).sum()
    repeat(lambda: torch.autograd.grad(((x * 2) * (x * 2)).sum(), x))
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, x)


def test_versions_move_on(served: list[str]) -> None:
    x, w = leaf(1.0, 2.0), torch.tensor([3.0, 4.0], dtype=torch.float64)
    for k in range(300):
        w.add_(1)
        (found,) = torch.autograd.grad((x * w).sum(), x)
        np.testing.assert_array_equal(found.numpy(), [4.0 + k, 5.0 + k])
    assert served[-1] == "matched"


def test_inputs_that_are_not_all_leaves_of_the_graph(served: list[str]) -> None:
    x, y, z = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0)
    for _ in range(PASSES):
        assert torch.autograd.grad((x * y).sum(), x)[0].tolist() == [3.0, 4.0]
    for _ in range(PASSES):
        found = torch.autograd.grad((x * y).sum(), (z, y, x), allow_unused=True)
        assert [None if g is None else g.tolist() for g in found] == [None, [1.0, 2.0], [3.0, 4.0]]
    assert served[-1] == "matched"
    with pytest.raises(RuntimeError, match="do not depend on"):
        torch.autograd.grad((x * y).sum(), (x, y, z))
    assert torch.autograd.grad((x * y).sum(), [x, x, y])[1].tolist() == [3.0, 4.0]


def test_several_losses(served: list[str]) -> None:
    x = leaf(1.0, 2.0)
    for _ in range(PASSES):
        parts = x.unbind(0)
        found = torch.autograd.grad([parts[0] * 3, parts[1] * parts[0]], x)
        assert found[0].tolist() == [5.0, 1.0]
    assert served[-1] == "matched"
    with pytest.raises(RuntimeError):
        torch.autograd.grad([parts[0] * 3, x], x)


def test_operators_with_several_results(served: list[str]) -> None:
    x = leaf(3.0, 1.0, 2.0)
    for _ in range(PASSES):
        values, _ = x.sort()
        assert torch.autograd.grad((values * torch.arange(3.0, dtype=torch.float64)).sum(), x)[0].tolist() == [2, 0, 1]
        a, b = x.split([1, 2])
        assert torch.autograd.grad((a * 2).sum() + (b * 3).sum(), x)[0].tolist() == [2.0, 3.0, 3.0]


def test_models_train_as_without(served: list[str]) -> None:
    """A classifier with 6 parameters, against gradients in closed form by NumPy."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    rng = np.random.default_rng(0)
    for step in range(2 * PASSES):
        x, labels = rng.standard_normal((5, 3)), rng.integers(0, 2, 5)
        model.zero_grad()
        F.cross_entropy(model(torch.tensor(x)), torch.tensor(labels)).backward()
        w1, b1, w2, b2 = [p.detach().numpy() for p in model.parameters()]
        hidden = np.tanh(x @ w1.T + b1)
        scores = hidden @ w2.T + b2
        share = np.exp(scores - scores.max(1, keepdims=True))
        slope = (share / share.sum(1, keepdims=True) - np.eye(2)[labels]) / 5
        inner = slope @ w2 * (1 - hidden * hidden)
        wanted = inner.T @ x, inner.sum(0), slope.T @ hidden, slope.sum(0)
        for parameter, expected in zip(model.parameters(), wanted, strict=True):
            np.testing.assert_allclose(parameter.grad.numpy(), expected, rtol=1e-12, atol=1e-15, err_msg=str(step))
    assert served[-1] == "matched"


def test_other_default_dtypes_and_detached_parameters(served: list[str]) -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    repeat(lambda: torch.autograd.grad((x * y).sum(), (x, y)))
    torch.set_default_dtype(torch.float64)
    try:
        torch.autograd.grad((x * y).sum(), (x, y))
        assert served[-1] == "no"
    finally:
        torch.set_default_dtype(torch.float32)
    y.requires_grad_(False)
    for _ in range(PASSES):
        assert torch.autograd.grad((x * y).sum(), x)[0].tolist() == [3.0, 4.0]
    with pytest.raises(RuntimeError):
        torch.autograd.grad((x * y).sum(), (x, y))


def test_results_are_new_memory(served: list[str]) -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    kept = [torch.autograd.grad((x + y).sum(), (x, y)) for _ in range(PASSES)]
    assert served[-1] == "matched"
    for pair in kept:
        for grad in pair:
            grad.add_(1)
    assert all(grad.tolist() == [2.0, 2.0] for pair in kept for grad in pair)


def test_gradients_of_gradients_and_modes_take_the_engine(served: list[str]) -> None:
    x = leaf(1.0, 2.0)
    repeat(lambda: torch.autograd.grad((x * x * x).sum(), x))
    del served[:]
    (slope,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert torch.autograd.grad(slope.sum(), x)[0].tolist() == [6.0, 12.0]
    with pytest.warns(UserWarning, match="Anomaly"):
        checked = torch.autograd.detect_anomaly(check_nan=True)
    with checked:
        torch.autograd.grad((x * x * x).sum(), x)
    assert "matched" not in served


def test_graphs_that_are_never_served_are_seldom_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed_passes, "_MISSED", 4)
    looked, find = [], replayed_passes._found_pass
    monkeypatch.setattr(replayed_passes, "_found_pass", lambda *args: looked.append(args) or find(*args))
    x = leaf(1.0, 2.0)
    x.register_hook(lambda grad: None)
    for _ in range(3 * replayed_passes._SELDOM):
        assert torch.autograd.grad((x * x).sum(), x)[0].tolist() == [2.0, 4.0]
    assert len(looked) == 4 + 3
    y = leaf(1.0, 2.0)
    for _ in range(PASSES * replayed_passes._SELDOM):
        torch.autograd.grad((y * y).sum(), y)
    assert replayed_passes._MATCHED, "graphs of other forms are found in the end"
