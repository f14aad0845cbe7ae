"""``TransformGetItemToIndex``: subscripts with numbers index as those with tensors do."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

VALUES = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(("index", "place"), [
    (1, 1), (torch.tensor(1), 1), (torch.tensor(-1), -1), ((torch.tensor(1), 2), (1, 2)), ((0, 3), (0, 3)),
    ((torch.tensor([0, 2]), 1), ([0, 2], 1))])
def test_elements_at_numbers_are_copies(index, place):
    x = torch.tensor(VALUES, requires_grad=True)
    with TransformGetItemToIndex():
        result = x[index]
    assert not result._is_view()
    np.testing.assert_array_equal(result.tolist(), VALUES[place])
    result.sum().backward()
    expected = np.zeros_like(VALUES)
    np.add.at(expected, place, 1)
    np.testing.assert_array_equal(x.grad.tolist(), expected)


@pytest.mark.parametrize("index", [slice(1, 3), (1, slice(2)), None, (..., 1)])
def test_other_subscripts_are_views(index):
    x = torch.tensor(VALUES)
    with TransformGetItemToIndex():
        result = x[index]
    assert result._is_view()
    np.testing.assert_array_equal(result.tolist(), VALUES[index])


@pytest.mark.parametrize("mask", [VALUES > 4, np.array([True, False, True])])
def test_masks_select(mask):
    with TransformGetItemToIndex():
        result = torch.tensor(VALUES)[torch.tensor(mask)]
    np.testing.assert_array_equal(result.tolist(), VALUES[mask])


def test_functions_of_one_index_are_mapped():
    x = torch.tensor(VALUES, requires_grad=True)
    rows, columns = np.array([2, 0, 2]), np.array([1, 3, 1])
    with TransformGetItemToIndex():
        result = torch.vmap(lambda i, j: x[i, j] * x[i].sum())(torch.tensor(rows), torch.tensor(columns))
    sums = VALUES.sum(1)
    np.testing.assert_allclose(result.tolist(), VALUES[rows, columns] * sums[rows])
    result.sum().backward()
    expected = np.zeros_like(VALUES)
    for i, j in zip(rows, columns, strict=True):
        expected[i, j] += sums[i]
        expected[i] += VALUES[i, j]
    np.testing.assert_allclose(x.grad.tolist(), expected)


def test_an_index_out_of_range():
    with TransformGetItemToIndex(), pytest.raises(IndexError, match=r"^\[index\] index 5 of a dimension of size 3 — "):
        torch.tensor(VALUES)[torch.tensor(5)]
