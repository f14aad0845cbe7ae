"""Large files: writing to the disk begins early, check sums are computed by the way."""

from __future__ import annotations

import ctypes
import zipfile

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import DamagedFileError
from tensocket.serialization import writeback


@pytest.fixture
def calls(monkeypatch):
    made = []
    monkeypatch.setattr(writeback, "_sync_file_range", lambda: lambda *args: made.append(args))
    return made


def test_the_disk_begins_after_every_mebibyte(tmp_path, calls):
    pieces = [np.random.default_rng(0).bytes(n) for n in (10, 1 << 20, 5, 3 << 20, 100)]
    with writeback.create(tmp_path / "file") as file:
        for piece in pieces:
            file.write(piece)
        number = file.fileno()
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)
    assert {args[0] for args in calls} == {number}
    ends = [start + size for _, start, size, _ in calls]
    assert [start for _, start, *_ in calls] == [0, *ends[:-1]]
    assert ends[-1] >= 4 << 20


def test_systems_without_the_function(tmp_path, monkeypatch):
    class Library:
        def __init__(self, name):
            pass

    monkeypatch.setattr(ctypes, "CDLL", Library)
    find = writeback._sync_file_range.__wrapped__
    assert find() is None
    monkeypatch.setattr(writeback, "_sync_file_range", find)
    with writeback.create(tmp_path / "file") as file:
        file.write(b"x" * (2 << 20))
    assert (tmp_path / "file").stat().st_size == 2 << 20


def test_files_that_exist_are_kept(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        writeback.create(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.fixture
def large(tmp_path):
    """A file of five tensors, of which some have check sums of their own threads, and one is of bools."""
    state = {k: torch.full((300_000 * k + 1,), float(k)) for k in range(4)}
    state["mask"] = torch.arange(2_000_000) % 3 == 0
    torch.save(state, tmp_path / "large.pt")
    return tmp_path / "large.pt", state


def test_check_sums_of_large_contents_are_right(large):
    path, state = large
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    again = torch.load(path)
    assert all(torch.equal(again[name], state[name]) for name in state)


@pytest.mark.parametrize("number", range(5))
def test_flipped_bits_in_large_contents_are_noticed(large, number):
    path, _ = large
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"large/data/{number}")
    content = bytearray(path.read_bytes())
    content[info.header_offset + 200 + info.file_size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFileError):
        torch.load(path)
