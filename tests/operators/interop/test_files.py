"""Tensors and storages on the memory of files."""

from __future__ import annotations

from importlib.metadata import entry_points

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_plugins.contract.errors import ArgumentError

pytestmark = pytest.mark.skipif(
    "cpu" not in {entry.name for entry in entry_points(group="tensocket.backends")}, reason="no host-resident device"
)
VALUES = np.arange(4, dtype=np.int32)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "numbers").write_bytes(VALUES.tobytes())
    return tmp_path / "numbers"


def test_private_memory_leaves_the_file_as_it_is(path):
    x = torch.from_file(str(path), size=3, dtype=torch.int32)
    assert x.tolist() == [0, 1, 2]
    x[0] = 7
    assert x.tolist() == [7, 1, 2]
    assert path.read_bytes() == VALUES.tobytes()
    assert torch.from_file(path).shape == (0,)


def test_shared_memory_is_the_files(path, tmp_path):
    x = torch.from_file(path, True, 5, dtype=torch.int32)
    assert x.tolist() == [0, 1, 2, 3, 0]
    x[4] = 9
    assert np.fromfile(path, np.int32).tolist() == [0, 1, 2, 3, 9]
    weight = torch.from_file(tmp_path / "new", shared=True, size=2, requires_grad=True)
    assert weight.tolist() == [0, 0]
    assert weight.requires_grad
    assert (tmp_path / "new").stat().st_size == 8


def test_files_have_all_bytes(path, tmp_path):
    for place in (path, tmp_path / "none"):
        with pytest.raises(ArgumentError, match="the file has all bytes unless it is shared"):
            torch.from_file(place, size=100)
    with pytest.raises(ArgumentError, match="files are mapped into the host's memory"):
        torch.from_file(path, size=1, device="ref:0")


def test_parts_of_a_storage_share_its_memory(path):
    storage = torch.UntypedStorage.from_file(str(path), False, 16)
    assert storage.untyped() is storage
    x = torch.asarray(storage[4:12], dtype=torch.uint8, device=storage.device).view(torch.int32)
    assert x.tolist() == [1, 2]
    x[0] = 5
    assert storage[4] == 5
    assert torch.asarray(storage, dtype=torch.int32).tolist() == [0, 5, 2, 3]
    assert torch.asarray(storage).dtype is torch.uint8
    with pytest.raises(ArgumentError, match="a part of a storage has all bytes from one place to another"):
        storage[::2]
