"""Bags of rows against NumPy in double precision: uneven and long ones, and rows that do not count."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensocket as torch

F = torch.nn.functional
BOUNDS = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def expected(weight, index, starts, mode, factors=None, skipped=None):
    rows = []
    for first, end in itertools.pairwise(starts):
        kept = [k for k in range(first, end) if index[k] != skipped]
        part = weight[index[kept]] * (1 if factors is None else factors[kept, None])
        rows.append(part.sum(0) / (max(len(kept), 1) if mode == "mean" else 1))
    return np.array(rows)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("columns", [1, 5, 16, 63, 64, 150])
def test_uneven_bags(rng, dtype, columns):
    weight = torch.tensor(rng.standard_normal((30, columns)), dtype=dtype)
    index, starts = rng.integers(0, 30, 400), [0, 0, 1, 70, 70, 300, 400]
    exact = weight.double().numpy()
    bound = 40 * BOUNDS[dtype]
    factors = torch.tensor(rng.standard_normal(400), dtype=dtype)
    for mode in ("sum", "mean"):
        for padding in (None, 7, -1):
            skipped = None if padding is None else padding % 30
            got = F.embedding_bag(torch.tensor(index), weight, torch.tensor(starts[:-1]), mode=mode,
                                  padding_idx=padding)
            assert got.dtype is dtype
            np.testing.assert_allclose(got.double().numpy(), expected(exact, index, starts, mode, None, skipped),
                                       rtol=bound, atol=bound)
    for padding in (None, 7):
        got = F.embedding_bag(torch.tensor(index), weight, torch.tensor(starts), mode="sum", include_last_offset=True,
                              per_sample_weights=factors, padding_idx=padding)
        np.testing.assert_allclose(got.double().numpy(), expected(
            exact, index, starts, "sum", factors.double().numpy(), padding), rtol=bound, atol=bound)


def test_rows_of_indices_and_strided_tables(rng):
    weight, index = rng.standard_normal((9, 40)), rng.integers(0, 9, (6, 4))
    for table in (torch.tensor(weight)[:, 3:30], torch.tensor(weight.T.copy()).T[:, ::2], torch.tensor(weight)[::2]):
        exact, places = table.numpy(), index % table.shape[0]
        for kind in (torch.int32, torch.int64):
            got = F.embedding_bag(torch.tensor(places, dtype=kind), table, mode="mean")
            np.testing.assert_allclose(got.numpy(), exact[places].mean(1), rtol=1e-14, atol=1e-14)
    assert F.embedding_bag(torch.zeros(3, 0, dtype=torch.int64), torch.tensor(weight)).tolist() == [[0.0] * 40] * 3
    assert F.embedding_bag(torch.zeros(0, 5, dtype=torch.int64), torch.tensor(weight)).shape == (0, 40)


def test_long_bags_are_summed_exactly_enough():
    ones = torch.full((1, 3), 0.1)
    got = F.embedding_bag(torch.zeros(1, 1 << 20, dtype=torch.int64), ones, mode="mean")
    np.testing.assert_allclose(got.numpy(), [[np.float32(0.1)] * 3], rtol=4e-6)


def test_a_row_that_does_not_count_may_be_infinite():
    weight = torch.tensor([[float("inf"), float("nan")], [1.0, 2.0]])
    got = F.embedding_bag(torch.tensor([[0, 1, 1]]), weight, mode="sum", padding_idx=0)
    assert got.tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize("index", [[0, 9], [-1, 2]])
def test_indices_outside_are_refused(index):
    with pytest.raises(IndexError, match="embedding_bag"):
        F.embedding_bag(torch.tensor([index]), torch.ones(9, 2), mode="sum")


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
def test_gradients(rng, mode, padding):
    weight = torch.tensor(rng.standard_normal((5, 3)), requires_grad=True)
    index, starts = torch.tensor([2, 0, 2, 4, 1, 1]), torch.tensor([0, 2, 2, 3])
    factors = torch.tensor(rng.standard_normal(6), requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: F.embedding_bag(index, w, starts, mode=mode, padding_idx=padding), weight)
    assert torch.autograd.gradgradcheck(
        lambda w: F.embedding_bag(index, w, starts, mode=mode, padding_idx=padding).square(), weight)
    if mode == "sum":
        assert torch.autograd.gradcheck(lambda w, f: F.embedding_bag(
            index, w, starts, mode=mode, per_sample_weights=f, padding_idx=padding), (weight, factors))


def test_under_transforms(rng):
    weights = torch.tensor(rng.standard_normal((4, 5, 3)))
    index, starts = torch.tensor([2, 0, 2, 4, 1, 1]), torch.tensor([0, 2, 2, 3])

    def bags(w):
        return F.embedding_bag(index, w, starts, mode="mean")

    together = torch.func.vmap(bags)(weights)
    for one, got in zip(weights, together, strict=True):
        np.testing.assert_allclose(got.numpy(), bags(one).numpy(), rtol=1e-14)
    _, slope = torch.func.jvp(bags, (weights[0],), (weights[1],))
    np.testing.assert_allclose(slope.numpy(), bags(weights[1]).numpy(), rtol=1e-14)


def test_gradients_that_are_not_finite_do_not_reach_a_row_of_padding():
    weight = torch.ones(3, 2, requires_grad=True)
    factors = torch.tensor([[1.0], [float("nan")], [1.0]])
    (F.embedding(torch.tensor([0, 1, 2]), weight, padding_idx=1) * factors).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_rows_are_scaled_down_without_their_tangents():
    weight = torch.full((2, 2), 3.0)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(weight, torch.ones(2, 2))
        rows, tangent = torch.autograd.forward_ad.unpack_dual(F.embedding(torch.tensor([0]), dual, max_norm=1.0))
    assert torch.allclose(rows, torch.full((1, 2), 0.5 ** 0.5))
    assert tangent.tolist() == [[1, 1]]


@pytest.mark.parametrize("make", [torch.nn.Embedding, torch.nn.EmbeddingBag])
def test_a_row_of_padding_is_one_of_the_rows(make):
    for index in (10, -11):
        with pytest.raises(AssertionError, match="padding_idx is one of the rows"):
            make(10, 2, padding_idx=index)
    with pytest.raises(AssertionError, match="padding_idx is one of the rows"):
        F.embedding(torch.tensor([1]), torch.ones(3, 2), padding_idx=3)


def test_the_former_order_of_arguments_is_accepted_with_a_warning():
    table, index, starts = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([0, 1, 1]), torch.tensor([0, 2])
    with pytest.warns(UserWarning, match=r"should now be `embedding_bag\(input, weight"):
        found = F.embedding_bag(table, index, starts, mode="sum")
    assert found.tolist() == [[4, 7], [3, 5]]
