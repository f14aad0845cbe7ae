"""Windows, splits, joins, geometry in place, results written to ``out``, and names of arguments."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def base():
    return torch.tensor(VALUES)


def test_windows(device):
    x = base()
    expected = np.lib.stride_tricks.sliding_window_view(VALUES, 2, 2)[:, :, ::2]
    assert x.unfold(2, 2, 2).tolist() == expected.tolist()
    assert x.unfold(-1, 2, 2).is_set_to(x.unfold(2, 2, 2))
    assert torch.tensor(3.0).unfold(0, 1, 1).tolist() == [3.0]


@pytest.mark.parametrize(
    ("split", "reference"),
    [
        (lambda x: F.tensor_split(x, 3, 2), lambda a: np.array_split(a, 3, 2)),
        (lambda x: F.tensor_split(x, (1, 2), 1), lambda a: np.split(a, [1, 2], 1)),
        (lambda x: F.tensor_split(x, torch.tensor([1, 3]), -1), lambda a: np.split(a, [1, 3], -1)),
        (lambda x: F.tensor_split(x, sections=2), lambda a: np.array_split(a, 2)),
        (lambda x: F.hsplit(x, 3), lambda a: np.hsplit(a, 3)),
        (lambda x: F.vsplit(x, (1,)), lambda a: np.vsplit(a, [1])),
        (lambda x: F.dsplit(x, 2), lambda a: np.dsplit(a, 2)),
        (lambda x: F.split_with_sizes(x, (1, 3), 2), lambda a: np.split(a, [1], 2)),
    ],
)
def test_splits(device, split, reference):
    x = base()
    parts, expected = split(x), reference(VALUES)
    assert type(parts) is tuple
    assert [part.tolist() for part in parts] == [part.tolist() for part in expected]
    assert all(part.untyped_storage() is x.untyped_storage() for part in parts)


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 2)])
def test_joins(device, name, shape):
    if name == "column_stack" and len(shape) == 3:
        shape = (2, 2, 3)
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    parts = [torch.tensor(a), torch.tensor(a + 1)]
    assert getattr(F, name)(parts).tolist() == getattr(np, name)([a, a + 1]).tolist()


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_least_dimensions(name):
    shapes = [(), (3,), (2, 3), (2, 3, 4), (1, 2, 3, 4)]
    arrays = [np.zeros(shape) for shape in shapes]
    expected = [getattr(np, name)(a).shape for a in arrays]
    ours = getattr(torch, name)
    assert [x.shape for x in ours(*map(torch.tensor, arrays))] == expected
    assert [x.shape for x in ours([torch.tensor(a) for a in arrays])] == expected
    assert ours(torch.tensor(arrays[0])).shape == expected[0]


def test_shapes_that_broadcast():
    assert torch.broadcast_shapes((2, 1), 3, ()) == (2, 3)
    assert type(torch.broadcast_shapes((1,))) is torch.Size


def test_dimensions_split_and_summed(device):
    x = base()
    assert x.unflatten(2, (2, -1)).tolist() == VALUES.reshape(2, 3, 2, 2).tolist()
    assert x.sum_to_size(3, 1).tolist() == VALUES.sum((0, 2), keepdims=True)[0].tolist()
    assert x.sum_to_size(2, 3, 4) is x
    assert x.permute(2, 0, 1).ravel().tolist() == VALUES.transpose(2, 0, 1).ravel().tolist()
    assert x.reshape_as(torch.zeros(4, 6)).shape == (4, 6)


IN_PLACE = {
    "transpose_": (lambda x: x.transpose_(0, 2), lambda a: a.swapaxes(0, 2)),
    "swapaxes_": (lambda x: x.swapaxes_(0, 1), lambda a: a.swapaxes(0, 1)),
    "unsqueeze_": (lambda x: x.unsqueeze_(1), lambda a: a[:, None]),
    "squeeze_": (lambda x: x.unsqueeze_(0).squeeze_(0), lambda a: a),
    "squeeze_ of several": (lambda x: x.unsqueeze_(1).unsqueeze_(0).squeeze_(0, 2), lambda a: a),
    "as_strided_": (lambda x: x.as_strided_((2, 2), (1, 5), 3), lambda a: a.ravel()[[[3, 8], [4, 9]]]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_geometry_in_place(device, name):
    x = base()
    run, reference = IN_PLACE[name]
    memory, version = x.untyped_storage(), x._version
    assert run(x) is x
    assert x.tolist() == reference(VALUES).tolist()
    assert x.untyped_storage() is memory
    assert x._version > version


def test_geometry_in_place_has_a_gradient():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y.t_()
    (y * torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 6.0, 15.0], [8.0, 20.0, 36.0]]


def test_a_change_of_a_view_with_gaps_reaches_its_base():
    x = torch.ones(6, requires_grad=True)
    y = x * 1
    part = y[1:].as_strided((2,), (2,), 2)
    part.mul_(3)
    assert y.tolist() == [1.0, 1.0, 3.0, 1.0, 3.0, 1.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 3.0, 1.0, 3.0, 1.0]


def test_gradients_of_views_that_reach_out_of_their_tensor():
    x = torch.ones(6, requires_grad=True)
    (x * 1)[2:4].as_strided((3,), (2,), 0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    expanded = torch.ones(1, requires_grad=True)
    expanded.expand(3).as_strided((1,), (1,)).sum().backward()
    assert expanded.grad.tolist() == [1.0]


def test_out_is_resized_with_a_warning(device):
    x = torch.ones(2, 3)
    out = torch.empty(0)
    assert torch.cat([x, x], out=out) is out
    assert out.tolist() == [[1.0] * 3] * 4
    with pytest.warns(UserWarning, match=r"\[add\] An output with .+ was resized: \[4, 3\] became \[2, 3\]"):
        torch.add(x, x, out=out)
    assert out.tolist() == [[2.0] * 3] * 2
    wide = torch.zeros(3, dtype=torch.float64)
    torch.sum(x, 0, out=wide)
    assert wide.tolist() == [2.0] * 3
    values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
    result = torch.max(torch.tensor(VALUES[0]), 1, out=(values, places))
    assert result.values is values
    assert (values.tolist(), places.tolist()) == ([3.0, 7.0, 11.0], [3, 3, 3])


def test_sizes_by_name():
    x = base()
    assert x.view(size=(6, 4)).shape == x.reshape(shape=(6, 4)).shape == (6, 4)
    assert x.permute(dims=(2, 0, 1)).shape == (4, 2, 3)
    assert x[:1].expand(size=(5, 3, 4)).shape == (5, 3, 4)
    assert F.flip(x, dims=(0,)).tolist() == VALUES[::-1].tolist()
    assert x.repeat(repeats=(1, 1, 2)).shape == (2, 3, 8)


def test_closeness(device):
    nan, inf = float("nan"), float("inf")
    a, b = torch.tensor([1.0, nan, inf, -inf, 2.0]), torch.tensor([1.0 + 1e-6, nan, inf, inf, 2.1])
    for equal_nan in (False, True):
        expected = np.isclose(np.array(a.tolist()), np.array(b.tolist()), equal_nan=equal_nan)
        assert torch.isclose(a, b, equal_nan=equal_nan).tolist() == expected.tolist()
    assert torch.allclose(a[:1], b[:1])
    assert not torch.allclose(a, b)
    assert torch.isclose(torch.tensor([1, 2]), torch.tensor([1, 3])).tolist() == [True, False]
    assert torch.equal(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]))
    assert not torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2, 3]))


def test_small_methods(device):
    x = torch.tensor([3, 1, 2])
    assert reversed(x).tolist() == [2, 1, 3]
    assert (x.ndimension(), x.is_signed(), x[0].is_nonzero()) == (1, True, True)
    assert x.is_same_size(torch.zeros(3))
    assert x.new(2, 2).shape == (2, 2)
    assert x.new([1.0, 2.0]).tolist() == [1, 2]
    assert f"{x[0]}" == "3"
    assert f"{torch.tensor(2.5):.2f}" == "2.50"
    assert x.pin_memory() is x
    assert not (x.is_shared())
    assert not (x.is_pinned())
    assert not (x.is_sparse)
    assert not (x.is_quantized)
    x.note = "kept"
    assert x.note == "kept"
