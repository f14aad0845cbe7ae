"""Paths, file objects, and what a crash leaves."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys

import pytest

import tensocket as torch
from tensocket.errors import DamagedFileError, SerializationError


def test_files_are_replaced_as_a_whole(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save([1], path)
    path.chmod(0o640)
    torch.save([2], str(path))
    assert torch.load(path) == [2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["weights.pt"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "weights.pt"
    torch.save([1], path)
    with pytest.raises(SerializationError):
        torch.save([torch.ones(2), lambda: 1], path)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SerializationError, match="No space left on device — the file must be writable and have space"):
        torch.save([2], path)
    assert torch.load(path) == [1]
    assert os.listdir(tmp_path) == ["weights.pt"]


def test_a_killed_process_leaves_the_old_file(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save([1], path)
    code = ("import os, sys, tensocket as torch\n"
            "from tensocket.serialization import archive\n"
            "archive.Writer.finish = lambda self: (self._stream.flush(), os._exit(7))\n"
            "torch.save(torch.zeros(1000), sys.argv[1])")
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == 7
    assert torch.load(path) == [1]


def test_links_stay_links(tmp_path):
    torch.save(1, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    torch.save(2, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert torch.load(tmp_path / "real") == 2


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path):
    torch.save(1, os.devnull)
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)
    with pytest.raises(SerializationError, match="Is a directory"):
        torch.save(1, tmp_path)


def test_folders_that_are_not_there(tmp_path):
    with pytest.raises(SerializationError, match=r"\[save\] file '.*/no/file': No such file or directory — "
                                                 "the file must be writable and have space"):
        torch.save(1, tmp_path / "no" / "file")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "no")
    with pytest.raises(IsADirectoryError):
        torch.load(tmp_path)


class WriteOnly:
    """A file object that only writes."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += bytes(data)


class Plain:
    """A file object without ``readinto``."""

    def __init__(self, data):
        self.stream = io.BytesIO(data)

    def __getattr__(self, name):
        if name in ("read", "seek", "tell"):
            return getattr(self.stream, name)
        raise AttributeError(name)


def test_file_objects():
    target = WriteOnly()
    torch.save(torch.arange(3), target)
    assert torch.load(io.BytesIO(target.data)).tolist() == [0, 1, 2]
    assert torch.load(Plain(target.data)).tolist() == [0, 1, 2]
    stream = io.BytesIO(b"before" + target.data)
    stream.seek(6)
    assert torch.load(stream).tolist() == [0, 1, 2]
    expected = "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
    with pytest.raises(AttributeError, match=expected):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match="You can only load from a file that is seekable"):
        torch.load(3)


def test_a_stream_at_its_end(saved):
    stream = io.BytesIO()
    torch.save("x", stream)
    with pytest.raises(EOFError, match=r"Ran out of input: the file is empty, or read to its end \(seek\(0\)"):
        torch.load(stream)
    stream.seek(0)
    assert torch.load(stream) == "x"
    with pytest.raises(DamagedFileError):
        torch.load(io.BytesIO())


def test_large_entries_have_large_sizes(monkeypatch, saved, loaded):
    monkeypatch.setattr("tensocket.serialization.archive._FULL", 300)
    value = [torch.arange(100), torch.ones(2), torch.arange(200)]
    data = saved(value)
    monkeypatch.undo()
    # Fields of 32 bits that are too small say so by all bits set.
    data = data.replace((300).to_bytes(4, "little"), b"\xff" * 4)
    assert [x.tolist() for x in loaded(data)] == [x.tolist() for x in value]
