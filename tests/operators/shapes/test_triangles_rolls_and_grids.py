"""Triangles, diagonals, rolls, grids, repetitions, selections, small products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, IndexOutOfRange, ShapeError

X = np.arange(24.0).reshape(2, 3, 4)
M = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("k", [-4, -1, 0, 2, 9])
def test_triangles_and_diagonals(k, device, near):
    near(f.tril(tc.tensor(X), k), np.tril(X, k))
    near(f.triu(tc.tensor(M), k), np.triu(M, k))
    near(f.diagonal(tc.tensor(M), k), np.diagonal(M, k))
    near(f.diagonal(tc.tensor(X), k, 2, 0), np.diagonal(X, k, 2, 0))
    near(f.diagonal(tc.tensor(X).transpose(0, 2), k, 1, 2), np.diagonal(X.transpose(2, 1, 0), k, 1, 2))


def test_a_diagonal_is_a_view(device):
    x = tc.zeros(2, 3)
    x.diagonal(1).fill_(7)
    assert x.tolist() == [[0, 7, 0], [0, 0, 7]]


def test_errors_of_matrices(device):
    with pytest.raises(ShapeError, match=r"\[tril\] a tensor of shape \[3\] — matrices have at least 2 dimensions"):
        f.tril(tc.ones(3))
    with pytest.raises(ShapeError, match=r"\[diagonal\] dims 0 and 0 of a 2-dimensional tensor"):
        f.diagonal(tc.ones(2, 2), 0, 0, 0)
    with pytest.raises(ShapeError, match=r"\[trace\] a tensor of shape \[2, 2, 2\] — a trace is that of one matrix"):
        f.trace(tc.ones(2, 2, 2))


def test_trace(device, near):
    near(f.trace(tc.tensor(M)), np.trace(M))


@pytest.mark.parametrize(("shifts", "dims"), [(1, None), (-2, 1), ((1, -1), (0, 2)), (7, -1), ((1, 1), (1, 1))])
def test_rolls(shifts, dims, device, near):
    near(f.roll(tc.tensor(X), shifts, dims), np.roll(X, shifts, dims))


def test_errors_of_rolls(device):
    assert f.roll(tc.tensor(1.0), 1).item() == 1
    with pytest.raises(ShapeError, match=r"\[roll\] shifts \(1,\), dims \(0, 1\) — every dim has a shift"):
        f.roll(tc.ones(2, 2), 1, (0, 1))
    with pytest.raises(DimensionError, match=r"\[roll\] dims \(0,\) of a 0-dimensional tensor"):
        f.roll(tc.tensor(1.0), 1, 0)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids(indexing, device, near):
    vectors = [np.arange(2.0), np.arange(3.0), np.arange(4.0)]
    grids = f.meshgrid(*map(tc.tensor, vectors), indexing=indexing)
    for grid, expected in zip(grids, np.meshgrid(*vectors, indexing=indexing), strict=True):
        near(grid, expected)
    (alone,) = f.meshgrid([tc.tensor(vectors[0])], indexing=indexing)
    near(alone, vectors[0])


def test_errors_of_grids(device):
    with pytest.raises(ArgumentError, match=r"\[meshgrid\] indexing='ji' — the order is 'ij' or 'xy'"):
        f.meshgrid(tc.ones(2), indexing="ji")
    with pytest.raises(ShapeError, match=r"\[meshgrid\] a tensor of shape \[2, 2\] — coordinates are vectors"):
        f.meshgrid(tc.ones(2, 2))


@pytest.mark.parametrize("counts", [(2,), (2, 1, 3), (1, 2, 1, 2), (0, 1)])
def test_tiles(counts, device, near):
    near(f.tile(tc.tensor(X), counts), np.tile(X, counts))


def test_repetitions(near):
    tc.set_default_device("ref")
    near(f.repeat_interleave(tc.tensor(M), 2), np.repeat(M, 2))
    near(f.repeat_interleave(tc.tensor(M), 2, 1), np.repeat(M, 2, 1))
    near(f.repeat_interleave(tc.tensor(M), tc.tensor([0, 2, 1]), 0), np.repeat(M, [0, 2, 1], 0))
    assert f.repeat_interleave(tc.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    with pytest.raises(ArgumentError, match=r"\[repeat_interleave\] repeats=-1 — counts are not negative"):
        f.repeat_interleave(tc.ones(2), -1)
    with pytest.raises(ArgumentError, match=r"\[repeat_interleave\] a negative count"):
        f.repeat_interleave(tc.tensor([1, -1]))
    with pytest.raises(ShapeError, match=r"\[repeat_interleave\] counts of shape \[3\] for 2 slices"):
        f.repeat_interleave(tc.ones(2), tc.tensor([1, 2, 3]), 0)
    with pytest.raises(DimensionError, match=r"\[repeat_interleave\] dim 0 of a 0-dimensional tensor"):
        f.repeat_interleave(tc.tensor(1.0), 2, 0)


def test_selections(device, near):
    near(f.take(tc.tensor(M), tc.tensor([[0, -1], [5, 3]])), np.take(M, [[0, -1], [5, 3]]))
    index = np.array([[2], [0], [3]])
    near(f.take_along_dim(tc.tensor(M), tc.tensor(index), 1), np.take_along_axis(M, index, 1))
    row = np.array([[0, 2, 1, 0]])
    near(f.take_along_dim(tc.tensor(M), tc.tensor(row), 0), np.take_along_axis(M, row, 0))
    near(f.take_along_dim(tc.tensor(M), tc.tensor([5, 0])), np.array([5, 0]))
    near(f.count_nonzero(tc.tensor(M), 1), np.count_nonzero(M, 1))
    assert f.count_nonzero(tc.tensor(M)).item() == 11
    with pytest.raises(IndexOutOfRange):
        f.take(tc.tensor(M), tc.tensor([12]))
    with pytest.raises(ShapeError, match=r"\[take_along_dim\] input \[3, 4\], indices \[1\]"):
        f.take_along_dim(tc.tensor(M), tc.tensor([0]), 1)


def test_small_products(device, near):
    a, b = np.arange(3.0), np.array([2.0, -1.0, 4.0])
    near(f.outer(tc.tensor(a), tc.tensor(b)), np.outer(a, b))
    near(f.cross(tc.tensor(a), tc.tensor(b)), np.cross(a, b))
    near(f.tensordot(tc.tensor(X), tc.tensor(X), ([0, 2], [0, 2])), np.tensordot(X, X, ([0, 2], [0, 2])))
    near(f.tensordot(tc.tensor(X), tc.tensor(M.T * 1.0), 1), np.tensordot(X, M.T, 1))
    near(f.tensordot(tc.tensor(a), tc.tensor(b), 0), np.tensordot(a, b, 0))
    assert f.positive(tc.tensor(-1.0)).item() == -1


def test_errors_of_small_products(device):
    with pytest.raises(ShapeError, match=r"\[outer\] a tensor of shape \[2, 2\] — both are vectors"):
        f.outer(tc.ones(2), tc.ones(2, 2))
    with pytest.raises(ShapeError, match=r"\[cross\] shapes \[2\] and \[2\], dim -1 — vectors have three elements"):
        f.cross(tc.ones(2), tc.ones(2))
    with pytest.raises(ShapeError, match=r"\[cross\] shapes \[3\] and \[2, 3\] — both have the same number"):
        f.cross(tc.ones(3), tc.ones(2, 3))
    with pytest.raises(ArgumentError, match=r"\[tensordot\] dims=3"):
        f.tensordot(tc.ones(2), tc.ones(2), 3)
    with pytest.raises(ShapeError, match=r"\[tensordot\] shapes \[2, 3\] and \[3, 2\], dims \[0\] and \[0\]"):
        f.tensordot(tc.ones(2, 3), tc.ones(3, 2), ([0], [0]))


def test_a_contracted_dimension_of_size_one_is_broadcast(device, near):
    one, many = np.full((1, 1, 1), 3.0), np.arange(4.0).reshape(2, 1, 2)
    near(f.tensordot(tc.tensor(one), tc.tensor(many), ([0, 1], [2, 0])), one[0] * many.sum((0, 2)))
    near(f.tensordot(tc.tensor(many), tc.tensor(one), ([2, 0], [0, 1])), many.sum((0, 2))[:, None] * one[0])


def test_positions_along_a_dimension_count_from_its_end(device, near):
    x = np.arange(12.0).reshape(3, 4)
    at = np.array([[-1, 0], [-4, 3], [2, -2]])
    near(f.take_along_dim(tc.tensor(x), tc.tensor(at), 1), np.take_along_axis(x, at, 1))
    with pytest.raises(IndexOutOfRange, match=r"\[take_along_dim\] index -5 of a dimension of size 4"):
        f.take_along_dim(tc.tensor(x), tc.tensor([[-5]]), 1)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 5), (2, 0, 3)])
def test_an_empty_index_has_any_rank(shape, device):
    x, index = tc.tensor([1.0, 2.0]), tc.zeros(shape, dtype=tc.int64)
    assert tuple(f.gather(x, 0, index).shape) == shape
    assert f.scatter(x, 0, index, 5.0).tolist() == [1.0, 2.0]


def test_no_differences_leave_out_what_stands_before_and_behind(device):
    assert f.diff(tc.tensor([1.0, 3.0]), n=0, prepend=tc.tensor([7.0])).tolist() == [1.0, 3.0]
