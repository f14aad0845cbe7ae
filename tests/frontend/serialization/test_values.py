"""Values that survive ``save`` and ``load``."""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_python_values(copied, saved, loaded, protocol):
    values = [1, -(2**63), 2**200, 1.5, -0.0, math.inf, complex(1, -math.inf), True, None, "ä\n\0", "", b"\0\xff", b"",
              bytearray(b"x"), {1: {"a": (1, [2])}, (2, "b"): {3}, None: frozenset([4])}, (), [], {}, set(),
              OrderedDict(b=1, a=2), Counter("aab"), slice(1, 2)]
    found = loaded(saved(values, pickle_protocol=protocol))
    assert found == values
    assert repr(found) == repr(values)
    assert [type(a) for a in found] == [type(a) for a in values]


def test_types_of_the_library(copied):
    values = [getattr(torch, name) for name in DTYPES]
    values += [torch.device("cpu"), torch.device("opencl", 1), torch.Size([2, 3]), torch.strided, torch.sparse_csr]
    assert copied(values) == values


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_keep_their_bits(copied, name):
    tensor = torch.tensor([0.0, 1.0, 3.0]).to(getattr(torch, name))
    found = copied(tensor)
    assert found.dtype is tensor.dtype
    assert bytes(found.untyped_storage().tolist()) == bytes(tensor.untyped_storage().tolist())


def test_sizes_of_elements():
    assert [torch._utils._element_size(kind) for kind in (torch.bool, torch.complex128)] == [1, 16]


def test_place_in_autograd_and_class(copied):
    assert copied(torch.ones(1, requires_grad=True)).requires_grad
    assert copied(torch.ones(1, requires_grad=True) * 2).is_leaf
    frozen = copied(nn.Parameter(torch.ones(1), requires_grad=False))
    assert (type(frozen), frozen.requires_grad) == (nn.Parameter, False)
    buffer = copied(nn.Buffer(torch.ones(1), persistent=False))
    assert (type(buffer), isinstance(buffer, nn.Buffer), buffer.persistent) == (torch.Tensor, True, False)


def test_attributes(copied):
    tensor, parameter = torch.ones(1), nn.Parameter(torch.ones(1))
    tensor.note, parameter.note = "a", [1]
    assert copied(tensor).note == "a"
    assert copied(parameter).note == [1]
    assert type(copied(parameter)) is nn.Parameter


def test_the_same_object_is_one_object(copied):
    shared, items = torch.ones(3), [1]
    found = copied({"a": shared, "b": shared, "c": items, "d": items})
    assert found["a"] is found["b"]
    assert found["c"] is found["d"]


def test_cycles(copied):
    cycle: list[object] = []
    cycle.append(cycle)
    found = copied(cycle)
    assert found[0] is found


def test_views_share_memory_again(copied):
    base = torch.arange(12).reshape(3, 4)
    row, column, same, turned = copied([base[1], base[:, 2], base, base.t()])
    same[1, 2] = 99
    assert row.tolist() == [4, 5, 99, 7]
    assert column.tolist() == [2, 99, 10]
    assert turned.stride() == (1, 4)
    assert turned[2, 1] == 99


def test_each_storage_is_written_once(saved):
    base = torch.zeros(1000)
    assert len(saved([base, base[10:], base.reshape(10, 100)])) < len(saved(base)) + 500


def test_other_geometries(copied):
    assert copied(torch.tensor(7)).item() == 7
    assert copied(torch.empty(0, 3)).shape == (0, 3)
    assert copied(torch.arange(6)[::2]).tolist() == [0, 2, 4]
    assert copied(torch.ones(1).expand(3)).stride() == (0,)
    assert copied(torch.from_numpy(np.arange(3)[::-1].copy())).tolist() == [2, 1, 0]


