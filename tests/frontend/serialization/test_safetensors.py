"""The safetensors format against the library of its authors."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import safetensors.numpy

import tensocket as torch
from tensocket.errors import ArgumentTypeError, SerializationError, UnsupportedDtype
from tensocket.serialization import load_safetensors, save_safetensors

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.array([1.5, -2], dtype=np.float16),
    "double": np.array(3.25),
    "index": np.array([[1, -2]], dtype=np.int64),
    "bytes": np.arange(5, dtype=np.uint8),
    "flags": np.array([True, False, True]),
    "nothing": np.empty((0, 4), dtype=np.float32),
}


def test_the_library_reads_what_we_write(tmp_path):
    path = tmp_path / "a.safetensors"
    save_safetensors({name: torch.tensor(array) for name, array in ARRAYS.items()}, path, {"made": "here"})
    found = safetensors.numpy.load_file(path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    with safetensors.safe_open(path, "numpy") as opened:
        assert opened.metadata() == {"made": "here"}


def test_we_read_what_the_library_writes(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(ARRAYS, path, {"made": "there"})
    found = load_safetensors(path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
        assert found[name].numpy().dtype == array.dtype


def test_bfloat16_and_transposed_tensors(tmp_path):
    path = tmp_path / "a.safetensors"
    brain = torch.tensor([1.0, -0.5, 3.0]).to(torch.bfloat16)
    save_safetensors({"brain": brain, "turned": torch.arange(6).reshape(2, 3).t()}, path)
    found = load_safetensors(path, device="cpu")
    assert list(found) == ["brain", "turned"]
    assert found["brain"].dtype is torch.bfloat16
    assert found["brain"].tolist() == [1.0, -0.5, 3.0]
    assert found["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]


def write(path, head, data=b"\0" * 8, length=None):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def entry(shape=(2,), offsets=(0, 8), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(("head", "options"), [
    ({"a": entry()}, {"length": 10**15}), ({"a": entry()}, {"length": 1}), ({"a": entry()}, {"data": b"\0" * 7}),
    ({"a": entry()}, {"data": b"\0" * 9}), ({"a": entry(shape=(3,))}, {}), ({"a": entry(offsets=(4, 12))}, {}),
    ({"a": entry(offsets=(8, 0))}, {}), ({"a": entry(shape=(-2,))}, {}), ({"a": entry(shape=(2.0,))}, {}),
    ({"a": entry(shape=(1,) * 65)}, {}), ({"a": entry(shape=(2**64, 0))}, {}),
    ({"a": entry(dtype="F31")}, {}), ({"a": {}}, {}), ({"a": entry(), "b": entry()}, {}), ([], {}), (b"{", {}),
    (b'{"a":%b,"a":%b}' % ((b'{"dtype":"F32","shape":[2],"data_offsets":[0,8]}',) * 2), {}),
])
def test_damaged_files(tmp_path, head, options):
    path = tmp_path / "a.safetensors"
    write(path, {"a": entry()})
    assert load_safetensors(path)["a"].tolist() == [0, 0]
    write(path, head, **options)
    with pytest.raises(SerializationError, match=r"^\[load_safetensors\] file '.*': .* — "
                                                 "the file must be a complete safetensors file"):
        load_safetensors(path)


def test_truncated_files(tmp_path):
    path = tmp_path / "a.safetensors"
    save_safetensors({"a": torch.arange(3)}, path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(SerializationError):
            load_safetensors(path)


def test_what_the_format_cannot_hold(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    with pytest.raises(ArgumentTypeError, match=r"\[save_safetensors\] a int as 'a' — the file holds tensors by name"):
        save_safetensors({"a": 1}, path)
    with pytest.raises(ArgumentTypeError, match="a Tensor as 3 — "):
        save_safetensors({3: torch.ones(1)}, path)
    # complex128 is not in the format, but no backend here has it.
    monkeypatch.delitem(sys.modules[save_safetensors.__module__]._NAMES, "float64")
    with pytest.raises(UnsupportedDtype, match=r"\[save_safetensors\] 'c' of dtype float64 — "
                                               "safetensors has no such dtype"):
        save_safetensors({"c": torch.zeros(1, dtype=torch.float64)}, path)
    assert not path.exists()
