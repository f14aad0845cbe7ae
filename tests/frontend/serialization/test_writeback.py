"""Files whose writing to the disk begins early hold the same bytes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

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