def test_sparse_and_meta(copied):
    positions = torch.tensor([[0, 0], [1, 1]])
    doubled = torch.sparse_coo_tensor(positions, torch.tensor([1.0, 2.0]), (2, 2))
    found = copied([doubled, doubled.coalesce(), torch.eye(2).to_sparse_csr(), torch.empty(2, 3, device="meta")])
    assert [x.layout for x in found[:3]] == [torch.sparse_coo, torch.sparse_coo, torch.sparse_csr]
    assert [x.is_coalesced() for x in found[:2]] == [False, True]
    assert found[0].to_dense().tolist() == found[1].to_dense().tolist() == [[0, 3], [0, 0]]
    assert found[2].to_dense().tolist() == [[1, 0], [0, 1]]
    blocks = torch.arange(16.0).reshape(4, 4)
    for kind in ("sparse_csc", "sparse_bsr", "sparse_bsc"):
        given = {} if kind == "sparse_csc" else {"blocksize": (2, 1)}
        (again,) = copied([blocks.to_sparse(layout=getattr(torch, kind), **given)])
        assert (again.layout, again.to_dense().tolist()) == (getattr(torch, kind), blocks.tolist())
    assert (str(found[3].device), found[3].stride()) == ("meta", (3, 1))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages(copied):
    tensor = torch.arange(3)
    storage, view = copied([tensor.untyped_storage(), tensor.view(torch.uint8)])
    assert storage.nbytes() == 24
    assert view.untyped_storage() == storage.untyped()


def test_one_memory_has_one_dtype(saved):
    tensor = torch.ones(2)
    with pytest.raises(torch.errors.SerializationError, match="Cannot save multiple tensors or storages that view the "
                                                              "same data as different types"):
        saved([tensor, tensor.view(torch.int32)])


def test_the_same_content_gives_the_same_bytes(saved):
    value = {"a": torch.arange(3), "b": [1, "x"]}
    assert saved(value) == saved(value)


