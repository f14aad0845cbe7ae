"""Shortcuts for rows of host arrays give what the general way gives, errors included."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators.random.functions import _ascending
from tensocket_plugins.contract.errors import IndexOutOfRange, ShapeError

VALUES = np.arange(24.0, dtype=np.float32).reshape(4, 3, 2)
ROWS = [3, 0, 3]


@pytest.fixture(params=["contiguous", "transposed", "sliced"])
def source(request):
    """The same values in three places in memory."""
    if request.param == "transposed":
        return tc.tensor(np.ascontiguousarray(VALUES.transpose(2, 1, 0))).permute(2, 1, 0)
    if request.param == "sliced":
        return tc.tensor(np.repeat(VALUES, 2, 1))[:, ::2]
    return tc.tensor(VALUES)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (0,)])
def test_rows_at_an_index_tensor(source, shape):
    positions = np.resize(np.array(ROWS), shape)
    result = source[tc.tensor(positions)]
    assert result.tolist() == VALUES[positions].tolist()
    assert result.is_contiguous()
    assert not result._is_view()
    result.fill_(-1)
    assert source.tolist() == VALUES.tolist()


def test_rows_at_negative_and_wrong_positions(source):
    assert source[tc.tensor([-1, 1])].tolist() == VALUES[[-1, 1]].tolist()
    with pytest.raises(IndexOutOfRange):
        source[tc.tensor([0, 4])]
    with pytest.raises(IndexOutOfRange):
        source.index_select(0, tc.tensor([0, 4]))
    with pytest.raises(IndexOutOfRange):
        source.index_select(0, tc.tensor([0, -1]))


def test_other_index_tensors(source):
    assert source[tc.tensor(2)].tolist() == VALUES[2].tolist()
    assert source[tc.tensor(2)]._is_view()
    assert source[tc.tensor([True, False, False, True])].tolist() == VALUES[[0, 3]].tolist()
    assert source[tc.tensor([1, 2], dtype=tc.int32)].tolist() == VALUES[[1, 2]].tolist()


def test_selected_rows(source):
    result = source.index_select(0, tc.tensor(ROWS))
    assert result.tolist() == VALUES[ROWS].tolist()
    assert result.is_contiguous()
    assert not result._is_view()
    assert source.index_select(0, tc.tensor([], dtype=tc.int64)).shape == (0, 3, 2)


def test_rows_of_what_requires_grad():
    weight = tc.tensor(VALUES, requires_grad=True)
    with tc.no_grad():
        for rows in (weight[tc.tensor(ROWS)], weight.index_select(0, tc.tensor(ROWS)), tc.stack([weight, weight])):
            assert not rows.requires_grad
            assert rows.grad_fn is None
    total = weight[tc.tensor(ROWS)].sum() + weight.index_select(0, tc.tensor(ROWS)).sum() + tc.stack([weight] * 2).sum()
    total.backward()
    assert weight.grad[:, 0, 0].tolist() == [2 + 2, 2, 2, 2 + 4]


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -2, -4])
def test_stacks_along_every_dimension(source, dim):
    result = tc.stack([source, source + 1, source], dim)
    assert result.tolist() == np.stack([VALUES, VALUES + 1, VALUES], dim).tolist()
    assert result.is_contiguous()
    assert not result._is_view()


def test_stacks_of_odd_tensors():
    assert tc.stack([tc.tensor(1.5), tc.tensor(2.5)]).tolist() == [1.5, 2.5]
    assert tc.stack([tc.tensor(True)]).dtype is tc.bool_
    assert tc.stack([tc.empty(0, 2)] * 3).shape == (3, 0, 2)
    assert tc.stack((tc.ones(2, dtype=tc.bfloat16),) * 2).tolist() == [[1, 1], [1, 1]]
    assert tc.stack([tc.tensor([1]), tc.tensor([2.5])]).dtype is tc.float32
    for shapes in ([(2,), (3,)], [(2,), (3,), (1,)], [(1, 2), (2,)]):
        with pytest.raises(ShapeError, match="all tensors have one shape"):
            tc.stack([tc.ones(shape) for shape in shapes])


def test_keys_are_sorted_like_a_stable_sort():
    keys = np.array([[5, 2, 5, 1], [1, 1, 1, 0]])
    assert _ascending(keys).tolist() == [[3, 1, 0, 2], [3, 0, 1, 2]]
    assert _ascending(np.array([3, 1, 2])).tolist() == [1, 2, 0]
    assert _ascending(np.array([], np.int64)).tolist() == []
