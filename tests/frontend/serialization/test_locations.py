"""Where storages go, and how they are read."""

from __future__ import annotations

import io
import mmap
import sys
import zipfile

import numpy as np
import pytest

import tensocket as torch
from tensocket import serialization
from tensocket.errors import ArgumentError, SerializationError
from tensocket.serialization import LoadEndianness


def test_places(saved, loaded):
    data = saved({"a": torch.ones(2)})
    seen = []

    def doubled(storage, location):
        seen.append((type(storage), location))
        return storage.clone()

    assert loaded(data, map_location="cpu")["a"].device.type == "cpu"
    assert loaded(data, map_location=torch.device("meta"))["a"].device.type == "meta"
    assert loaded(data, map_location={"cpu": "meta"})["a"].device.type == "meta"
    assert loaded(data, map_location={"nowhere": "meta"})["a"].tolist() == [1, 1]
    assert loaded(data, map_location=doubled)["a"].tolist() == [1, 1]
    assert loaded(data, map_location=lambda storage, location: None)["a"].tolist() == [1, 1]
    assert seen == [(torch.UntypedStorage, "cpu")]
    with pytest.raises(SerializationError, match="map_location returns a storage or None"):
        loaded(data, map_location=lambda storage, location: 3)


def test_functions_that_move_storages(saved, loaded, monkeypatch):
    data = saved(torch.ones(2))
    assert loaded(data, map_location=lambda storage, _: storage.to(device="meta")).device.type == "meta"
    storage = torch.ones(2).untyped_storage()
    monkeypatch.setattr(torch.UntypedStorage, "to", lambda self, *, device: device)
    assert [storage.cuda(), storage.cuda(1), storage.cuda("cuda:2")] == ["cuda", "cuda:1", "cuda:2"]


def test_sharing_survives_a_move(saved, loaded):
    base = torch.arange(4)
    row, all_ = loaded(saved([base[1:], base]), map_location=lambda storage, _: storage.clone())
    all_[1] = 9
    assert row.tolist() == [9, 2, 3]


def elsewhere(data, name):
    """The file, with storages of another device; the name has as many letters as ``cpu``."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for label, content in entries.items():
            archive.writestr(label, content.replace(b"cpu", name) if label.endswith("data.pkl") else content)
    return stream.getvalue()


def test_a_device_that_is_not_there(saved, loaded):
    data = elsewhere(saved(torch.ones(2)), b"npu")
    with pytest.raises(SerializationError, match="storages return to the device that they were on, which must be here"):
        loaded(data)
    assert loaded(data, map_location="cpu").tolist() == [1, 1]
    assert loaded(data, map_location={"npu": "cpu"}).tolist() == [1, 1]
    assert loaded(data, map_location=lambda storage, location: storage).tolist() == [1, 1]


def test_packages(monkeypatch, saved, loaded):
    packages = sys.modules["tensocket.serialization.locations"]
    monkeypatch.setattr(packages, "_PACKAGES", list(packages._PACKAGES))
    serialization.register_package(
        5, lambda storage: "mine" if storage.nbytes() == 8 else None,
        lambda storage, location: storage.clone().fill_(0) if location == "mine" else None)
    found = loaded(saved([torch.ones(2), torch.ones(3)]))
    assert found[0].tolist() == [0, 0]
    assert found[1].tolist() == [1, 1, 1]
    assert serialization.location_tag(torch.ones(2).untyped_storage()) == "mine"
    assert serialization.location_tag(torch.ones(2, device="meta").untyped_storage()) == "mine"
    assert serialization.location_tag(torch.ones(3, device="meta").untyped_storage()) == "meta"
    storage = torch.ones(3).untyped_storage()
    assert serialization.default_restore_location(storage, "cpu") == storage
    assert serialization.default_restore_location(storage, "meta").device.type == "meta"
    packages._PACKAGES.clear()
    with pytest.raises(SerializationError, match="the place of a storage has a name"):
        serialization.location_tag(storage)
    with pytest.raises(SerializationError, match="the place of a storage is known to a package"):
        serialization.default_restore_location(storage, "cpu")


# ---- mapping


def test_mapped_storages(tmp_path):
    path = tmp_path / "a.pt"
    base = torch.arange(100)
    torch.save([base, base[50:], torch.empty(0)], path)
    before = path.read_bytes()
    found = torch.load(path, mmap=True)
    found[0][50] = -1
    assert found[1][0].item() == -1
    assert found[2].tolist() == []
    assert path.read_bytes() == before
    assert torch.load(path)[0].tolist() == list(range(100))
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(io.BytesIO(before), mmap=True)


def test_changes_of_shared_mappings_go_to_the_file(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(torch.arange(3), path)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        found = torch.load(path, mmap=True)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    found[0] = 7
    assert torch.load(path, mmap=True).tolist() == [7, 1, 2]
    with pytest.raises(ArgumentError, match=r"flags are mmap\.MAP_PRIVATE or mmap\.MAP_SHARED"):
        serialization.set_default_mmap_options(99)


def test_the_file_may_be_replaced_while_it_is_mapped(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(torch.arange(3), path)
    found = torch.load(path, mmap=True)
    torch.save(found + 1, path)
    assert found.tolist() == [0, 1, 2]
    assert torch.load(path).tolist() == [1, 2, 3]


# ---- order of bytes


def with_order(packed, name, order):
    """An archive of one pickle of a tensor with the numbers 1 and 2, in this order of bytes."""
    dtype = {"Float": "f4", "Short": "i2", "ComplexFloat": "c8", "Byte": "u1"}[name]
    text = (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n%bStorage\n"
            b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQK\x00K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n"
            b")RtR.") % name.encode()
    data = np.array([1, 2], {"big": ">", "little": "<", None: ">"}[order] + dtype).tobytes()
    entries = {"a/data.pkl": text, "a/data/0": data}
    return packed({**entries, "a/byteorder": order.encode()} if order else entries)


@pytest.mark.parametrize("name", ["Float", "Short", "ComplexFloat", "Byte"])
def test_orders_of_bytes(packed, loaded, name):
    for order in ("little", "big"):
        assert loaded(with_order(packed, name, order)).tolist() == [1, 2]
    assert serialization.get_default_load_endianness() is None
    serialization.set_default_load_endianness(LoadEndianness.BIG)
    try:
        assert loaded(with_order(packed, name, None)).tolist() == [1, 2]
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="the order is a LoadEndianness or None"):
        serialization.set_default_load_endianness("big")


# ---- other settings


def test_files_without_contents(saved, loaded):
    value = [torch.ones(5), "x"]
    with serialization.skip_data():
        data = saved(value)
        assert len(data) == len(saved(value))
        assert loaded(data)[0].shape == (5,)
    assert loaded(data)[0].tolist() == [0] * 5
    assert loaded(data)[1] == "x"


def test_check_sums_can_be_left_out(saved, loaded):
    assert serialization.get_crc32_options()
    serialization.set_crc32_options(False)
    try:
        data = saved(torch.ones(2))
    finally:
        serialization.set_crc32_options(True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {info.CRC for info in archive.infolist()} == {0}
    assert loaded(data).tolist() == [1, 1]
