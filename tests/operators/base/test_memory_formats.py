"""Memory formats, and the strides of results."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensocket_operators as torch


def image(shape=(2, 3, 4, 5)):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return torch.tensor(values), values


def test_channels_last(device):
    x, values = image()
    y = x.to(memory_format=torch.channels_last)
    # N, H, W, C in memory.
    assert y.stride() == (60, 1, 15, 3)
    assert y.tolist() == values.tolist()
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert not y.is_contiguous()
    assert not x.is_contiguous(memory_format=torch.channels_last)
    assert y.contiguous(memory_format=torch.channels_last) is y
    assert y.contiguous().stride() == (60, 20, 5, 1)
    assert y.dim_order() == (0, 2, 3, 1)


def test_channels_last_in_three_dimensions(device):
    x, values = image((2, 3, 2, 2, 2))
    y = x.contiguous(memory_format=torch.channels_last_3d)
    assert y.stride() == (24, 1, 12, 6, 3)
    assert y.is_contiguous(memory_format=torch.channels_last_3d)
    assert y.tolist() == values.tolist()


OPERATIONS = {
    "neg": lambda x: -x,
    "add": lambda x: x + x,
    "number": lambda x: x * 2.5,
    "broadcast": lambda x: x + torch.ones(3, 1, 1),
    "clone": lambda x: x.clone(),
    "double": lambda x: x.double(),
    "compare": lambda x: x > 3,
    "where": lambda x: torch.where(x > 3, x, 0.0),
    "relu": lambda x: x.relu(),
    "zeros_like": lambda x: torch.zeros_like(x),
    "full_like": lambda x: torch.full_like(x, 2),
    "empty_like": lambda x: torch.empty_like(x, dtype=torch.int64),
}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_results_keep_the_layout(device, name, large):
    x, _ = image((2, 3, 40, 50) if large else (2, 3, 4, 5))
    for wanted in (x.to(memory_format=torch.channels_last), x, x.contiguous().permute(3, 1, 0, 2)):
        if name == "broadcast" and wanted.shape[1] != 3:
            continue
        result = OPERATIONS[name](wanted)
        if name == "broadcast" and device == "cpu" and not large:
            continue  # NumPy decides the layout of small results
        assert result.stride() == wanted.stride()
        if "like" not in name:
            assert result.tolist() == OPERATIONS[name](wanted.contiguous()).tolist()


def test_gaps_are_closed_in_copies(device):
    x, values = image()
    part = x.permute(0, 2, 3, 1)[:, ::2]
    assert part.stride() == (60, 10, 1, 20)
    for copied in (part.clone(), part + 1, torch.zeros_like(part), part.double()):
        assert copied.stride() == (30, 5, 1, 10)
    assert part.clone().tolist() == values.transpose(0, 2, 3, 1)[:, ::2].tolist()
    expanded = torch.ones(3, 1).expand(3, 4)
    assert expanded.clone().stride() == (4, 1)


def test_copies_to_formats(device):
    x, values = image()
    y = x.clone(memory_format=torch.channels_last)
    assert y.clone(memory_format=torch.contiguous_format).stride() == (60, 20, 5, 1)
    assert y.clone(memory_format=torch.preserve_format).stride() == (60, 1, 15, 3)
    assert torch.zeros_like(x, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert x.float(memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert x.to(torch.float64, memory_format=torch.channels_last).tolist() == values.tolist()


def test_copies_to_another_device_keep_the_order():
    x, values = image()
    y = x.to(memory_format=torch.channels_last).to("ref:1")
    assert y.stride() == (60, 1, 15, 3)
    assert y.tolist() == values.tolist()


def test_any_strides(device):
    x = torch.empty_strided((2, 3), (1, 2))
    assert x.stride() == (1, 2)
    x.copy_(torch.arange(6.0).reshape(2, 3))
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x.new_empty_strided((2, 2), (7, 2), dtype=torch.int64).stride() == (7, 2)
    assert torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)


def test_formats_are_four_objects():
    for format in (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d):
        assert pickle.loads(pickle.dumps(format)) is format
        assert copy.deepcopy(format) is format
        assert isinstance(format, torch.memory_format)
    assert repr(torch.channels_last) == "tensocket.channels_last"
    assert torch.zeros(2).layout is torch.strided


def test_names_of_kinds():
    x = torch.ones(2, device="cpu") if torch.is_available("cpu") else None
    if x is not None:
        assert isinstance(x, torch.FloatTensor)
        assert not isinstance(x, torch.LongTensor)
        assert x.type() == "tensocket.FloatTensor"
        assert torch.LongTensor([1.0, 2.0]).tolist() == [1, 2]
        assert torch.FloatTensor(2, 3).shape == (2, 3)
        assert isinstance(torch.DoubleTensor(torch.Size([2])), torch.DoubleTensor)
        assert x.type(torch.LongTensor).dtype is x.type("tensocket.LongTensor").dtype is torch.int64
        with torch.default_dtype(torch.float64):
            for own in (torch.Tensor, "tensocket.Tensor", "torch.Tensor"):
                assert x.type(own).dtype is torch.float64, own
                assert x.to(torch.int64).type(own).tolist() == [1.0, 1.0]
    assert torch.ones(2).type() == "tensocket.ref.FloatTensor"
    assert torch.ones(2).type(torch.float64).dtype is torch.float64


def test_shapes_stay_shapes():
    shape = torch.zeros(2, 3, 4).shape
    for made in (shape[1:], shape + (5,), (1,) + shape, shape * 2):  # noqa: RUF005
        assert type(made) is torch.Size
    assert (shape[1:], shape[0], shape + (5,), (7,) + shape) == (  # noqa: RUF005
        (3, 4), 2, (2, 3, 4, 5), (7, 2, 3, 4))
    assert repr(shape[:2]) == "tensocket.Size([2, 3])"
    assert shape.numel() == 24


def test_the_first_operand_orders_the_result(device):
    last = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    rows = torch.ones(2, 3, 4, 5)
    assert (last + rows).is_contiguous(memory_format=torch.channels_last)
    assert (rows + last).is_contiguous()
    assert (torch.ones(3, 2).t() * torch.ones(2, 3)).stride() == (1, 2)
