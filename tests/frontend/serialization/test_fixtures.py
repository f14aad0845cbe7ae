"""Checkpoints that PyTorch 2.13 wrote (``make_fixtures.py``), read here."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn

FOLDER = Path(__file__).with_name("fixtures")


@pytest.fixture(params=[False, True], ids=["read", "mapped"])
def read(request):
    return lambda name, **options: torch.load(FOLDER / name, mmap=request.param, **options)


def test_dtypes(read):
    found = read("dtypes.pt")
    assert len(found) == 17
    for name, tensor in found.items():
        assert tensor.dtype is getattr(torch, name)
        assert tensor.to(torch.complex128).tolist() == ([0, 1, 1] if name == "bool" else [0, 1, 3])


def test_geometry_and_sharing(read):
    found = read("tensors.pt")
    assert found["row"].tolist() == [4, 5, 6, 7]
    assert found["column"].stride() == (4,)
    assert found["turned"].stride() == (1, 4)
    assert found["turned"].storage_offset() == 0
    found["base"][1, 2] = 99
    assert found["row"][2] == found["column"][1] == found["turned"][2, 1] == 99
    assert found["expanded"].stride() == (0,)
    assert found["scalar"].shape == ()
    assert found["scalar"].item() == 7
    assert found["empty"].shape == (0, 3)
    assert str(found["bits"].tolist()) == "[1.0, -0.0]"


def test_place_in_autograd(read):
    found = read("tensors.pt")
    assert found["leaf"].requires_grad
    assert type(found["parameter"]) is nn.Parameter
    assert found["parameter"].requires_grad
    assert found["parameter"].tolist() == [1, 2]
    assert not found["frozen"].requires_grad
    assert type(found["buffer"]) is torch.Tensor
    assert isinstance(found["buffer"], nn.Buffer)
    assert not found["buffer"].persistent
    assert found["tagged"].note == "kept"


def test_values_that_stand_for_others(read):
    found = read("tensors.pt")
    assert found["conjugated"].tolist() == [1 - 2j]
    assert found["imaginary"].tolist() == [-2]


def test_other_layouts_and_no_memory(read):
    found = read("tensors.pt")
    assert found["coo"].to_dense().tolist() == [[0, 1, 0], [2, 0, 0]]
    assert found["csr"].layout is torch.sparse_csr
    assert found["csr"].to_dense().tolist() == [[1, 0], [0, 1]]
    assert (found["meta"].device.type, tuple(found["meta"].shape)) == ("meta", (2, 3))


def test_nested_values(read):
    found = read("nested.pt")
    assert found["numbers"] == [1, -1, 255, 65535, 2**31, -(2**63), 2**100, 1.5, float("inf"), True, None]
    assert (found["text"], found["bytes"], found["array"], found["set"]) == ("ä\n", b"a\xff", bytearray(b"x"), {1, 2})
    assert found["complex"] == 1 - 2j
    assert type(found["ordered"]) is OrderedDict
    assert list(found["ordered"].items()) == [("b", 1), ("a", (2, (3,), [[]]))]
    assert found["counter"] == Counter("aab")
    assert found["types"] == [torch.float32, torch.bfloat16, torch.device("cpu"), torch.device("cuda", 1),
                              torch.Size([1, 2]), torch.strided]
    assert found["keys"] == {1: "one", (1, "a"): 2, None: 3, torch.float16: 4}


def test_models_and_optimizers(read):
    found = read("training.pt")
    model = nn.Sequential(nn.Linear(2, 2))
    model.load_state_dict({name: value for name, value in found["model"].items() if name.startswith("0.")})
    assert model[0].weight.tolist() == [[1, 2], [3, 4]]
    assert found["model"]._metadata[""] == {"version": 1}
    assert found["model"]["1.num_batches_tracked"].item() == 1
    # The first step of AdamW moves by the learning rate, and its mean of gradients is a tenth of them.
    optimizer = torch.optim.AdamW(model.parameters())
    state = found["optimizer"]
    state["param_groups"][0]["params"] = [0, 1]
    optimizer.load_state_dict({"state": {k: state["state"][k] for k in (0, 1)}, "param_groups": state["param_groups"]})
    assert optimizer.param_groups[0]["lr"] == 0.5
    np.testing.assert_allclose(optimizer.state[model[0].weight]["exp_avg"].numpy(), np.full((2, 2), 0.1), rtol=1e-6)
    assert found["epoch"] == 3


def test_whole_modules_need_trust(read):
    with pytest.raises(torch.errors.UnsafeGlobalError, match=r"names torch\.nn\.modules\.container\.Sequential"):
        read("module.pt")
    model = read("module.pt", weights_only=False)
    assert type(model) is nn.Sequential
    assert model(torch.tensor([[1.0, 1.0], [-9.0, 0.0]])).tolist() == [[6], [0]]
    classes = [nn.Sequential, nn.Linear, nn.ReLU]
    with torch.serialization.safe_globals([*classes, (set, "builtins.set")]):
        allowed = read("module.pt")
    assert allowed(torch.tensor([[1.0, 1.0]])).tolist() == [[6]]
    assert torch.serialization.get_safe_globals() == []


def test_the_format_before_archives():
    for options in ({}, {"weights_only": False}):
        found = torch.load(FOLDER / "legacy.pt", **options)
        assert found["a"].tolist() == [1, 2, 3]
        found["b"][2] = 9
        assert found["a"][1] == 9
        assert found["c"][0].tolist() == [True, False]
    rule = "mmap can only be used with files saved with _use_new_zipfile_serialization=True"
    with pytest.raises(torch.errors.SerializationError, match=rule):
        torch.load(FOLDER / "legacy.pt", mmap=True)


def test_a_newer_pickle_protocol(read):
    found = read("protocol4.pt")
    assert found["a"].tolist() == [1, 1]
    assert found["b"] == (1, "x", {2}, frozenset([3]), b"y", 2**70)


def test_numbers_of_numpy_are_allowed_one_by_one(read):
    with pytest.raises(torch.errors.UnsafeGlobalError, match=r"names numpy\._core\.multiarray\.scalar"):
        read("numpy.pt")
    allowed = [np._core.multiarray.scalar, np.dtype, type(np.dtype("float64"))]
    with torch.serialization.safe_globals(allowed):
        assert read("numpy.pt")["scalar"] == 1.5


def test_files_without_check_sums(read):
    assert read("unchecked.pt")[0].tolist() == [1, 1]


@pytest.mark.parametrize(("name", "unsafe"), [
    ("module.pt", ["torch.nn.modules.activation.ReLU", "torch.nn.modules.container.Sequential",
                   "torch.nn.modules.linear.Linear"]),
    ("numpy.pt", ["numpy._core.multiarray.scalar", "numpy.dtype"]), ("nested.pt", []), ("tensors.pt", []),
    ("protocol4.pt", [])])
def test_unsafe_names_are_listed(name, unsafe):
    assert torch.serialization.get_unsafe_globals_in_checkpoint(FOLDER / name) == unsafe
    stream = io.BytesIO((FOLDER / name).read_bytes())
    assert torch.serialization.get_unsafe_globals_in_checkpoint(stream) == unsafe


@pytest.mark.parametrize("name", ["dtypes.pt", "tensors.pt", "nested.pt", "training.pt"])
def test_what_was_read_is_written_with_the_same_bits(name):
    first = torch.load(FOLDER / name)
    stream = io.BytesIO()
    torch.save(first, stream)
    stream.seek(0)
    second = torch.load(stream)
    assert repr(second) == repr(first)
    assert list(second) == list(first)
