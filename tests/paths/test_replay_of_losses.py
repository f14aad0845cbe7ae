"""Losses of class indices on small arrays, called often: values against closed forms, and labels that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device
from tensocket_core.launch import replay as kept
from tensocket_operators.explain import explain
from tensocket_plugins.contract.launch_recorder import forbid_replay

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh_tables")
#: Calls until launches are kept, and some more.
CALLS = 6
TOLERANCES = {"float64": 1e-13, "float32": 1e-5}
IGNORED = -100


def expected(x: Any, labels: Any, weight: Any, ignored: int, reduction: str, scores: bool) -> tuple[Any, Any]:
    """The loss and its gradient in float64."""
    rows, places = np.arange(len(labels)), np.where(labels == ignored, 0, labels)
    shares = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    logs = np.log(shares) if scores else x
    factors = np.where(labels == ignored, 0.0, 1.0 if weight is None else weight[places])
    terms = -logs[rows, places] * factors
    with np.errstate(invalid="ignore"):
        loss = {"none": terms, "sum": terms.sum(), "mean": terms.sum() / factors.sum()}[reduction]
    scales = factors / (factors.sum() or 1) if reduction == "mean" else factors
    gradient = shares * scales[:, None] if scores else np.zeros_like(x)
    gradient[rows, places] -= scales
    return loss, gradient


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scores", [False, True])
def test_losses_and_gradients(dtype: str, reduction: str, weighted: bool, scores: bool) -> None:
    kind, rtol = getattr(torch, dtype), TOLERANCES[dtype]
    run = F.cross_entropy if scores else F.nll_loss
    for seed in range(CALLS):
        rng = np.random.default_rng(seed)
        for rows, classes, ignored in ((9, 5, IGNORED), (9, 5, 2), (1, 3, IGNORED)):
            x, labels, w = rng.standard_normal((rows, classes)), rng.integers(0, classes, rows), rng.random(classes)
            labels[:seed] = ignored  # all of the one label of a row, too
            for laid in (torch.tensor(x, dtype=kind), torch.tensor(x.T.copy(), dtype=kind).t()):
                leaf = laid.detach().requires_grad_()
                weight = torch.tensor(w, dtype=kind) if weighted else None
                found = run(leaf, torch.tensor(labels), weight, ignore_index=ignored, reduction=reduction)
                plain = run(laid, torch.tensor(labels), weight, ignore_index=ignored, reduction=reduction)
                values = laid.double().numpy()
                wanted, gradient = expected(values, labels, None if weight is None else weight.double().numpy(),
                                            ignored, reduction, scores)
                assert found.dtype is kind
                np.testing.assert_array_equal(plain.numpy(), found.detach().numpy())
                np.testing.assert_allclose(plain.double().numpy(), wanted, rtol=rtol, atol=rtol)
                found.backward(torch.ones_like(plain))
                np.testing.assert_allclose(leaf.grad.double().numpy(), gradient, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scores", [False, True])
def test_losses_of_one_example_without_a_dimension_of_examples(reduction: str, weighted: bool, scores: bool) -> None:
    run = F.cross_entropy if scores else F.nll_loss
    for seed in range(CALLS):
        rng = np.random.default_rng(seed)
        x, w, label = rng.standard_normal(5), rng.random(5), seed % 5
        leaf = torch.tensor(np.repeat(x, 2))[::2].detach().requires_grad_()
        weight = torch.tensor(w) if weighted else None
        for ignored in (IGNORED, 2):
            given = torch.tensor(label), weight
            loss = run(leaf, *given, ignore_index=ignored, reduction=reduction)
            plain = run(leaf.detach(), *given, ignore_index=ignored, reduction=reduction)
            wanted, gradient = expected(x[None], np.array([label]), w if weighted else None, ignored, reduction, scores)
            assert loss.shape == plain.shape == ()
            np.testing.assert_array_equal(plain.numpy(), loss.detach().numpy())
            np.testing.assert_allclose(plain.item(), np.squeeze(wanted), rtol=1e-13)
            found = torch.autograd.grad(loss, leaf)[0].numpy()
            np.testing.assert_allclose(found, gradient[0], rtol=1e-13, atol=1e-15)
    with pytest.raises(IndexError, match="index 5 of a dimension of size 5 — an index lies between 0 and 4"):
        run(leaf.detach(), torch.tensor(5), weight, reduction=reduction)


@pytest.mark.native
def test_the_loss_of_one_example_launches_the_kernel_of_a_matrix() -> None:
    for _ in range(CALLS):
        F.cross_entropy(torch.ones(4), torch.tensor(1))
    assert explain(F.cross_entropy, torch.ones(4), torch.tensor(1))[0].path == "replay"


@pytest.mark.parametrize("run", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("label", [3, -1, -101, 1 << 40])
def test_labels_out_of_range_are_refused_in_every_call(run: Any, label: int) -> None:
    x = torch.zeros(4, 3)
    for _ in range(CALLS):
        assert run(x, torch.tensor([0, 1, 2, IGNORED])).isfinite().item()
        for leaf in (x, x.clone().requires_grad_()):
            with pytest.raises(IndexError, match="of a dimension of size 3"):
                run(leaf, torch.tensor([0, label, 2, 0]))


def test_sums_of_doubles_lose_nothing() -> None:
    x = np.array([[-1e16], [-1.0], [1e16], [-1.0]])
    found = F.nll_loss(torch.tensor(x), torch.zeros(4, dtype=torch.int64), reduction="sum")
    assert found.item() == 2.0


def test_infinite_terms_and_other_rows() -> None:
    x = torch.tensor([[0.0, -np.inf], [0.5, -np.inf]], dtype=torch.float64)
    for _ in range(CALLS):
        assert F.nll_loss(x, torch.tensor([1, 0]), reduction="sum").item() == np.inf
        assert F.nll_loss(x, torch.tensor([0, 0]), reduction="sum").item() == -0.5
        assert F.nll_loss(x, torch.tensor([0, 1]), ignore_index=1, reduction="sum").item() == 0.0


@pytest.mark.native
def test_calls_are_kept_and_refused_by_value(asked: list[bool]) -> None:
    x, labels = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
    for _ in range(CALLS):
        F.cross_entropy(x, labels)
        F.nll_loss(x, labels)
    assert asked
    assert all(asked)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_positions_are_checked_in_every_call(size: int) -> None:
    table = torch.arange(3.0 * size).reshape(size, 3)
    for k in range(CALLS):
        place = k % size
        rows = torch.tensor([[place] * 3])
        assert table.gather(0, rows).tolist() == [table[place].tolist()]
        assert table.index_select(0, rows[0]).tolist() == [table[place].tolist()] * 3
        assert F.embedding(rows, table).tolist() == [[table[place].tolist()] * 3]
        for wrong in (size, -1):
            bad = torch.full((1, 3), wrong)
            with pytest.raises((IndexError, RuntimeError)):
                table.gather(0, bad)
            with pytest.raises((IndexError, RuntimeError)):
                table.index_select(0, bad[0])
            with pytest.raises((IndexError, RuntimeError)):
                F.embedding(bad, table)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_gradients_of_tables_at_positions_that_change_unseen(size: int) -> None:
    """Positions are looked at again where launches are kept."""
    table = torch.zeros(size, 3, requires_grad=True)
    for k in range(2 * CALLS):
        places = np.array([k % size, 0, size - 1])
        rows = F.embedding(torch.from_numpy(places), table)
        wanted = np.zeros((size, 3))
        np.add.at(wanted, places, np.ones(3))
        rows.sum().backward()
        np.testing.assert_array_equal(table.grad.numpy(), wanted)
        table.grad = None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_ignored_is_compared_in_every_call(dtype: str) -> None:
    """Paddings, and labels that are ignored and smoothed, which calls before did not have."""
    kind, rows = getattr(torch, dtype), 40
    x = torch.zeros(rows, 8, dtype=kind)
    for k in range(2 * CALLS):
        labels = np.arange(rows) % 5
        labels[:k // 2] = 5  # none in the first calls
        wanted = np.zeros((6, 32))
        np.add.at(wanted, labels, 1.0)
        wanted[5] = 0
        table = torch.zeros(6, 32, dtype=kind, requires_grad=True)
        F.embedding(torch.tensor(labels), table, padding_idx=5).sum().backward()
        np.testing.assert_array_equal(table.grad.double().numpy(), wanted)
        for smoothing in (0.0, 0.25):
            terms = F.cross_entropy(x, torch.tensor(labels), ignore_index=5, reduction="none",
                                    label_smoothing=smoothing).double().numpy()
            np.testing.assert_allclose(terms, np.where(labels == 5, 0.0, np.log(8)), rtol=1e-2, atol=1e-6)


@pytest.mark.native
@pytest.mark.parametrize("refused", [False, True])
def test_operators_may_forbid_replays(refused: bool) -> None:
    calls: list[bool] = []

    def run(x: Any) -> Any:
        calls.append(True)
        if refused:
            forbid_replay()
        return F.layer_norm(x, (5,))

    call, x = kept.replayed(open_device("cpu"), [0], 1, run), torch.randn(4, 5)
    for _ in range(CALLS):
        call(x)
    before = len(calls)
    np.testing.assert_array_equal(call(x).numpy(), F.layer_norm(x, (5,)).numpy())
    assert len(calls) == before + refused
