"""The connection of loaders and workers, with both ends in this process."""

from __future__ import annotations

import gc
import pickle
import socket

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket as torch
from tensocket.multiprocessing import channel
from tensocket.multiprocessing.channel import Channel

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="the system has no Unix sockets")

#: Elements of a float32 tensor that goes by segment.
LARGE = 20_000


@pytest.fixture
def ends():
    left, right = (Channel(end) for end in socket.socketpair(socket.AF_UNIX))
    yield left, right
    left.close()
    right.close()


def through(ends, message):
    left, right = ends
    left.send(message)
    return right.receive()


def test_both_directions(ends):
    assert through(ends, {"a": [1, "x"]}) == {"a": [1, "x"]}
    assert through(ends[::-1], None) is None


def test_small_tensors_have_memory_of_their_own(ends):
    first, second = through(ends, (torch.arange(3), torch.arange(4.0)))
    assert first.tolist() == [0, 1, 2]
    assert first.untyped_storage().nbytes() == 24
    assert not first.is_shared()
    second += 1
    assert second.tolist() == [1, 2, 3, 4]


def test_large_messages_lie_in_shared_memory_whatever_they_hold(ends):
    tensor, array, text = through(ends, (torch.arange(LARGE), np.arange(9.0), "x" * 100_000))
    assert tensor.is_shared()
    assert tensor[-1].item() == LARGE - 1
    assert array.tolist() == list(range(9))
    assert text == "x" * 100_000


def test_the_same_object_stays_one(ends):
    tensor = torch.zeros(2)
    first, second = through(ends, [tensor, tensor])
    assert first is second


def test_memory_is_used_again_when_all_its_tensors_are_gone(ends):
    left, right = ends
    places = set()
    for number in range(5):
        whole = through(ends, torch.full((LARGE,), float(number)))
        view = whole[5:10]
        places.add(whole.data_ptr())
        del whole
        right.send(None)  # brings nothing back: the view is alive
        left.receive()
        assert left._pool._free == []
        assert view.tolist() == [number] * 5
        del view
        right.send(None)
        left.receive()
        assert len(left._pool._free) == 1
    assert len(places) == 1


def test_memory_that_is_kept_is_not_written_to(ends):
    kept = [through(ends, torch.full((LARGE,), float(number))) for number in range(20)]
    assert [tensor.min().item() for tensor in kept] == [tensor.max().item() for tensor in kept] == list(range(20))
    assert len({tensor.data_ptr() for tensor in kept}) == 20


def test_only_some_unused_segments_are_kept(ends):
    left, right = ends
    kept = [through(ends, torch.zeros(LARGE)) for _ in range(2 * channel._KEPT)]
    kept.clear()
    right.send(None)
    left.receive()
    assert len(left._pool._free) == channel._KEPT
    assert len(right._mapped) == 2 * channel._KEPT
    through(ends, None)
    assert len(right._mapped) == len(left._pool._known) == channel._KEPT


def test_a_message_that_cannot_be_pickled_loses_nothing(ends):
    left, right = ends
    tensor = through(ends, torch.zeros(LARGE))
    del tensor
    gc.collect()
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        right.send(lambda: None)
    right.send("next")
    assert left.receive() == "next"
    assert len(left._pool._free) == 1


def test_the_end_of_a_connection(ends):
    left, right = ends
    left.send("last")
    left.close()
    assert right.receive() == "last"
    with pytest.raises(EOFError):
        right.receive()
    with pytest.raises(OSError, match="Broken pipe"):
        right.send("nobody")


def test_a_message_that_is_cut_off():
    left, right = socket.socketpair(socket.AF_UNIX)
    with left:
        left.sendall(channel._HEADER.pack(0, 0, 2)[:20])
    end = Channel(right)
    with pytest.raises(EOFError):
        end.receive()
    end.close()


@st.composite
def tensors(draw):
    """Tensors of all kinds of dtypes, shapes and places in memory."""
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64]))
    shape = draw(st.lists(st.integers(0, 16), max_size=4))
    tensor = (torch.arange(int(np.prod(shape))) % 251).reshape(shape).to(dtype)
    if draw(st.booleans()):
        tensor = tensor.permute(draw(st.permutations(range(tensor.ndim))))
    if tensor.ndim and draw(st.booleans()):
        tensor = tensor[..., :: draw(st.integers(1, 3))]
    if tensor.ndim and draw(st.booleans()):
        tensor = tensor[:1].expand(3, *tensor.shape[1:]) if tensor.shape[0] else tensor
    return tensor


@settings(max_examples=60, deadline=None)
@given(st.lists(tensors(), max_size=4))
def test_any_tensors(given_tensors):
    pair = tuple(Channel(end) for end in socket.socketpair(socket.AF_UNIX))
    try:
        received = through(pair, given_tensors)
    finally:
        for end in pair:
            end.close()
    for sent, got in zip(given_tensors, received, strict=True):
        assert got.dtype is sent.dtype
        assert got.shape == sent.shape
        assert torch.equal(got, sent)
        if sent.is_contiguous():
            assert got.is_contiguous()
