"""Which results lie in the memory of an argument: as PyTorch documents it, also where an operator has nothing to do."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as ts
from tensocket_operators import functions as F


def vector():
    return ts.tensor([1.0, 2.0, 3.0, 4.0])


def matrix():
    return ts.tensor(np.arange(12.0).reshape(3, 4))


def image():
    return ts.tensor(np.arange(40.0).reshape(1, 2, 4, 5))


#: An argument, and a call whose result is a new tensor although its elements are those of the argument.
COPIES = {
    "floor of integers": (lambda: ts.arange(4), lambda x: x.floor()),
    "ceil of integers": (lambda: ts.arange(4), lambda x: x.ceil()),
    "trunc of integers": (lambda: ts.arange(4), lambda x: x.trunc()),
    "fix of integers": (lambda: ts.arange(4), lambda x: x.fix()),
    "round of integers": (lambda: ts.arange(4), lambda x: x.round()),
    "sign of bools": (lambda: ts.tensor([True, False]), lambda x: x.sign()),
    "sgn of bools": (lambda: ts.tensor([True, False]), lambda x: x.sgn()),
    "max of one number": (lambda: ts.tensor(2.5), lambda x: x.max(0).values),
    "min of one number": (lambda: ts.tensor(2.5), lambda x: x.min(0, True).values),
    "repeat_interleave once": (vector, lambda x: x.repeat_interleave(1)),
    "repeat_interleave of one number": (lambda: ts.tensor(2.5), lambda x: x.repeat_interleave(3)),
    "repeat_interleave of rows": (matrix, lambda x: x.repeat_interleave(1, 0)),
    "matrix_power": (lambda: ts.ones(3, 3), lambda x: F.matrix_power(x, 1)),
    "linalg.matrix_power": (lambda: ts.ones(3, 3), lambda x: F.linalg_matrix_power(x, 1)),
    "chain_matmul": (matrix, lambda x: F.chain_matmul(x)),
    "pixel_shuffle": (image, lambda x: F.pixel_shuffle(x, 1)),
    "pixel_unshuffle": (image, lambda x: F.pixel_unshuffle(x, 1)),
    "channel_shuffle of one group": (image, lambda x: F.channel_shuffle(x, 1)),
    "channel_shuffle of single channels": (image, lambda x: F.channel_shuffle(x, 2)),
    "fftn along nothing": (lambda: vector() + 0j, lambda x: F.fft_fftn(x, dim=())),
    "ifftn along nothing": (lambda: vector() + 0j, lambda x: F.fft_ifftn(x, dim=())),
    "flip along nothing": (matrix, lambda x: x.flip(())),
    "repeat once": (vector, lambda x: x.repeat(1)),
    "tile once": (vector, lambda x: x.tile(())),
    "cat of one": (vector, lambda x: F.cat([x])),
    "roll by nothing": (matrix, lambda x: x.roll(0, 0)),
    "rot90 by nothing": (matrix, lambda x: x.rot90(0)),
    "pad by nothing": (vector, lambda x: F.pad(x, (0, 0))),
    "sum of one number": (lambda: ts.tensor(2.5), lambda x: x.sum()),
    "clamp beyond": (vector, lambda x: x.clamp(min=-100)),
    "tril of all": (matrix, lambda x: x.tril(9)),
    "narrow_copy": (matrix, lambda x: F.narrow_copy(x, 0, 0, 3)),
    "to, copied": (vector, lambda x: x.to(x.dtype, copy=True)),
    "where": (vector, lambda x: F.where(x > 0, x, x)),
    "any of one bool": (lambda: ts.tensor(True), lambda x: x.any()),
}

#: An argument, and a call that returns the argument itself.
SAME = {
    "broadcast_tensors": (vector, lambda x: F.broadcast_tensors(x, x)[0]),
    "contiguous": (matrix, lambda x: x.contiguous()),
    "to its dtype": (vector, lambda x: x.to(x.dtype)),
    "float of float32": (vector, lambda x: x.float()),
    "flatten of a vector": (vector, lambda x: x.flatten()),
    "atleast_1d": (vector, lambda x: ts.atleast_1d(x)),
    "real of real": (vector, lambda x: F.real(x)),
    "conj of real": (vector, lambda x: x.conj()),
    "dropout at rest": (vector, lambda x: F.dropout(x, 0.5, False)),
}

#: An argument, and a call that returns a view of it.
VIEWS = {
    "einsum of nothing": (matrix, lambda x: F.einsum("ij->ij", x)),
    "einsum transposed": (matrix, lambda x: F.einsum("ij->ji", x)),
    "einsum of a diagonal": (lambda: ts.ones(3, 3), lambda x: F.einsum("ii->i", x)),
    "expand": (matrix, lambda x: x.expand(3, 4)),
    "movedim": (matrix, lambda x: x.movedim(0, 0)),
    "permute": (matrix, lambda x: x.permute(0, 1)),
    "chunk": (vector, lambda x: x.chunk(1)[0]),
    "flatten of one number": (lambda: ts.tensor(2.5), lambda x: x.flatten()),
    "reshape": (matrix, lambda x: x.reshape(3, 4)),
    "getitem": (matrix, lambda x: x[...]),
    "t of a vector": (vector, lambda x: x.t()),
}


def pointer(x):
    return x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", COPIES)
def test_results_of_operators_with_nothing_to_do_are_new_tensors(name):
    make, run = COPIES[name]
    x = make()
    before = x.tolist()
    result = run(x)
    assert result is not x
    assert pointer(result) != pointer(x)
    result.zero_()
    assert x.tolist() == before


@pytest.mark.parametrize("name", SAME)
def test_conversions_with_nothing_to_do_return_their_argument(name):
    make, run = SAME[name]
    x = make()
    assert run(x) is x


@pytest.mark.parametrize("name", VIEWS)
def test_views_lie_in_the_memory_of_their_argument(name):
    make, run = VIEWS[name]
    x = make()
    result = run(x)
    assert result is not x
    assert pointer(result) == pointer(x)
    assert result._is_view()
    assert result._base is x


@pytest.mark.parametrize("call", [lambda x: F.unsafe_chunk(x, 2), lambda x: F.unsafe_split(x, 2),
                                  lambda x: F.unsafe_split_with_sizes(x, [2, 2])])
def test_unsafe_parts_share_memory_and_are_no_views(call):
    x = vector()
    first, second = call(x)
    assert pointer(first) == pointer(second) == pointer(x)
    assert not first._is_view()
    second.mul_(10.0)
    assert x.tolist() == [1.0, 2.0, 30.0, 40.0]
    assert first._version == 0


def test_autograd_does_not_follow_unsafe_parts_through_changes_of_the_whole():
    x = vector().requires_grad_()
    whole = x * 2
    first, _ = F.unsafe_chunk(whole, 2)
    whole.mul_(3.0)
    first.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 0.0, 0.0]
