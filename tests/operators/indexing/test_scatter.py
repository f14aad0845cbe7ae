"""Writing, adding and reducing at positions, and selection by masks, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)
SOURCE = np.array([[-1, -2, -3, -4], [-5, -6, -7, -8], [-9, -1, -2, -3]], np.float32)
PLACES = np.array([2, 0, 2])


def tensors(*arrays):
    return [torch.tensor(a) for a in arrays]


def test_rows_are_added_and_written(device):
    x, source, index = tensors(VALUES, SOURCE, PLACES)
    expected = VALUES.copy()
    np.add.at(expected, PLACES, 2 * SOURCE)
    assert torch.index_add(x, 0, index, source, alpha=2).tolist() == expected.tolist()
    expected = VALUES.copy()
    expected[PLACES[:2]] = SOURCE[:2]
    assert torch.index_copy(x, 0, index[:2], source[:2]).tolist() == expected.tolist()
    expected[:, [1, 3]] = 7
    y = x.index_copy_(0, index[:2], source[:2]).index_fill_(1, torch.tensor([1, -1]), 7)
    assert y is x
    assert x.tolist() == expected.tolist()
    assert torch.index_fill(x, 0, torch.tensor([0]), torch.tensor(5)).tolist()[0] == [5.0] * 4


def test_a_number_has_one_position(device):
    x = torch.tensor(3.0)
    assert x.index_add(0, torch.tensor([0]), torch.tensor(2.0)).item() == 5
    assert x.index_fill(0, torch.tensor([0]), 4).item() == 4
    assert x.scatter_reduce(0, torch.tensor(0), torch.tensor(2.0), "prod").item() == 6
    assert x.index_select(0, torch.tensor([0])).shape == ()


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("name", ["float32", "int64"])
@pytest.mark.parametrize("mode", ["sum", "prod", "amax", "amin", "mean"])
def test_reductions(device, mode, name, include_self, make):
    start = {"sum": 0, "mean": 0, "prod": 1, "amax": -1e9, "amin": 1e9}[mode]
    ufunc = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[mode]
    expected = VALUES.astype(np.float64)
    if not include_self:
        expected[PLACES] = start
    ufunc.at(expected, PLACES, SOURCE.astype(np.float64))
    if mode == "mean":
        count = np.bincount(PLACES, minlength=3) + (1 if include_self else 0)
        expected = expected / np.maximum(count, 1)[:, None]
        expected = np.floor(expected) if name == "int64" else expected
    x, source, index = make(VALUES, name), make(SOURCE, name), torch.tensor(PLACES)
    wide = index.unsqueeze(1).expand(3, 4)
    results = [x.scatter_reduce(0, wide, source, mode, include_self=include_self)]
    if mode != "sum":
        results.append(x.index_reduce(0, index, source, mode, include_self=include_self))
    for result in results:
        assert result.dtype is x.dtype
        np.testing.assert_allclose(np.array(result.tolist()), expected, rtol=1e-6)


def test_scatter_with_numbers_and_reductions(device):
    index = torch.tensor([[0, 1], [3, 2]])
    assert torch.zeros(2, 4).scatter(1, index, value=2.5).tolist() == [[2.5, 2.5, 0, 0], [0, 0, 2.5, 2.5]]
    twos = torch.full((2, 4), 2.0)
    assert twos.scatter(1, index, torch.full((2, 2), 3.0), reduce="add").tolist() == [[5, 5, 2, 2], [2, 2, 5, 5]]
    assert twos.scatter_(1, index, 3, reduce="multiply").tolist() == [[6, 6, 2, 2], [2, 2, 6, 6]]


def test_positions_of_the_flattened_tensor(device):
    expected = VALUES.copy()
    np.put(expected, [0, -1, 5], [1.5, 2.5, 3.5])
    index, source = torch.tensor([0, -1, 5]), torch.tensor([1.5, 2.5, 3.5])
    x = torch.tensor(VALUES.T).t()
    assert torch.put(x, index, source).tolist() == expected.tolist()
    expected = VALUES.copy()
    np.add.at(expected.reshape(-1), [1, 1, 0], [1.5, 2.5, 3.5])
    assert x.put_(torch.tensor([1, 1, 0]), source, accumulate=True).tolist() == expected.tolist()


def test_masks(device):
    mask = VALUES % 3 == 0
    x, m = tensors(VALUES, mask)
    assert torch.masked_select(x, m).tolist() == VALUES[mask].tolist()
    assert torch.masked_select(x, m[:1]).tolist() == VALUES[:, mask[0]].ravel().tolist()
    assert torch.masked_select(torch.tensor(2.0), torch.tensor(True)).tolist() == [2.0]
    expected = VALUES.copy()
    expected[mask] = SOURCE.ravel()[: mask.sum()]
    assert torch.masked_scatter(x, m, torch.tensor(SOURCE)).tolist() == expected.tolist()
    assert x.masked_scatter_(m, torch.tensor(SOURCE)).tolist() == expected.tolist()
    assert torch.argwhere(m).tolist() == np.argwhere(mask).tolist()


def test_parts_are_written_into_copies(device):
    x = torch.tensor(VALUES)
    zeros = torch.zeros(3, 4)
    assert torch.select_scatter(zeros, x[0], 0, 2).tolist() == [[0] * 4, [0] * 4, VALUES[0].tolist()]
    assert torch.slice_scatter(zeros, x[:, :2], 1, 0, 4, 2)[:, ::2].tolist() == VALUES[:, :2].tolist()
    assert torch.diagonal_scatter(zeros, torch.ones(3), 1).tolist() == np.eye(3, 4, 1).tolist()
    assert torch.as_strided_scatter(zeros, torch.ones(2), (2,), (5,), 1).reshape(-1).nonzero().tolist() == [[1], [6]]
    assert zeros.sum() == 0


def test_memory_stays_in_place(device):
    x = torch.zeros(3, 4)
    view, pointer = x[1], x.data_ptr()
    x.index_add_(0, torch.tensor([1]), torch.ones(1, 4))
    x.scatter_reduce_(0, torch.tensor([[1, 1, 1, 1]]), torch.full((1, 4), 5.0), "amax")
    x.index_reduce_(0, torch.tensor([1]), torch.full((1, 4), 2.0), "prod")
    assert view.tolist() == [10.0] * 4
    assert x.data_ptr() == pointer
    assert x._version == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("count", [0, 2])
def test_reductions_at_positions_make_new_contiguous_tensors(device, dtype, count):
    wide = np.arange(1, 16).reshape(3, 5)
    x = torch.tensor(wide).to(dtype).to(device)[:, :4]
    index = torch.zeros((3, count), dtype=torch.int64)
    expected = wide[:, :4].copy()
    expected[:, 0] *= 3 ** count
    result = x.scatter_reduce(1, index, torch.full((3, count), 3, dtype=dtype), "prod")
    result[:, 1] = 0
    assert x[:, 1].tolist() == wide[:, 1].tolist()
    expected[:, 1] = 0
    assert result.stride() == (4, 1)
    assert result.tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
def test_no_positions_at_all_change_nothing(device, mode, include_self):
    x, none = torch.tensor(VALUES), torch.tensor([], dtype=torch.int64)
    assert x.scatter_reduce(0, none, torch.ones(2, 2), mode, include_self=include_self).tolist() == VALUES.tolist()
    assert x.scatter_(0, none, torch.ones(2, 2)).tolist() == VALUES.tolist()
    assert x.scatter(0, none, 2, reduce="multiply").tolist() == VALUES.tolist()
    assert x.gather(0, torch.tensor([])).tolist() == []


def test_numbers_are_vectors_of_one_element_to_positions(device):
    x, place, value = torch.tensor([1.0, 2.0, 3.0]), torch.tensor(1), torch.tensor(5.0)
    assert x.gather(0, place).shape == ()
    assert x.gather(0, place).item() == 2
    assert x.scatter(0, place, value).tolist() == [1, 5, 3]
    assert x.scatter(0, place, 6).tolist() == [1, 6, 3]
    assert x.scatter_add(0, place, value).tolist() == [1, 7, 3]
    assert x.scatter_reduce(0, place, value, "prod").tolist() == [1, 10, 3]
    assert x.index_copy(0, place, value).tolist() == [1, 5, 3]
    assert value.index_copy(0, torch.tensor([0, 0]), x[:2]).item() == 2
    with pytest.raises(RuntimeError, match="index has as many dimensions"):
        value.gather(0, torch.tensor([[0]]))
    with pytest.raises(RuntimeError, match="source has the input's shape"):
        value.index_add(0, torch.tensor([0]), torch.tensor([1.0]))


def test_means_of_complex_numbers():
    index = torch.tensor([0, 0, 1])
    found = torch.zeros(3, dtype=torch.complex64).scatter_reduce(0, index, torch.tensor([1 + 1j, 2, 3j]), "mean")
    np.testing.assert_allclose(np.array(found.tolist()), [1 + 1j / 3, 1.5j, 0], rtol=1e-6)


def test_means_of_more_values_than_a_dtype_counts(device):
    places = torch.zeros(300, dtype=torch.int64)
    values = torch.zeros(300, dtype=torch.uint8)
    values[:4] = 150
    # The sum of four times 150 is 88 modulo 256; 88 of 300 values are 0, where 300 modulo 256 would make 2.
    reduced = torch.zeros(2, dtype=torch.uint8).scatter_reduce(0, places, values, "mean", include_self=False)
    assert reduced.tolist() == [0, 0]


def test_factors_of_integers_are_integers(device):
    x = torch.zeros(2, dtype=torch.int64)
    assert x.index_add(0, torch.tensor([1]), torch.tensor([3]), alpha=2.5).tolist() == [0, 6]


@pytest.mark.parametrize("shape", [(2, 2), (2, 0)])
def test_gathering_with_a_sparse_gradient(device, shape):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    index = torch.tensor([[0, 2], [1, 1]])[:, :shape[1]]
    found = torch.gather(x, 1, index, sparse_grad=True)
    assert found.tolist() == [row[:shape[1]] for row in [[1.0, 3.0], [5.0, 5.0]]]
    (found * 2).sum().backward()
    assert x.grad.is_sparse
    assert not x.grad.is_coalesced()
    assert x.grad.to_dense().tolist() == ([[2, 0, 2], [0, 4, 0]] if shape[1] else [[0] * 3] * 2)


def test_gathering_from_a_number_with_a_sparse_gradient(device):
    x = torch.tensor(3.0, requires_grad=True)
    x.gather(0, torch.tensor([0, 0]), sparse_grad=True).sum().backward()
    assert x.grad.is_sparse
    assert x.grad.to_dense().item() == 2


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x: x.scatter(0, torch.tensor([], dtype=torch.int64), torch.ones(2).double()), RuntimeError, "one dtype"),
    (lambda x: x.index_copy(0, torch.tensor([0], dtype=torch.int32), x[:1]), RuntimeError, "positions are int64"),
    (lambda x: x.take(torch.tensor([0], dtype=torch.int32)), RuntimeError, "positions are int64"),
    (lambda x: x.put(torch.tensor([0], dtype=torch.int32), x[:1]), RuntimeError, "positions are int64"),
    (lambda x: x.index_fill(0, torch.tensor([[0]]), 1), RuntimeError, "the index is a vector"),
    (lambda x: x.index_fill(0, torch.tensor([0]), torch.tensor(1j)), RuntimeError, "a complex number has no real form"),
    (lambda x: (x > 0).scatter_reduce(0, torch.tensor([0]), x > 0, "mean"), NotImplementedError,
     "this reduction is not defined for truth values"),
    (lambda x: (x > 0).index_reduce(0, torch.tensor([0]), x[:1] > 0, "prod"), NotImplementedError,
     "this reduction is not defined for truth values"),
    (lambda x: (x * 1j).scatter_reduce(0, torch.tensor([0]), x * 1j, "amax"), NotImplementedError,
     "complex numbers have no order"),
])
def test_errors_of_positions(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.tensor([1.0, 2.0]))


def test_what_is_written_nowhere_has_a_gradient_of_zeros(device):
    none = torch.tensor([], dtype=torch.int64)
    for call in (lambda x, y: x.scatter(0, none, y), lambda x, y: x.scatter_add(0, none, y),
                 lambda x, y: x.scatter_reduce(0, none, y, "amax"), lambda x, y: x.scatter_reduce(0, none, y, "mean"),
                 lambda x, y: x[0, 0].scatter(0, none, y)):
        x, y = torch.ones(2, 2, requires_grad=True), torch.ones(2, 3, requires_grad=True)
        call(x, y).sum().backward()
        assert y.grad.tolist() == [[0] * 3] * 2
        assert x.grad[0, 0].item() == 1


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_results_of_sums_and_means_may_change_before_the_gradient(reduce, device):
    source = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device, requires_grad=True)
    index = torch.tensor([[0, 0], [1, 1], [0, 0]], device=device)
    out = torch.zeros(2, 2, device=device).scatter_reduce(0, index, source, reduce, include_self=False)
    out += 1
    (out * torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)).sum().backward()
    share = 0.5 if reduce == "mean" else 1.0
    assert source.grad.tolist() == [[share, 2 * share], [3.0, 4.0], [share, 2 * share]]
