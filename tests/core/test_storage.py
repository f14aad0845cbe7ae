"""Storages: what tensors on one memory share, and how tensors change their memory."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import tensocket_core as torch
from tensocket_core import surface


@pytest.fixture
def warned(monkeypatch):
    """What the process has warned of: of typed storages already."""
    monkeypatch.setattr(surface, "_WARNED", said := ["storage"])
    return said


def test_views_have_one_storage(device):
    x = torch.arange(6.0)
    storage = x.untyped_storage()
    for view in (x[2:], x.view(2, 3).t(), x.detach(), x.view(torch.int32), x.unfold(0, 2, 1)):
        assert view.untyped_storage() is storage
    assert x.clone().untyped_storage() != storage
    assert (storage.nbytes(), len(storage), storage.size(), storage.element_size()) == (24, 24, 24, 1)
    assert str(storage.device).split(":")[0] == device
    assert torch.is_storage(storage)
    assert not torch.is_storage(x)


def test_bytes_are_read_and_written(device):
    x = torch.tensor([1, 256], dtype=torch.int32)
    storage = x.untyped_storage()
    assert storage.tolist() == list(np.array([1, 256], np.int32).tobytes())
    assert (storage[0], storage[5]) == (1, 1)
    storage[0] = 7
    assert x.tolist() == [7, 256]
    copy = storage.clone()
    storage.fill_(0)
    assert x.tolist() == [0, 0]
    storage.copy_(copy)
    assert x.tolist() == [7, 256]
    assert storage[4:].tolist() == [0, 1, 0, 0]


def test_typed_storages_are_deprecated_once(warned):
    warned.clear()
    x = torch.zeros(2)
    with pytest.warns(UserWarning, match="TypedStorage is deprecated in PyTorch: use Tensor.untyped_storage"):
        x.storage()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.storage()


@pytest.mark.usefixtures("warned")
def test_typed_storages(device):
    x = torch.arange(4.0)[1:]
    storage = x.storage()
    assert (len(storage), storage.tolist(), storage[3], storage.dtype) == (4, [0.0, 1.0, 2.0, 3.0], 3.0, torch.float32)
    storage[1] = 9.0
    assert x.tolist() == [9.0, 2.0, 3.0]
    assert storage.untyped() is x.untyped_storage()
    assert storage == x[1:].storage()
    assert torch.is_storage(storage)
    assert repr(storage).endswith("of size 4]")


def test_offsets_count_from_the_storage(device):
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert x[1, 1:].storage_offset() == 16
    assert x[1, 1:].detach().storage_offset() == 16
    assert x[1].as_strided((2,), (5,)).tolist() == [12.0, 17.0]
    assert x[1].as_strided((2,), (5,), 0).tolist() == [0.0, 5.0]


def test_a_storage_outlives_its_tensors(device):
    x = torch.ones(5000)
    storage = x[3:].untyped_storage()
    del x
    gc.collect()
    fresh = torch.full((5000,), 7.0)
    assert storage[3] == np.ones(1, np.float32).tobytes()[3]
    assert fresh.untyped_storage() != storage


@pytest.mark.usefixtures("warned")
def test_set(device):
    x, y = torch.arange(6.0), torch.zeros(2)
    y.set_(x[1:])
    assert y.is_set_to(x[1:])
    y[0] = 9
    assert x.tolist() == [0.0, 9.0, 2.0, 3.0, 4.0, 5.0]
    y.set_(x.untyped_storage(), 2, (2, 2), (2, 1))
    assert y.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    y.set_(x.storage())
    assert y.tolist() == x.tolist()
    y.set_()
    assert y.shape == (0,)


def test_resize(device):
    x = torch.arange(6.0)
    view = x[2:]
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    view[0] = 7
    assert x[1, 0] == 7
    x.resize_(3, 3)
    assert x.shape == (3, 3)
    assert x.reshape(-1)[:6].tolist() == [0.0, 1.0, 7.0, 3.0, 4.0, 5.0]
    assert x.resize_as_(torch.zeros(2, 1)).shape == (2, 1)
    assert torch.zeros(0).resize_(()).shape == ()
    channels = torch.zeros(1).resize_(2, 3, 2, 2, memory_format=torch.channels_last)
    assert channels.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("dtype", "shape"), [("uint8", (2, 12)), ("int16", (2, 6)), ("int32", (2, 3)),
                                              ("float32", (2, 3))])
def test_other_dtypes(device, dtype, shape, dtypes):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = torch.tensor(values)
    view = x.view(dtypes[dtype])
    assert view.shape == shape
    assert view.tolist() == values.view(dtype).tolist()
    assert view.view(torch.float32).tolist() == values.tolist()
    view.zero_()
    assert x.tolist() == [[0.0] * 3] * 2


def test_a_wider_dtype_takes_several_elements(device):
    values = np.arange(8, dtype=np.int16).reshape(2, 4)
    assert torch.tensor(values).view(torch.int64).tolist() == values.view(np.int64).tolist()
    assert torch.tensor(values).t().view(torch.uint16).tolist() == values.T.tolist()
    assert torch.tensor(values).view(dtype=torch.int32).tolist() == values.view(np.int32).tolist()


def test_other_dtypes_of_no_elements(device):
    x = torch.zeros(0, 4, dtype=torch.int16)
    assert (x.view(torch.int64).shape, x.view(torch.int8).shape) == ((0, 1), (0, 8))
    assert torch.zeros(4, 0, dtype=torch.int16).view(torch.int8).shape == (4, 0)


def test_elements_of_another_dtype_have_no_gradient():
    x = torch.ones(2, requires_grad=True)
    assert not x.view(torch.int32).requires_grad
    assert x.view(2, 1).requires_grad
