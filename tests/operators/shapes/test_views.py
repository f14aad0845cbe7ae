"""Views share memory and have NumPy's geometry; nothing is copied that need not be."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.errors import ArgumentTypeError, DimensionError, IndexOutOfRange, ShapeError


def base():
    return tc.arange(24.0).reshape(2, 3, 4)


VALUES = np.arange(24.0).reshape(2, 3, 4)

#: View of a tensor, and the same of an array.
VIEWS = {
    "view": (lambda x: x.view(4, 6), lambda a: a.reshape(4, 6)),
    "view inferred": (lambda x: x.view(3, -1), lambda a: a.reshape(3, -1)),
    "view of a tuple": (lambda x: x.view((24,)), lambda a: a.reshape(24)),
    "view split": (lambda x: x.transpose(0, 2).view(2, 2, 3, 2), lambda a: a.transpose(2, 1, 0).reshape(2, 2, 3, 2)),
    "reshape": (lambda x: x.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "transpose": (lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, 2)),
    "swapaxes": (lambda x: x.swapaxes(1, 2), lambda a: a.swapaxes(1, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute negative": (lambda x: x.permute(-1, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "T": (lambda x: x.T, lambda a: a.T),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(1, 2)),
    "t": (lambda x: x[0].t(), lambda a: a[0].T),
    "t of a vector": (lambda x: x[0, 0].t(), lambda a: a[0, 0]),
    "expand": (lambda x: x[:, :1].expand(2, 3, 4), lambda a: np.broadcast_to(a[:, :1], (2, 3, 4))),
    "expand kept": (lambda x: x[:, :1].expand(-1, 5, -1), lambda a: np.broadcast_to(a[:, :1], (2, 5, 4))),
    "expand in front": (lambda x: x[0, 0].expand(3, 4), lambda a: np.broadcast_to(a[0, 0], (3, 4))),
    "expand_as": (lambda x: x[0, 0].expand_as(tc.zeros(5, 4)), lambda a: np.broadcast_to(a[0, 0], (5, 4))),
    "broadcast_to": (lambda x: tc.broadcast_to(x[0], (2, 3, 4)), lambda a: np.broadcast_to(a[0], (2, 3, 4))),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "unsqueeze last": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "squeeze": (lambda x: x[:1, :, :1].squeeze(), lambda a: a[0, :, 0]),
    "squeeze one": (lambda x: x[:1, :, :1].squeeze(0), lambda a: a[0, :, :1]),
    "squeeze several": (lambda x: x[:1, :, :1].squeeze((0, 2)), lambda a: a[0, :, 0]),
    "squeeze several without a tuple": (lambda x: x[:1, :, :1].squeeze(-1, 0), lambda a: a[0, :, 0]),
    "squeeze nothing": (lambda x: x.squeeze(1), lambda a: a),
    "flatten": (lambda x: x.flatten(), lambda a: a.ravel()),
    "flatten some": (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    "flatten front": (lambda x: x.flatten(0, 1), lambda a: a.reshape(6, 4)),
    "select": (lambda x: x.select(1, -1), lambda a: a[:, -1]),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda a: a[:, :, 1:3]),
    "narrow from the end": (lambda x: x.narrow(2, -3, 2), lambda a: a[:, :, 1:3]),
    "split": (lambda x: x.split(2, 2)[1], lambda a: a[:, :, 2:]),
    "split by sizes": (lambda x: x.split([1, 3], -1)[1], lambda a: a[:, :, 1:]),
    "chunk": (lambda x: x.chunk(2, 1)[1], lambda a: a[:, 2:]),
    "unbind": (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
    "movedim": (lambda x: x.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    "movedim several": (lambda x: x.movedim((0, 1), (1, 2)), lambda a: np.moveaxis(a, (0, 1), (1, 2))),
    "as_strided": (
        lambda x: x.as_strided((3, 2), (4, 1), 2),
        lambda a: np.lib.stride_tricks.as_strided(a.ravel()[2:], (3, 2), (32, 8)),
    ),
    "view_as": (lambda x: x.view_as(tc.zeros(8, 3)), lambda a: a.reshape(8, 3)),
    "alias": (lambda x: x.alias(), lambda a: a),
}
COPIES = {
    "reshape of a permuted tensor": (
        lambda x: x.permute(2, 1, 0).reshape(4, 6),
        lambda a: a.transpose(2, 1, 0).reshape(4, 6),
    ),
    "contiguous": (lambda x: x.mT.contiguous(), lambda a: a.swapaxes(1, 2)),
    "clone": (lambda x: x.clone(), lambda a: a),
    "flip": (lambda x: x.flip(0, 2), lambda a: a[::-1, :, ::-1]),
    "flip nothing": (lambda x: x.flip(()), lambda a: a),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    "repeat in front": (lambda x: x.repeat(2, 1, 1, 2), lambda a: np.tile(a, (2, 1, 1, 2))),
    "repeat no time": (lambda x: x.repeat(1, 0, 1), lambda a: a[:, :0]),
    "cat": (lambda x: tc.cat([x, x[:1]]), lambda a: np.concatenate([a, a[:1]])),
    "cat along": (lambda x: tc.cat((x, x[..., :1]), -1), lambda a: np.concatenate([a, a[..., :1]], -1)),
    "cat of transposed": (
        lambda x: tc.cat([x.mT, x.mT[:, :2]], 1),
        lambda a: np.concatenate([a.swapaxes(1, 2), a.swapaxes(1, 2)[:, :2]], 1),
    ),
    "cat skips the empty vector": (lambda x: tc.cat([tc.zeros(0), x]), lambda a: a),
    "stack": (lambda x: tc.stack([x, x * 2], 1), lambda a: np.stack([a, a * 2], 1)),
    "stack last": (lambda x: tc.stack([x, x], -1), lambda a: np.stack([a, a], -1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_have_values_and_share_memory(device, near, name):
    view, reference = VIEWS[name]
    x = base()
    y = view(x)
    near(y, reference(VALUES))
    assert y._base is x or y._base is x._base or y is x
    x.fill_(7)
    assert set(np.ravel(y.tolist())) == {7.0}


@pytest.mark.parametrize("name", COPIES)
def test_copies_have_values_and_memory_of_their_own(device, near, name):
    make, reference = COPIES[name]
    x = base()
    y = make(x)
    near(y, reference(VALUES))
    assert y.is_contiguous()
    y.fill_(7)
    near(x, VALUES)


def test_geometry():
    x = base()
    assert x.permute(2, 0, 1).stride() == (1, 12, 4)
    assert x[:, :1].expand(2, 9, 4).stride() == (12, 0, 1)
    assert x[1, :, ::2].stride() == (4, 2)
    assert x[1, :, ::2].storage_offset() == 12
    assert x.transpose(0, 2).view(2, 2, 3, 2).stride() == (2, 1, 4, 12)


def test_what_is_already_there_is_returned():
    x = base()
    assert x.contiguous() is x
    assert x.flatten(1, 1) is x
    same = x.reshape(2, 3, 4)
    assert same is not x
    assert same.is_set_to(x)
    assert x.expand(2, 3, 4).is_contiguous()


def test_tensors_without_elements(device):
    x = tc.zeros(0, 3)
    assert x.view(3, 0).shape == (3, 0)
    assert x.view(-1, 3).shape == (0, 3)
    assert x.t().shape == (3, 0)
    assert x.reshape(0).shape == (0,)
    assert x.flip(0).shape == (0, 3)
    assert [part.shape for part in x.chunk(2)] == [(0, 3), (0, 3)]
    assert [part.shape for part in x.split(2)] == [(0, 3)]
    assert tc.cat([x, tc.ones(1, 3)]).tolist() == [[1.0, 1.0, 1.0]]
    assert tc.cat([x, x], 1).shape == (0, 6)
    assert x.expand(2, 0, 3).shape == (2, 0, 3)
    assert x.repeat(2, 2).shape == (0, 6)


def test_zero_dimensional_tensors(device):
    x = tc.tensor(3.0)
    assert x.view(1, 1).shape == (1, 1)
    assert x.reshape(-1).shape == (1,)
    assert x.expand(2, 3).tolist() == [[3.0] * 3] * 2
    assert x.unsqueeze(0).squeeze().shape == ()
    assert x.flatten().shape == (1,)
    assert x.permute(()).shape == ()
    assert x.transpose(0, -1).shape == ()
    assert x.t().item() == 3.0
    assert x.flip(0).item() == 3.0
    assert x.repeat(3).tolist() == [3.0] * 3
    assert tc.stack([x, x]).tolist() == [3.0, 3.0]


def test_parts():
    x = tc.arange(7)
    assert [p.tolist() for p in x.split(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [p.tolist() for p in x.split([2, 0, 5])] == [[0, 1], [], [2, 3, 4, 5, 6]]
    assert [len(p) for p in x.chunk(3)] == [3, 3, 1]
    assert [len(p) for p in tc.arange(2).chunk(5)] == [1, 1]
    assert [p.item() for p in x.unbind()] == list(range(7))


def test_broadcast_tensors():
    x, y = tc.broadcast_tensors(tc.zeros(2, 1), tc.ones(3))
    assert x.shape == y.shape == (2, 3)


@pytest.mark.parametrize(
    ("dtypes_of", "expected"),
    [
        (("int64", "float32"), "float32"),
        (("uint8", "int8"), "int16"),
        (("bool", "int32"), "int32"),
        (("float16", "float64"), "float64"),
    ],
)
def test_joined_dtypes_promote(device, dtypes, dtypes_of, expected):
    x, y = (tc.ones(2, dtype=dtypes[name]) for name in dtypes_of)
    assert tc.cat([x, y]).dtype is dtypes[expected]
    assert tc.cat([x, y]).tolist() == [1] * 4
    assert tc.stack([y, x]).dtype is dtypes[expected]


ERRORS = {
    "view of a wrong size": (lambda x: x.view(5), ShapeError),
    "two inferred sizes": (lambda x: x.view(-1, -1), ShapeError),
    "inferred beside 0": (lambda x: tc.zeros(0, 3).view(-1, 0), ShapeError),
    "view that needs a copy": (lambda x: x.mT.view(24), ShapeError),
    "negative size": (lambda x: x.reshape(-2, 12), ShapeError),
    "sizes that are no integers": (lambda x: x.view(2.0, 12), ArgumentTypeError),
    "transposed dim": (lambda x: x.transpose(0, 3), DimensionError),
    "permuted twice": (lambda x: x.permute(0, 0, 1), ShapeError),
    "too few dims": (lambda x: x.permute(0, 1), ShapeError),
    "permuted dim": (lambda x: x.permute(0, 1, 3), DimensionError),
    "t of three dims": (lambda x: x.t(), ShapeError),
    "expanded size": (lambda x: x.expand(2, 4, 4), ShapeError),
    "expanded away": (lambda x: x.expand(3, 4), ShapeError),
    "kept in front": (lambda x: x.expand(-1, 2, 3, 4), ShapeError),
    "negative expansion": (lambda x: x[:1].expand(-2, 3, 4), ShapeError),
    "unsqueezed dim": (lambda x: x.unsqueeze(4), DimensionError),
    "squeezed dim": (lambda x: x.squeeze(3), DimensionError),
    "squeezed dim of several": (lambda x: x.squeeze(0, 3), DimensionError),
    "squeezed twice": (lambda x: x.squeeze(0, -3), ShapeError),
    "squeezed dims of two tuples": (lambda x: x.squeeze((0,), 1), ArgumentTypeError),
    "squeezed dims that are no integers": (lambda x: x.squeeze(0, 1.0), ArgumentTypeError),
    "flatten backwards": (lambda x: x.flatten(2, 1), ShapeError),
    "selected position": (lambda x: x.select(1, 3), IndexOutOfRange),
    "select of no dims": (lambda x: tc.tensor(1).select(0, 0), DimensionError),
    "narrow too long": (lambda x: x.narrow(1, 2, 2), IndexOutOfRange),
    "narrow negative": (lambda x: x.narrow(1, 0, -1), IndexOutOfRange),
    "narrow start": (lambda x: x.narrow(1, 4, 0), IndexOutOfRange),
    "split sizes": (lambda x: x.split([1, 1], 1), ShapeError),
    "split size": (lambda x: x.split(0), ValueError),
    "chunks": (lambda x: x.chunk(0), ValueError),
    "unbind of no dims": (lambda x: tc.tensor(1).unbind(), DimensionError),
    "moved twice": (lambda x: x.movedim((0, 0), (1, 2)), ShapeError),
    "strided too far": (lambda x: x.as_strided((25,), (1,)), ShapeError),
    "strided backwards": (lambda x: x.as_strided((2,), (-1,)), ShapeError),
    "flipped twice": (lambda x: x.flip(0, 0), ShapeError),
    "flipped dim": (lambda x: x.flip(3), DimensionError),
    "too few repeats": (lambda x: x.repeat(2, 2), ShapeError),
    "negative repeat": (lambda x: x.repeat(1, 1, -1), ShapeError),
    "cat of sizes": (lambda x: tc.cat([x, x[:, :2]]), ShapeError),
    "cat of ranks": (lambda x: tc.cat([x, x[0]]), ShapeError),
    "cat of numbers": (lambda x: tc.cat([tc.tensor(1), tc.tensor(2)]), ShapeError),
    "cat of a tensor": (lambda x: tc.cat(x), ArgumentTypeError),
    "cat with a float": (lambda x: tc.cat([x, 1.0]), ArgumentTypeError),
    "cat dim": (lambda x: tc.cat([x], 3), DimensionError),
    "stack of shapes": (lambda x: tc.stack([x, x[0]]), ShapeError),
    "stack of nothing": (lambda x: tc.stack([]), ShapeError),
    "broadcast": (lambda x: tc.broadcast_tensors(x, tc.zeros(5)), ShapeError),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind = ERRORS[name]
    x = base()
    with pytest.raises(kind, match=r"^\[\w+\] .+ — .+ — .+"):
        call(x)
    assert (x + 1).sum().item() == 300.0


def test_wrong_sections_and_positions(device):
    x = tc.arange(6.0)
    for sections in (tc.tensor(1.5), tc.tensor([[1]])):
        with pytest.raises(RuntimeError, match="sections are a number, and indices a vector, of dtype int64"):
            x.tensor_split(sections)
    with pytest.raises(RuntimeError, match="dtype"):
        x.take_along_dim(tc.tensor([0], dtype=tc.int32), 0)


def test_numpy_integers_name_diagonals(device):
    for kind in (np.uint8, np.int8, np.int64):
        assert tc.ones(2).diag(kind(1)).tolist() == np.diag(np.ones(2), 1).tolist()


def test_broadcast_to_takes_one_size():
    x = tc.tensor([1.0])
    assert x.broadcast_to(3).tolist() == tc.broadcast_to(x, (3,)).tolist() == [1.0, 1.0, 1.0]
