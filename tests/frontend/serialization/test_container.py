"""save and load: what is kept, and that nothing but a complete, unchanged file is read."""

from __future__ import annotations

import io
import json
import math
import os
import stat
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import SerializationError


def saved(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def loaded(data, **options):
    return torch.load(io.BytesIO(data), **options)


def copied(value):
    return loaded(saved(value))


# ---- what is kept


def test_values_and_their_types(everything):
    found = copied(everything)
    assert type(found) is OrderedDict
    assert list(found) == list(everything)
    for name in ("numbers", "text", "nested", "types"):
        assert found[name] == everything[name]
        assert repr(found[name]) == repr(everything[name])
    assert math.copysign(1, found["numbers"][4]) == -1
    assert isinstance(found["weight"], nn.Parameter)
    assert found["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    for a, b in zip(found["tensors"], everything["tensors"], strict=True):
        assert a.tolist() == b.tolist()
        assert a.dtype is b.dtype
        assert a.shape == b.shape


@pytest.mark.parametrize("name", [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_dtypes_keep_their_bits(name):
    tensor = torch.tensor([0.0, 1.0, 3.0]).to(getattr(torch, name))
    found = copied(tensor)
    assert found.dtype is tensor.dtype
    assert found.tolist() == tensor.tolist()


def test_not_a_number_is_kept():
    assert math.isnan(copied(math.nan))


def test_requires_grad_is_kept():
    assert copied(torch.ones(1, requires_grad=True)).requires_grad
    assert not copied(torch.ones(1)).requires_grad
    assert not copied(nn.Parameter(torch.ones(1), requires_grad=False)).requires_grad


def test_results_are_saved_without_their_history():
    result = torch.ones(2, requires_grad=True) * 3
    found = copied(result)
    assert found.tolist() == [3, 3]
    assert found.is_leaf


def test_the_same_tensor_is_one_tensor():
    shared = torch.ones(3)
    found = copied({"a": shared, "b": shared})
    assert found["a"] is found["b"]


def test_views_share_memory_again_whatever_the_order():
    base = torch.arange(12).reshape(3, 4)
    row, column, base_again = copied([base[1], base[:, 2], base])
    base_again[1, 2] = 99
    assert row.tolist() == [4, 5, 99, 7]
    assert column.tolist() == [2, 99, 10]


def test_shared_memory_is_written_once():
    base = torch.zeros(1000)
    assert len(saved([base, base[10:], base.reshape(10, 100)])) < len(saved(base)) + 400


def test_only_the_elements_of_a_view_are_written():
    assert len(saved(torch.zeros(100000)[:3])) < 1500


def test_strides_of_dense_tensors_are_kept():
    matrix = torch.arange(6).reshape(2, 3).t()
    found = copied(matrix)
    assert found.stride() == (1, 3)
    assert found.tolist() == matrix.tolist()
    assert copied(torch.arange(6)[::2]).tolist() == [0, 2, 4]
    assert copied(torch.ones(1).expand(3)).tolist() == [1, 1, 1]


def test_the_same_content_gives_the_same_bytes(everything):
    assert saved(everything) == saved(everything)


def test_models_and_optimizers_go_on_where_they_stopped(tmp_path):
    def step(model, optimizer):
        optimizer.zero_grad()
        (model(torch.ones(1, 2)) ** 2).sum().backward()
        optimizer.step()

    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step(model, optimizer)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint.tsk")
    state = torch.load(tmp_path / "checkpoint.tsk")
    other.load_state_dict(state["model"])
    other_optimizer = torch.optim.Adam(other.parameters())
    other_optimizer.load_state_dict(state["optimizer"])
    step(model, optimizer)
    step(other, other_optimizer)
    assert other.weight.tolist() == model.weight.tolist()


# ---- devices


def test_map_location():
    data = saved({"a": torch.ones(2)})
    seen = []
    assert loaded(data, map_location="cpu")["a"].device.type == "cpu"
    assert loaded(data, map_location=torch.device("cpu"))["a"].tolist() == [1, 1]
    assert loaded(data, map_location={"nowhere": "cpu"})["a"].tolist() == [1, 1]
    assert loaded(data, map_location=lambda flat, name: seen.append(name) or flat * 2)["a"].tolist() == [2, 2]
    assert loaded(data, map_location=lambda flat, name: None)["a"].tolist() == [1, 1]
    assert seen == ["cpu"]


def test_a_device_that_is_not_there(monkeypatch):
    data = edited(saved(torch.ones(2)), lambda head: head["storages"][0].update(device="nosuchdevice:0"))
    with pytest.raises(torch.errors.UnknownDevice):
        loaded(data)
    assert loaded(data, map_location="cpu").tolist() == [1, 1]
    assert loaded(data, map_location={"nosuchdevice:0": "cpu"}).tolist() == [1, 1]


# ---- files


def test_files_are_replaced_as_a_whole(tmp_path):
    path = tmp_path / "weights.tsk"
    torch.save([1], path)
    path.chmod(0o640)
    torch.save([2], str(path))
    assert torch.load(path) == [2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["weights.tsk"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "weights.tsk"
    torch.save([1], path)
    with pytest.raises(SerializationError):
        torch.save([torch.ones(2), object()], path)
    assert torch.load(path) == [1]
    assert os.listdir(tmp_path) == ["weights.tsk"]


def test_links_stay_links(tmp_path):
    torch.save(1, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    torch.save(2, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert torch.load(tmp_path / "real") == 2


def test_folders_that_are_not_there(tmp_path):
    with pytest.raises(SerializationError, match=r"\[save\] file '.*/no/file': No such file or directory — "
                                                 "the file must be writable and have space"):
        torch.save(1, tmp_path / "no" / "file")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "no")


def test_positions_in_open_files_do_not_matter():
    stream = io.BytesIO()
    torch.save("x", stream)
    assert torch.load(stream) == "x"


# ---- what cannot be saved


@pytest.mark.parametrize(("value", "where"), [
    (object(), "value of type object"), ({"a": [1, nn.Linear(1, 1)]}, r"value\['a'\]\[1\] of type Linear"),
    ({len: 1}, "value key of type builtin_function_or_method"), (np.zeros(2), "value of type ndarray")])
def test_types_that_no_file_holds(value, where):
    rule = "a file holds numbers, strings, tensors, dtypes, devices, and lists, tuples and dicts of them"
    with pytest.raises(SerializationError, match=rf"^\[save\] {where} — {rule} — save a state_dict"):
        saved(value)


def test_cycles_and_deep_nesting():
    cycle: list[object] = []
    cycle.append(cycle)
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    for value in (cycle, deep):
        with pytest.raises(SerializationError, match="which contains itself or is nested deeper than 200 — "
                                                     "a file holds trees of this depth"):
            saved(value)


# ---- damaged and hostile files


def edited(data, change, name="tensocket.json"):
    """The file with a changed head, and check sums that fit it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    head = json.loads(entries[name])
    change(head)
    entries[name] = json.dumps(head).encode()
    return packed(entries)


def packed(entries, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def check_refused(data):
    with pytest.raises(SerializationError) as caught:
        loaded(data)
    assert str(caught.value).startswith("[load] file object BytesIO: ")
    assert str(caught.value).endswith(" — the file must be what save() wrote, complete and unchanged — it is "
                                      "truncated, damaged or of another kind; get it again")


@pytest.fixture(scope="module")
def small():
    return saved({"w": nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]])), "n": 3})


def test_every_truncation_is_noticed(small):
    for size in range(len(small)):
        with pytest.raises(SerializationError):
            loaded(small[:size])


def test_flipped_bits_never_change_what_is_read(small):
    """Most flips are noticed; those in fields that mean nothing (times, attributes) may pass."""
    passed = 0
    for position in range(len(small)):
        for bit in (0, 3, 7):
            flipped = bytearray(small)
            flipped[position] ^= 1 << bit
            try:
                found = loaded(bytes(flipped))
            except SerializationError:
                continue
            passed += 1
            assert found["w"].tolist() == [[1, 2], [3, 4]]
            assert isinstance(found["w"], nn.Parameter)
            assert found["n"] == 3
    assert passed < len(small)


def test_flipped_bits_in_the_data_are_noticed(small):
    at = small.index(np.array([1, 2, 3, 4], dtype="<f4").tobytes())
    for position in range(at, at + 16):
        flipped = bytearray(small)
        flipped[position] ^= 4
        check_refused(bytes(flipped))


@pytest.mark.parametrize("data", [b"", b"x" * 100, packed({}), packed({"a": b"1"}), packed({"tensocket.json": b"[]"}),
                                  packed({"tensocket.json": b'{"format": "other", "version": 1}'}),
                                  packed({"tensocket.json": b"[" * 100000})])
def test_other_files(data):
    check_refused(data)


@pytest.mark.parametrize("change", [
    lambda head: head["storages"][0].update(count=5),
    lambda head: head["storages"][0].update(count=3),
    lambda head: head["storages"][0].update(count=-4),
    lambda head: head["storages"][0].update(count=4.0),
    lambda head: head["storages"][0].update(dtype="float128"),
    lambda head: head["storages"][0].update(dtype="float64"),
    lambda head: head["storages"].append(dict(head["storages"][0])),
    lambda head: head["storages"].clear(),
    lambda head: head["tensors"][0].update(shape=[2, 3]),
    lambda head: head["tensors"][0].update(shape=[2**40, 2**40], stride=[0, 0], offset=4),
    lambda head: head["tensors"][0].update(shape=[-2, -2]),
    lambda head: head["tensors"][0].update(shape=[4]),
    lambda head: head["tensors"][0].update(stride=[3, 1]),
    lambda head: head["tensors"][0].update(stride=[-2, 1]),
    lambda head: head["tensors"][0].update(offset=1),
    lambda head: head["tensors"][0].update(offset=True),
    lambda head: head["tensors"][0].update(storage=1),
    lambda head: head["tensors"][0].update(storage=-1),
    lambda head: head["tensors"][0].pop("parameter"),
    lambda head: head.update(root={"tensor": 1}),
    lambda head: head.update(root={"tensor": -1}),
    lambda head: head.update(root={"tensor": [0]}),
    lambda head: head.update(root={"os.system": ["true"]}),
    lambda head: head.update(root={"tuple": 3}),
    lambda head: head.update(root={"tuple": [], "dict": []}),
    lambda head: head.update(root={}),
    lambda head: head.update(root={"dict": [[[], 1]]}),
    lambda head: head.update(root={"float": "__import__('os')"}),
    lambda head: head.update(root={"device": "NO SUCH"}),
    lambda head: head.pop("root"),
    lambda head: head.update(version="1"),
])
def test_heads_that_lie(small, change):
    check_refused(edited(small, change))


def test_deeply_nested_heads(small):
    for depth in (250, 100_000):
        text = '{"tuple":[' * depth + "1" + "]}" * depth
        with zipfile.ZipFile(io.BytesIO(small)) as archive:
            head = archive.read("tensocket.json").decode()
        check_refused(packed({"tensocket.json": head.replace('"root":', f'"root":{text},"x":'), "data/0": b"\0" * 16}))


def test_expanded_sizes_need_no_memory(small):
    """A stride of zero makes a large tensor of little data; that is a view, as it was when it was saved."""
    found = loaded(edited(small, lambda head: head["tensors"][0].update(shape=[2**20, 2**20], stride=[0, 0])))
    assert found["w"].shape == (2**20, 2**20)


@pytest.mark.parametrize("name", ["../../evil", "/evil", "data/1", "data/00", "tensocket.json/x"])
def test_entries_of_other_names(small, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(io.BytesIO(small)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    check_refused(packed({**entries, name: b"evil"}))
    assert os.listdir(tmp_path) == []


def test_compressed_entries_are_refused(small):
    with zipfile.ZipFile(io.BytesIO(small)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    check_refused(packed(entries, zipfile.ZIP_DEFLATED))


def test_newer_versions_say_so(small):
    with pytest.raises(SerializationError) as caught:
        loaded(edited(small, lambda head: head.update(version=2)))
    assert str(caught.value) == ("[load] file object BytesIO of format version 2 — this release reads versions up to "
                                 "1 — install a newer tensocket")


def test_pickled_files_are_named():
    with pytest.raises(SerializationError, match=r"\[load\] .* written by PyTorch — pickled files are not read — "):
        loaded(packed({"archive/data.pkl": b"\x80\x02."}))