def test_contents_are_aligned_and_plain(saved):
    data = saved({"a": torch.arange(100), "b": torch.ones(3)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        found = {info.filename: archive.read(info) for info in archive.infolist()}
    assert list(found) == [f"archive/{name}" for name in (
        "data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "data/1", "version",
        ".data/serialization_id")]
    assert found["archive/data/0"] == np.arange(100, dtype="<i8").tobytes()
    assert found["archive/version"] == b"3\n"
    assert len(found["archive/.data/serialization_id"]) == 40
    assert data.index(np.arange(100, dtype="<i8").tobytes()) % 64 == 0


def test_folders_in_archives_have_the_name_of_the_file(tmp_path):
    torch.save(1, tmp_path / "best.model.pt")
    with zipfile.ZipFile(tmp_path / "best.model.pt") as archive:
        assert archive.namelist()[0] == "best.model/data.pkl"


def test_models_and_optimizers_go_on_where_they_stopped(copied):
    def step(model, optimizer):
        optimizer.zero_grad()
        (model(torch.ones(1, 2)) ** 2).sum().backward()
        optimizer.step()

    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step(model, optimizer)
    state = copied({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    other.load_state_dict(state["model"])
    other_optimizer = torch.optim.Adam(other.parameters())
    other_optimizer.load_state_dict(state["optimizer"])
    step(model, optimizer)
    step(other, other_optimizer)
    assert other.weight.tolist() == model.weight.tolist()


# ---- trusted files


class Net(nn.Module):
    """A class of a program."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.activation = nn.functional.relu

    def forward(self, x):
        return self.activation(self.layer(x))


class Tagged(torch.Tensor):
    """A subclass of a program."""


class Plain:
    """A class without parameters."""

    def __init__(self, value):
        self.value = value


def test_whole_modules(saved, loaded, copied):
    net = Net()
    found = copied(net, weights_only=False)
    assert type(found) is Net
    assert found(torch.ones(1, 2)).tolist() == net(torch.ones(1, 2)).tolist()
    with pytest.raises(torch.errors.UnsafeGlobalError, match=r"names .*test_values\.Net"):
        copied(net)


def test_recurrent_modules_bring_the_list_of_their_weights(copied):
    layer = nn.LSTM(2, 3)
    assert [id(x) for x in layer.__getstate__()["_flat_weights"]] == [id(x) for x in layer.parameters()]
    found = copied(layer, weights_only=False)
    assert "_flat_weights" not in found.__dict__
    x = torch.ones(1, 1, 2)
    assert found(x)[0].tolist() == layer(x)[0].tolist()


def test_other_objects(copied):
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.5)
    found = copied([Plain(3), len, np.float64(2.5), np.arange(3), optimizer], weights_only=False)
    assert found[0].value == 3
    assert found[1] is len
    assert found[2] == 2.5
    assert found[3].tolist() == [0, 1, 2]
    assert found[4].param_groups[0]["lr"] == 0.5


def test_subclasses_of_tensors(copied):
    tensor = torch.ones(2).as_subclass(Tagged)
    tensor.note = 1
    found = copied(tensor, weights_only=False)
    assert type(found) is Tagged
    assert found.note == 1
    with torch.serialization.safe_globals([Tagged]):
        assert type(copied(tensor)) is Tagged
    assert copied(nn.parameter.UninitializedParameter(), weights_only=False).requires_grad


def test_names_in_files_are_those_of_pytorch(saved):
    data = saved([nn.Linear(1, 1), torch.float32, nn.functional.softplus, torch.ones(1)])
    assert b"tensocket" not in data
    for name in (b"ctorch.nn.modules.linear\nLinear\n", b"ctorch\nfloat32\n", b"ctorch.nn.functional\nsoftplus\n",
                 b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n"):
        assert name in data


@pytest.mark.parametrize(("value", "name"), [
    (nn.ELU, "torch.nn.modules.activation ELU"), (nn.LSTMCell, "torch.nn.modules.rnn LSTMCell"),
    (nn.TripletMarginLoss, "torch.nn.modules.loss TripletMarginLoss"), (nn.Module, "torch.nn.modules.module Module"),
    (nn.MultiheadAttention, "torch.nn.modules.activation MultiheadAttention"), (torch.Tensor, "torch Tensor"),
    (nn.ParameterList, "torch.nn.modules.container ParameterList"), (nn.Parameter, "torch.nn.parameter Parameter"),
    (torch.optim.Adafactor, "torch.optim Adafactor"), (torch.optim.SGD, "torch.optim.sgd SGD"),
    (torch.optim.lr_scheduler.StepLR, "torch.optim.lr_scheduler StepLR")])
def test_classes_have_pytorch_s_places(saved, loaded, value, name):
    data = saved(value)
    assert b"c" + name.replace(" ", "\n").encode() + b"\n" in data
    assert loaded(data, weights_only=False) is value
    with torch.serialization.safe_globals([value]):
        assert loaded(data) is value


class Module:
    """A pickle module of a program."""

    Pickler = pickle.Pickler
    Unpickler = pickle.Unpickler


def test_pickle_modules(saved, loaded):
    base = torch.arange(4)
    value = [base, base[1:], nn.Parameter(torch.ones(1)), torch.float16, torch.Size([2])]
    data = saved(value, pickle_module=Module)
    found = loaded(data, pickle_module=Module)
    found[0][1] = 9
    assert found[1].tolist() == [9, 2, 3]
    assert found[2:] == value[2:]
    assert loaded(data, weights_only=False)[3:] == value[3:]
    with pytest.raises(RuntimeError, match=r"Can not safely load weights when explicit pickle_module is specified"):
        loaded(data, pickle_module=Module, weights_only=True)


def test_pickle_modules_with_rules_of_their_own(saved, loaded):
    class Pickler(pickle.Pickler):
        def reducer_override(self, value):
            return (complex, (1, 2)) if value is open else NotImplemented

    class Special(Module):
        pass

    Special.Pickler = Pickler
    found = loaded(saved([open, torch.ones(2)], pickle_module=Special), pickle_module=Special)
    assert found[0] == 1 + 2j
    assert found[1].tolist() == [1, 1]


@pytest.mark.parametrize("value", [lambda: 1, (x for x in ())])
def test_what_cannot_be_pickled(saved, value):
    message = r"^\[save\] a dict: .* — everything in the object can be pickled"
    with pytest.raises(torch.errors.UnpicklableError, match=message) as caught:
        saved({"a": value})
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, pickle.PicklingError)


def test_tensors_of_transforms(saved):
    with pytest.raises(torch.errors.UnpicklableError, match="tensors of transforms live within their call"):
        torch.func.vmap(lambda x: saved(x))(torch.ones(3))


def test_deep_nesting(saved):
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(torch.errors.UnpicklableError, match="recursion"):
        saved(deep)


def test_names_that_this_library_does_not_have(with_pickle, loaded):
    text = b"\x80\x02ctorch.nn.modules.nosuch\nNothing\n."
    with pytest.raises(torch.errors.SerializationError, match="the file needs a name that tensocket does not have"):
        loaded(with_pickle(text), weights_only=False)


# ---- the format before archives


def test_files_before_archives(saved, loaded):
    base = torch.arange(6.0)
    data = saved({"a": base[1:4], "b": base, "c": [torch.ones(1, dtype=torch.bool), "x"]},
                 _use_new_zipfile_serialization=False)
    assert not data.startswith(b"PK")
    found = loaded(data)
    found["b"][2] = 9
    assert found["a"].tolist() == [1, 9, 3]
    assert found["c"][0].tolist() == [True]
    assert loaded(data, map_location="meta")["a"].device.type == "meta"


def test_what_is_written_is_in_the_file(tmp_path):
    with (tmp_path / "file").open("wb") as stream:
        torch.save(torch.arange(3), stream)
        assert torch.load(tmp_path / "file").tolist() == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_without_bytes_have_any_dtype(copied):
    empty = torch.tensor([], dtype=torch.float32)
    other = torch.TypedStorage(wrap_storage=empty.untyped_storage(), dtype=torch.int16)
    tensor, storage = copied([empty, other])
    assert (tensor.dtype, storage.dtype, storage.size()) == (torch.float32, torch.int16, 0)


#: ``t = torch.zeros(2); torch.save((t.storage()[:1], t.storage()[1:]), f)`` of PyTorch 0.3.1.
VIEWS = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\n\x00\x00\x00type_sizesq\x01}q\x02"
    b"(X\x03\x00\x00\x00intq\x03K\x04X\x05\x00\x00\x00shortq\x04K\x02X\x04\x00\x00\x00longq\x05K\x04uX\x10\x00\x00\x00"
    b"protocol_versionq\x06M\xe9\x03X\r\x00\x00\x00little_endianq\x07\x88u.\x80\x02(X\x07\x00\x00\x00storageq\x00"
    b"ctorch\nFloatStorage\nq\x01X\x0e\x00\x00\x0094279043900432q\x02X\x03\x00\x00\x00cpuq\x03K\x02X\x0e\x00\x00\x00"
    b"94279029750368q\x04K\x00K\x01\x87q\x05tq\x06Q(h\x00h\x01X\x0e\x00\x00\x0094279043900432q\x07h\x03K\x02X\x0e"
    b"\x00\x00\x0094279029750432q\x08K\x01K\x01\x87q\ttq\nQ\x86q\x0b.\x80\x02]q\x00X\x0e\x00\x00\x0094279043900432"
    b"q\x01a.\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_views_of_storages_in_old_files(loaded):
    first, second = loaded(VIEWS)
    assert (first.tolist(), second.tolist()) == ([1.0], [2.0])
    assert first.data_ptr() + 4 == second.data_ptr()
    for place in (b"K\x02K\x01\x87", b"K\x01K\x02\x87"):
        with pytest.raises(torch.errors.DamagedFileError, match="a view lies within its storage"):
            loaded(VIEWS.replace(b"K\x01K\x01\x87", place))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_old_files_are_read_with_texts_as_bytes(saved, loaded):
    data = saved([torch.arange(2)], _use_new_zipfile_serialization=False)
    assert loaded(data, encoding="bytes")[0].tolist() == [0, 1]
    # As Python 2 wrote them: keys of storages are texts of bytes.
    first, second = loaded(VIEWS.replace(b"X\x0e\x00\x00\x00", b"U\x0e"), encoding="bytes")
    assert (first.tolist(), second.tolist()) == ([1.0], [2.0])
