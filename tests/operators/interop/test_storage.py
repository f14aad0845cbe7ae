"""Storages: what tensors on one memory share, and how tensors change their memory."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from importlib.metadata import entry_points

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.interop import typed_storages
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, IndexOutOfRange

HOST = pytest.mark.skipif("cpu" not in {entry.name for entry in entry_points(group="tensocket.backends")},
                          reason="no host-resident device")


@pytest.fixture
def warned(monkeypatch):
    """Set the state of a process that has already warned of typed storages."""
    monkeypatch.setattr(typed_storages.Deprecation, "warned", True)
    return typed_storages.Deprecation


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
    warned.warned = False
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


@pytest.mark.usefixtures("warned")
def test_typed_storages_are_made_and_converted(device):
    storage = torch.TypedStorage([-1, 0, 2.5], dtype=torch.float64, device=device)
    assert (storage.dtype, storage.size(), storage.nbytes(), storage.element_size()) == (torch.float64, 3, 24, 8)
    for name, values in (("int", [-1, 0, 2]), ("bool", [True, False, True]), ("byte", [255, 0, 2]),
                         ("float", [-1.0, 0.0, 2.5]), ("half", [-1.0, 0.0, 2.5])):
        assert getattr(storage.int() if name == "byte" else storage, name)().tolist() == values, name
    assert storage.double().data_ptr() != storage.data_ptr()
    storage[1:] = 4
    assert list(storage) == [-1.0, 4.0, 4.0]
    assert torch.TypedStorage(2, dtype=torch.int16, device=device).nbytes() == 4
    assert torch.TypedStorage(device=device).size() == 0
    wrapped = torch.TypedStorage(wrap_storage=storage.untyped(), dtype=torch.uint8)
    assert wrapped.tolist() == list(np.array([-1.0, 4.0, 4.0]).tobytes())
    for copied in (copy.deepcopy(storage), pickle.loads(pickle.dumps(storage)), storage.clone(), copy.copy(storage)):
        assert copied.tolist() == storage.tolist()
        assert copied != storage


@pytest.mark.usefixtures("warned")
def test_storages_of_wrong_arguments(device):
    kept = torch.ones(2).untyped_storage()
    for given, options, words in (
        ((3,), {"wrap_storage": kept, "dtype": torch.int8}, "No positional arguments should be given"),
        ((), {"wrap_storage": kept}, "Argument 'dtype' must be specified"),
        ((), {"wrap_storage": kept, "dtype": torch.int8, "device": device}, "'device' should not be specified"),
        ((), {"wrap_storage": kept, "dtype": 3}, "Argument 'dtype' must be tensocket.dtype"),
        ((), {"wrap_storage": torch.TypedStorage(wrap_storage=kept, dtype=torch.int8), "dtype": torch.int8},
         "Argument 'wrap_storage' must be UntypedStorage"),
        ((1, 2), {"device": device}, "a storage takes a size, values, or wrap_storage and dtype"),
        (({1: 2},), {"device": device}, "Argument type not recognized"),
    ):
        with pytest.raises((ArgumentError, ArgumentTypeError), match=words):
            torch.TypedStorage(*given, **options)
    with pytest.raises(ArgumentTypeError, match="a storage is made of a number of bytes, or of their values"):
        torch.UntypedStorage(1.5)
    storage = torch.TypedStorage(wrap_storage=kept, dtype=torch.float32)
    with pytest.raises(ArgumentError, match="cannot set item with a storage"):
        storage[0] = kept
    with pytest.raises(ArgumentError, match="an index is an integer or a slice"):
        storage["x"] = 1
    with pytest.raises(ArgumentError, match="an element of a typed storage has an integer index"):
        storage[:1]
    with pytest.raises(IndexOutOfRange, match="the storage has 2 elements"):
        storage[2]
    with pytest.raises(ArgumentError, match="Expected a Storage of type int32 or an UntypedStorage"):
        torch.zeros(2, dtype=torch.int32).set_(storage)


@pytest.mark.usefixtures("warned")
def test_storages_on_meta():
    for storage in (torch.UntypedStorage([1, 2], device="meta"), torch.ones(2, device="meta").storage()):
        assert storage.data_ptr() == 0
        for act in (lambda s: s[0], lambda s: s.tolist()):
            with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
                act(storage)
        storage.resize_(9)
        assert storage.size() == 9
        with pytest.raises(ArgumentError, match="sharing is only available on CPU"):
            storage.share_memory_()


def test_tensors_on_storages(device):
    x = torch.arange(6.0)
    for made in (torch.tensor(x.untyped_storage(), dtype=torch.float32), x.new(x.untyped_storage()), x.new(x)):
        assert made.data_ptr() == x.data_ptr()
        assert made.tolist() == x.tolist()
    with pytest.raises(ArgumentTypeError, match="memory that is shared has the dtype int64"):
        x.long().new(x)
    assert x.new(size=(2, 3)).shape == (2, 3)
    assert x.new(()).shape == (0,)


def test_the_size_of_a_storage_changes_for_all_tensors(device):
    x = torch.arange(6.0)
    view, storage = x[2:].view(2, 2), x.untyped_storage()
    assert storage.resizable()
    storage.resize_(40)
    assert (storage.nbytes(), x.untyped_storage() is storage, view.untyped_storage() is storage) == (40, True, True)
    x[3] = 9
    assert view.tolist() == [[2.0, 9.0], [4.0, 5.0]]
    with pytest.raises(ArgumentError, match="tensors stay within their storage, and this one reaches to byte 24"):
        storage.resize_(8)
    del x, view
    assert storage.resize_(8).tolist() == list(np.array([0.0, 1.0], np.float32).tobytes())


@HOST
def test_memory_that_others_have_keeps_its_size():
    values = np.zeros(3, np.float32)
    x = torch.zeros(2, device="cpu")
    assert x.untyped_storage().resizable()
    for tensor in (torch.from_numpy(values), torch.frombuffer(bytearray(8), dtype=torch.float32),
                   torch.zeros(2, device="cpu").share_memory_()):
        assert not tensor.untyped_storage().resizable()
        with pytest.raises(ArgumentError, match="Trying to resize storage that is not resizable"):
            tensor.untyped_storage().resize_(400)
    x.numpy()
    with pytest.raises(ArgumentError, match="Trying to resize storage that is not resizable"):
        x.resize_(9)


def test_bytes_of_elements_are_swapped():
    values = np.arange(4, dtype=np.int32)
    storage = torch.tensor(values).untyped_storage()
    storage.byteswap(torch.int32)
    assert bytes(storage.tolist()) == values.byteswap().tobytes()
    numbers = np.array([1 + 2j], np.complex64)
    storage = torch.tensor(numbers).untyped_storage()
    storage.byteswap(torch.complex64)
    assert bytes(storage.tolist()) == numbers.byteswap().tobytes()


@HOST
def test_storages_of_buffers():
    data = np.array([1.5, -2.0], ">f4").tobytes()
    storage = torch.UntypedStorage.from_buffer(data, "big", dtype=torch.float32)
    assert bytes(storage.tolist()) == np.array([1.5, -2.0], np.float32).tobytes()
    assert torch.UntypedStorage.from_buffer(b"\0\5", dtype=torch.bool_).tolist() == [0, 1]
    assert torch.UntypedStorage.from_buffer(b"abcd", "native", 1, 2, dtype=torch.uint8).tolist() == [ord("c")]
    with pytest.raises(ArgumentError, match="the order of bytes is 'native', 'little' or 'big'"):
        torch.UntypedStorage.from_buffer(data, dtype=torch.float32)
    with pytest.raises(ArgumentError, match="the bytes after the offset are a multiple of the elements' size, 4"):
        torch.UntypedStorage.from_buffer(data, "big", -1, 3, dtype=torch.float32)
    with pytest.raises(ArgumentTypeError, match="a buffer has bytes that lie side by side"):
        torch.UntypedStorage.from_buffer(3.5, dtype=torch.uint8)


def test_places_of_no_elements(device):
    x = torch.ones(4)
    assert x.data_ptr() != 0
    assert x[2:2].data_ptr() == torch.empty(0, 2).data_ptr() == 0
    assert x[2:2].untyped_storage().data_ptr() == x.data_ptr()


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


def test_resizing_to_the_same_sizes_changes_nothing(device):
    x = torch.ones(2, 3).t()
    for _ in range(5):
        assert x.resize_(3, 2) is x.resize_((3, 2)) is x.resize_(torch.Size([3, 2])) is x.resize_([3, 2]) is x
        assert x.resize_as_(torch.zeros(3, 2)) is x
    assert (x._version, x.stride()) == (0, (1, 3))
    for sizes in ((3.0, 2), ((3, 2.0),)):
        with pytest.raises(TypeError, match="sizes and dims are integers"):
            x.resize_(*sizes)
    with pytest.raises(RuntimeError, match="a resized tensor has no history"):
        x.clone().requires_grad_().resize_(3, 2)
    y = torch.ones(3, 2)
    assert y.resize_(3, 2, memory_format=torch.contiguous_format).stride() == (2, 1)


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


def test_other_tensors_formats_are_taken_in_place(device):
    last = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    x = torch.arange(120.0)
    x.resize_as_(last, memory_format=torch.preserve_format)
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_sizes_that_overflow():
    for sizes in ([2, 4, 1 << 29, 1 << 29], [0, 4, 1 << 61]):
        with pytest.raises(RuntimeError, match="bytes and strides fit 63 bits"):
            torch.empty((), dtype=torch.float32).resize_([*sizes, 4])
