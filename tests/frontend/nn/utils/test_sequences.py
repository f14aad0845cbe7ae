"""Padded and packed sequences."""

from __future__ import annotations

import pickle

import pytest

import tensocket as torch
from tensocket.nn.utils import rnn

A, B, C = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]), torch.tensor([6.0])


def test_padding():
    assert rnn.pad_sequence([A, B], batch_first=True).tolist() == [[1, 2, 0], [3, 4, 5]]
    assert rnn.pad_sequence([A, C], padding_value=-1).tolist() == [[1, 6], [2, -1]]
    assert rnn.pad_sequence([A, B], batch_first=True, padding_side="left").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert rnn.pad_sequence((A.reshape(2, 1), B.reshape(3, 1))).shape == (3, 2, 1)


def test_packing_interleaves_by_step():
    packed = rnn.pack_sequence([B, A, C])
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is None
    assert packed.unsorted_indices is None


def test_sequences_in_any_order():
    packed = rnn.pack_sequence([A, B, C], enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert packed.unsorted_indices.tolist() == [1, 0, 2]
    assert [part.tolist() for part in rnn.unpack_sequence(packed)] == [[1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_padding_are_inverse(batch_first):
    padded = rnn.pad_sequence([B, A, C], batch_first=batch_first)
    packed = rnn.pack_padded_sequence(padded, torch.tensor([3, 2, 1]), batch_first=batch_first)
    back, lengths = rnn.pad_packed_sequence(packed, batch_first=batch_first, padding_value=-1.0, total_length=4)
    rows = back if batch_first else back.t()
    assert rows.tolist() == [[3, 4, 5, -1], [1, 2, -1, -1], [6, -1, -1, -1]]
    assert lengths.tolist() == [3, 2, 1]
    assert lengths.dtype is torch.int64


def test_gradients_flow_through():
    padded = torch.ones(2, 2, requires_grad=True)
    packed = rnn.pack_padded_sequence(padded, [2, 1])
    back, _ = rnn.pad_packed_sequence(packed)
    (back * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert padded.grad.tolist() == [[1, 2], [3, 0]]


def test_conversion_of_packed_sequences():
    packed = rnn.pack_sequence([A, B], enforce_sorted=False)
    assert packed.to("cpu") is packed.cpu() is packed
    double = packed.double()
    assert double.data.dtype is torch.float64
    assert double.sorted_indices is packed.sorted_indices
    assert packed.to(torch.float16).data.dtype is packed.half().data.dtype is torch.float16
    assert packed.float().data.dtype is torch.float32
    assert packed.pin_memory().is_pinned() == packed.data.is_pinned()
    assert not packed.is_cuda
    data, sizes, order, back = packed
    assert isinstance(rnn.PackedSequence(data, sizes, order, back), tuple)
    assert rnn.PackedSequence((data, sizes)).batch_sizes is sizes
    assert pickle.loads(pickle.dumps(packed)).data.tolist() == packed.data.tolist()


@pytest.mark.parametrize(("call", "error", "rule"), [
    (lambda: rnn.pack_sequence([A, B]), RuntimeError,
     "`lengths` must be sorted in decreasing order when `enforce_sorted` is True"),
    (lambda: rnn.pack_padded_sequence(torch.ones(2, 2), [2, 0]), RuntimeError, "lengths are positive"),
    (lambda: rnn.pack_padded_sequence(torch.ones(2, 2), [2]), RuntimeError, "every sequence has a length"),
    (lambda: rnn.pack_padded_sequence(torch.ones(2, 2), [3, 1]), ValueError, "no length is above the number of steps"),
    (lambda: rnn.pack_padded_sequence(torch.ones(2), [1]), RuntimeError,
     "the input has a dimension of steps and one of sequences"),
    (lambda: rnn.pad_packed_sequence(rnn.pack_sequence([B]), total_length=2), ValueError,
     "total_length is at least the longest length"),
    (lambda: rnn.pad_sequence(3), RuntimeError, "sequences come from an iterable"),
    (lambda: rnn.pad_sequence([]), RuntimeError, "there is at least one sequence"),
    (lambda: rnn.pad_sequence([A], padding_side="up"), RuntimeError, "padding_side is 'left' or 'right'"),
    (lambda: rnn.PackedSequence(A, torch.zeros(1, device="meta")), ValueError, "batch_sizes are on the CPU")])
def test_what_does_not_fit(call, error, rule):
    with pytest.raises(error, match=rule):
        call()


@pytest.mark.parametrize(("name", "dtype"), [
    ("long", torch.int64), ("int", torch.int32), ("short", torch.int16), ("char", torch.int8), ("byte", torch.uint8),
    ("half", torch.float16), ("float", torch.float32), ("double", torch.float64),
])
def test_packed_sequences_of_other_dtypes(name, dtype):
    packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1.5, 2.5]), torch.tensor([3.5])])
    made = getattr(packed, name)()
    assert made.data.dtype is dtype
    assert made.batch_sizes.tolist() == packed.batch_sizes.tolist()
    assert made.data.tolist() == packed.data.to(dtype).tolist()
