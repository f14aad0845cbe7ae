"""The three steps of ``vmap``, which libraries replace for containers of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket._functorch import vmap as steps
from tensocket.errors import ArgumentError


class Pair:
    """Two tensors with common leading dimensions, which are no tree."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def each(self, function):
        return Pair(function(self.first), function(self.second))


@pytest.fixture
def pairs_as_examples(monkeypatch):
    """Replace the steps, as a library does at its import."""

    def process(in_dims, args, func):
        leaves, spec = steps.tree_flatten(args)
        dims = steps._broadcast_to_and_flatten(in_dims, spec)
        first = leaves[0].first if isinstance(leaves[0], Pair) else leaves[0]
        return first.shape[dims[0]], dims, leaves, spec

    def create(dims, leaves, level, spec):
        def one(value, dim):
            if dim is None:
                return value
            if isinstance(value, Pair):
                return value.each(lambda x: steps._add_batch_dim(x, dim, level))
            return steps._add_batch_dim(value, dim, level)

        return steps.tree_unflatten([one(value, dim) for value, dim in zip(leaves, dims, strict=True)], spec)

    def unwrap(results, out_dims, level, size, func):
        return results.each(lambda x: steps._remove_batch_dim(x, level, size, out_dims))

    monkeypatch.setattr(steps, "_process_batched_inputs", process)
    monkeypatch.setattr(steps, "_create_batched_inputs", create)
    monkeypatch.setattr(steps, "_unwrap_batched", unwrap)


def test_replaced_steps_run(pairs_as_examples):
    x, y, shared = torch.arange(6.0).reshape(3, 2), torch.arange(3.0), torch.tensor([10.0, 20.0])
    seen = []

    def function(pair, other):
        seen.append((pair.first.shape, pair.second.shape))
        return Pair((pair.first * other).sum(), pair.second + 1)

    found = torch.vmap(function, in_dims=(0, None))(Pair(x, y), shared)
    assert seen == [((2,), ())]
    assert found.first.tolist() == (np.arange(6.0).reshape(3, 2) @ [10.0, 20.0]).tolist()
    assert found.second.tolist() == [1.0, 2.0, 3.0]


def test_steps_that_end_early_leave_no_batch(pairs_as_examples):
    with pytest.raises(ZeroDivisionError):
        torch.vmap(lambda pair: 1 / 0)(Pair(torch.ones(2), torch.ones(2)))
    assert torch.ones(2).sum().item() == 2.0


def test_our_own_steps_do_what_vmap_does():
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(2.0)

    def function(pair, z):
        return pair["x"] * z, pair["y"]

    arguments = ({"x": x, "y": y}, y)
    in_dims, out_dims = ({"x": 1, "y": None}, None), (1, None)
    expected = torch.vmap(function, in_dims, out_dims)(*arguments)
    found = steps._in_steps(function, in_dims, out_dims, "error", arguments, {})
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    assert expected[0].tolist() == (np.arange(6.0).reshape(2, 3) * [[0.0], [1.0]]).tolist()


def test_steps_refuse_what_vmap_refuses():
    with pytest.raises(ArgumentError, match="got no inputs; a batched function has batches among its positional"):
        steps._process_batched_inputs(0, (), len)
