"""Batches: dimensions of arguments and results, promotion, indices, randomness, fallback, what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.transforms import batching
from tensocket_operators.transforms import register_batching_rule, vmap
from tensocket_plugins.contract.errors import AutogradError, TransformError

X = np.arange(12.0).reshape(3, 4) / 7 - 0.5


def tensor(values: Any, dtype: Any = torch.float64) -> Any:
    return torch.tensor(np.asarray(values), dtype=dtype)


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(actual.tolist()), np.asarray(expected), rtol=1e-12, atol=1e-14)


def test_dimensions_of_arguments_and_results() -> None:
    same(vmap(lambda x: x * 2, in_dims=1)(tensor(X)), 2 * X.T)
    same(vmap(lambda x: x * 2, in_dims=-1, out_dims=-1)(tensor(X)), 2 * X)
    same(vmap(lambda x, y: x + y, in_dims=(0, None))(tensor(X), tensor(X[0])), X + X[0])
    same(vmap(lambda x, y: (x, y), in_dims=(0, 1), out_dims=(1, 0))(tensor(X), tensor(X.T))[0], X.T)
    result = vmap(lambda d, k: {"z": d["a"] * d["b"][0] + k}, in_dims=({"a": 0, "b": None}, None), out_dims={"z": 1})(
        {"a": tensor(X), "b": [tensor(2.0)]}, 1)
    same(result["z"], 2 * X.T + 1)
    same(vmap(lambda x, *, y: x * y)(tensor(X), y=tensor(X[0])), X * X[0])  # shared, as in PyTorch
    same(vmap(lambda x: tensor([1.0, 2.0]))(tensor(X)), [[1, 2]] * 3)
    assert vmap(lambda x: (x, 5), out_dims=(0, None))(tensor(X))[1] == 5
    same(vmap(lambda x: [x, x], out_dims=(0, 1))(tensor(X))[1], X.T)
    assert tuple(vmap(lambda x: x.sum())(torch.zeros(0, 3)).shape) == (0,)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_chunks(size: int) -> None:
    same(vmap(lambda x: x.softmax(0), chunk_size=size)(tensor(X)), np.exp(X) / np.exp(X).sum(1, keepdims=True))
    assert vmap(lambda x: (x, 1), out_dims=(0, None), chunk_size=size)(tensor(X))[1] == 1


def test_examples_without_dimensions() -> None:
    row = tensor(X[0])
    for name in ("sum", "mean", "prod", "amax", "logsumexp"):
        same(vmap(lambda x, name=name: getattr(x, name)(0))(row), X[0])
        same(vmap(lambda x, name=name: getattr(x, name)(0, True))(row), X[0])
    same(vmap(lambda x: x.argmax())(row), [0] * 4)
    same(vmap(lambda x: x.softmax(0))(row), [1] * 4)
    same(vmap(lambda x: x.cumsum(0))(row), X[0])
    same(vmap(lambda x: x.squeeze().unsqueeze(0).transpose(0, 0))(row), X[0][:, None])
    same(vmap(lambda x: x.reshape(1, 1).expand(2, 3).flatten())(row), np.repeat(X[0], 6).reshape(4, 6))


def test_positions_over_all_dimensions() -> None:
    cube = np.cos(np.arange(24.0)).reshape(2, 3, 4)
    same(vmap(lambda x: x.argmax())(tensor(cube)), cube.reshape(2, -1).argmax(1))
    assert tuple(vmap(lambda x: x.argmax(keepdim=True))(tensor(cube)).shape) == (2, 1, 1)
    same(vmap(lambda x: x.argmin(-1, True))(tensor(cube)), cube.argmin(2)[..., None])


@pytest.mark.parametrize(("left", "right", "shared", "expected"), [
    ("float64", "float32", (3,), "float32"),
    ("float32", "float64", (), "float32"),
    ("int64", "float32", (2,), "float32"),
    ("float32", "int64", (2,), "float32"),
    ("int64", "int32", (2,), "int32"),
    ("bool", "int32", (), "int32"),
])
def test_promotion_is_that_of_one_example(left: str, right: str, shared: Any, expected: str, dtypes: Any) -> None:
    batch, other = tensor(np.ones(4), dtypes[left]), tensor(np.ones(shared), dtypes[right])
    single = batch[0] + other
    result = vmap(lambda x: x + other)(batch)
    # An example has no dimensions, so that the other one's dtype wins within a category.
    assert result.dtype is single.dtype
    assert single.dtype.name == (expected if shared or left == "bool" else result.dtype.name)
    same(result, np.broadcast_to(2.0 if left != "bool" else 2, (4, *shared)))


def test_indices_that_differ_between_examples() -> None:
    index = np.array([2, 0, 1])
    same(vmap(lambda i: tensor(X)[i])(tensor(index, torch.int64)), X[index])
    same(vmap(lambda x, i: x[i])(tensor(X), tensor(index, torch.int64)), X[np.arange(3), index])
    same(vmap(lambda x, i: x[..., i])(tensor(X), tensor(index, torch.int64)), X[np.arange(3), index])
    pairs = np.array([[0, -1], [3, 2], [1, 1]])
    given = tensor(pairs, torch.int64)
    rows = np.take_along_axis(X, pairs % 4, 1)
    same(vmap(lambda x, i: x[i])(tensor(X), given), rows)
    same(vmap(lambda x, i: x.gather(0, i))(tensor(X), given % 4), rows)
    same(vmap(lambda x, i: x.index_select(0, i % 4))(tensor(X), given), rows)
    same(vmap(lambda i: torch.functions.embedding(tensor(X), i % 3))(given), X[pairs % 3])
    same(vmap(lambda x, i: x.scatter(0, i % 4, 5.0))(tensor(X), given),
         np.array([[5 if k in row % 4 else X[n, k] for k in range(4)] for n, row in enumerate(pairs)]))
    added = X.copy()
    for n, row in enumerate(pairs % 4):
        np.add.at(added[n], row, 1.0)
    same(vmap(lambda x, i: x.scatter_add(0, i % 4, tensor([1.0, 1.0])))(tensor(X), given), added)
    same(vmap(lambda x, i: x.index_put((i,), tensor(7.0)))(tensor(X), given)[0], [7, X[0, 1], X[0, 2], 7])
    written = vmap(lambda x, i: (x * 1).index_put_((i,), tensor(7.0)))(tensor(X), given)
    same(written[1], [X[1, 0], X[1, 1], 7, 7])

    def assigned(x: Any, i: Any) -> Any:
        y = x.clone()
        y[i] = x[0]
        return y

    expected = X.copy()
    for n, row in enumerate(pairs):
        expected[n, row] = X[n, 0]
    same(vmap(assigned)(tensor(X), given), expected)
    with pytest.raises(torch.errors.IndexOutOfRange):
        vmap(lambda x, i: x[i])(tensor(X), given + 3)


def test_classes_that_differ_between_examples() -> None:
    classes = np.array([1, 3, 0])
    result = vmap(torch.functions.cross_entropy)(tensor(X), tensor(classes, torch.int64))
    logs = X - np.log(np.exp(X).sum(1, keepdims=True))
    same(result, -logs[np.arange(3), classes])
    same(vmap(lambda c: torch.functions.one_hot(c, 4))(tensor(classes, torch.int64)), np.eye(4)[classes])


def test_views_of_bits() -> None:
    bits = X.view(np.int64)
    same(vmap(lambda x: x.view(torch.int64))(tensor(X)), bits)
    same(vmap(lambda x: x.view(torch.int32))(tensor(X)), X.view(np.int32))
    same(vmap(lambda x: x.view(torch.int64))(tensor(X[0])), bits[0])
    with pytest.raises(RuntimeError):
        vmap(lambda x: x.view(torch.int32))(tensor(X[0]))


def test_new_tensors_after_a_batched_one_are_batched() -> None:
    def fill(make: Any) -> Any:
        def run(x: Any) -> Any:
            y = make(x)
            y[0] = x[1]
            y.mul_(x[0])
            return y

        return run

    for make, rest in [(torch.zeros_like, 0), (torch.ones_like, 1), (lambda x: torch.full_like(x, 2.0), 2),
                       (lambda x: x.new_zeros(4), 0), (lambda x: x.new_ones(4), 1),
                       (lambda x: x.new_full((4,), 2.0), 2), (lambda x: x.new_empty(4).fill_(2.0), 2),
                       (lambda x: torch.empty_like(x).zero_(), 0)]:
        expected = np.full((3, 4), float(rest))
        expected[:, 0] = X[:, 1]
        same(vmap(fill(make))(tensor(X)), expected * X[:, :1])


@pytest.mark.parametrize("draw", [
    lambda: torch.rand(4), lambda: torch.randn(4, dtype=torch.float64), lambda: torch.randint(0, 1000, (4,)),
    lambda: torch.randperm(50), lambda: torch.bernoulli(torch.full((50,), 0.5)),
    lambda: torch.rand_like(torch.ones(4))])
def test_randomness(draw: Any) -> None:
    torch.manual_seed(3)
    different = vmap(lambda x: draw() + 0 * x, randomness="different")(torch.zeros(3)).tolist()
    assert len({tuple(row) for row in different}) == 3
    equal = vmap(lambda x: draw() + 0 * x, randomness="same")(torch.zeros(3)).tolist()
    assert len({tuple(row) for row in equal}) == 1
    nested = vmap(vmap(lambda x: draw() + 0 * x, randomness="different"), randomness="same")(torch.zeros(2, 3)).tolist()
    assert nested[0] == nested[1]
    assert len({tuple(row) for row in nested[0]}) == 3
    with pytest.raises(TransformError, match=r"a random draw in vmap — with randomness='error', functions of examples "
                       r"draw nothing — pass randomness='different' or 'same', or draw outside"):
        vmap(lambda x: draw() + x)(torch.zeros(3))


def test_dropout_of_a_batch() -> None:
    ones = torch.ones(8, 64)
    different = vmap(lambda x: torch.functions.dropout(x, 0.5), randomness="different")(ones).tolist()
    assert len({tuple(row) for row in different}) == 8
    equal = vmap(lambda x: torch.functions.dropout(x, 0.5), randomness="same")(ones).tolist()
    assert len({tuple(row) for row in equal}) == 1
    assert {value for row in different for value in row} == {0.0, 2.0}


#: Elements that are sorted to find others among them; fewer are compared with each.
MANY = 1 << 14


def test_operators_without_a_rule_run_once_per_example() -> None:
    tests = torch.functions.cat([tensor([[0.0, 1.0, 2.0], [0.0, 0.5, 0.2]]), torch.zeros(2, MANY)], 1)
    with pytest.warns(UserWarning, match="vmap has no rule for isin and calls it once per example"):
        result = vmap(lambda x, t: torch.functions.isin(x, t))(tensor([0.5, 0.5]), tests)
    same(result, [0, 1])
    with (pytest.warns(UserWarning, match="isin"),
          pytest.raises(TransformError, match=r"\[isin\] a batch of no examples")):
        vmap(lambda t: torch.functions.isin(torch.ones(2), t))(torch.zeros(0, MANY))


def test_sequences_of_a_batch_are_searched_at_once() -> None:
    search = torch.functions.searchsorted
    edges, values = tensor([[0.0, 1.0, 2.0], [0.0, 0.1, 0.2]]), tensor([[0.5, 3.0], [0.05, 0.5]])
    same(vmap(search)(edges, values), [[1, 3], [1, 3]])
    same(vmap(search)(edges, tensor([0.5, 0.5])), [1, 3])
    same(vmap(lambda e: search(e, values))(edges), [[[1, 3], [1, 1]], [[3, 3], [1, 3]]])
    same(vmap(lambda x: search(edges[0], x))(values), [[1, 3], [1, 1]])
    same(vmap(lambda x: search(edges, x))(torch.functions.stack([values, values + 1])),
         [[[1, 3], [1, 3]], [[2, 3], [3, 3]]])
    order = tensor([[2, 0, 1], [1, 2, 0]]).to(torch.int64)
    shuffled = torch.functions.gather(edges, 1, torch.functions.argsort(order, 1))
    same(vmap(lambda e, x, o: search(e, x, sorter=o))(shuffled, values, order), [[1, 3], [1, 3]])


def test_rules_can_be_registered() -> None:
    seen = []

    def rule(info: Any, in_dims: Any, edges: Any, values: Any, right: bool, sorter: Any) -> Any:
        seen.append((info.batch_size, info.randomness, in_dims))
        return (values.unsqueeze(-1) > edges).sum(-1), 0

    own = batching.RULES["searchsorted"]
    register_batching_rule(OPERATORS["searchsorted"], rule)
    try:
        result = vmap(lambda x: call(OPERATORS["searchsorted"], tensor([0.0, 1.0]), x, False, None))(tensor([0.5, 3.0]))
        same(result, [1, 2])
        assert seen == [(2, "error", (None, 0, None, None))]
    finally:
        batching.RULES["searchsorted"] = own


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: x.item(), "[item] one example of shape [] in vmap — calling .item() on a batch has no one value"),
    (lambda x: x if x > 0 else -x, "[bool] one example of shape [] in vmap — control flow does not depend on the data"),
    (lambda x: float(x), "[item]"),
    (lambda x: (x * torch.ones(2)).nonzero(), "has no one value"),
    (lambda x: torch.ones(2)[(x * torch.ones(2)) > 0], "has no one value"),
    (lambda x: (x * torch.ones(2)).tolist(), "[values] one example of shape [2] in vmap — a batch has no one value "
     "that Python or a result's shape could depend on — use operators such as where instead of Python values"),
    (lambda x: (x * torch.ones(2)).unique(), "[unique] a batch — shapes of results do not depend on the data"),
    (lambda x: torch.ones(3).add_(x), "[add_] a tensor of shape [3] that all examples of vmap share"),
    (lambda x: (x * 1).requires_grad_(), "[Tensor.requires_grad_()] a call inside of a function that is transformed"),
    (lambda x: x.data_ptr(), "[data_ptr] a tensor of vmap — tensors of transforms have no memory of their own"),
])
def test_what_depends_on_data_is_refused(function: Any, message: str) -> None:
    with pytest.raises((TransformError, AutogradError), match=re.escape(message)) as caught:
        vmap(function)(torch.tensor([1.0, 2.0]))
    assert isinstance(caught.value, RuntimeError)


def test_escaped_tensors_are_refused() -> None:
    kept = []
    vmap(lambda x: kept.append(x) or x)(torch.ones(2))
    with pytest.raises(TransformError, match=re.escape("[mul] a tensor of vmap (level 1) — tensors of a transform are "
                       "used while it runs and at its level — return what is needed from the transformed function")):
        kept[0] * 2


def test_tensors_of_batches_print_their_level() -> None:
    seen = []
    vmap(lambda x: seen.append(repr(x)) or x)(torch.ones(2, 1, device="ref"))
    assert seen[0].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1.],")


def test_empty_examples_are_contiguous() -> None:
    for batch in (torch.zeros(3, 0, 3), torch.zeros(3, 0, 3).transpose(-1, -2), torch.zeros(3, 2, 0)):
        assert vmap(lambda x: torch.tensor(x.is_contiguous()))(batch).all()
