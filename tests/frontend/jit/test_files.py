"""Files of PyTorch 2.13, and files that are damaged or hostile."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.errors import SerializationError

PYTORCH = Path(__file__).parent / "files" / "pytorch.zip"
NAMES = ["attend_traced", "branches", "cnn", "cnn_frozen", "dicts", "exported", "mlp", "mlp_traced", "objects", "pools",
         "tagger", "tuples"]


def pytorch_file(name):
    with zipfile.ZipFile(PYTORCH) as file:
        return io.BytesIO(file.read(name))


def assert_close(found, wanted):
    if isinstance(wanted, Tensor):
        assert found.dtype == wanted.dtype
        assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-6)
        return
    assert len(found) == len(wanted)
    for key in wanted if isinstance(wanted, dict) else range(len(wanted)):
        assert_close(found[key], wanted[key])


@pytest.mark.parametrize("name", NAMES)
def test_files_of_pytorch_agree(name, tmp_path):
    module = torch.jit.load(pytorch_file(f"{name}.ts"))
    calls = torch.load(pytorch_file(f"{name}.pt"))
    assert calls
    for args, wanted in calls:
        assert_close(module(*args), wanted)
    module = torch.jit.load(pytorch_file(f"{name}.ts"))
    module.save(tmp_path / "own.pt")
    again = torch.jit.load(tmp_path / "own.pt")
    for args, wanted in calls:
        assert_close(again(*args), wanted)


def test_methods_and_parameters_of_a_file_of_pytorch():
    module = torch.jit.load(pytorch_file("exported.ts"))
    assert module.scale(torch.ones(2)).tolist() == [2.5, 2.5]
    assert [name for name, _ in module.named_parameters()] == [
        "parts.0.weight", "parts.0.bias", "parts.2.weight", "parts.2.bias"]
    with pytest.raises(torch.jit.Error, match="too many dimensions"):
        torch.jit.load(pytorch_file("objects.ts"))(torch.ones(1, 1, 1, 1))


@pytest.fixture
def content():
    made = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 3)), made)
    return made.getvalue()


def changed(content, name, new):
    """Return a file with another part, or without it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(made, "w") as after:
        for each in before.namelist():
            if each != name:
                after.writestr(each, before.read(each))
        if new is not None:
            after.writestr(name, new)
    return io.BytesIO(made.getvalue())


RULE = "a file of torch.jit.save is a zip of code and weights"


@pytest.mark.parametrize("size", [0, 10, 200, -40])
def test_truncated_files(content, size):
    with pytest.raises(SerializationError, match=RULE):
        torch.jit.load(io.BytesIO(content[:size]))


@pytest.mark.parametrize(("name", "new"), [
    ("archive/data.json", "{"), ("archive/data.json", None), ("archive/data.json", '{"module": "__torch__.Nothing"}'),
    ("archive/memory/0", b"123"), ("archive/version", "tensocket script 99"), ("archive/tensors.json", "[]"),
    ("archive/data.json", '{"module": "__torch__.torch.nn.modules.linear.Linear", "layer": "torch.hub.load"}'),
    ("archive/data.json", '{"function": "os.system"}'),
])
def test_damaged_files(content, name, new):
    with pytest.raises(SerializationError, match=RULE):
        torch.jit.load(changed(content, name, new))


def test_tensors_do_not_reach_beyond_their_memory(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        table = json.loads(file.read("archive/tensors.json"))
    for key, value in (("offset", 1000), ("shape", [1000, 1000]), ("offset", -1), ("dtype", "load")):
        wrong = [{**table[0], key: value}, *table[1:]]
        with pytest.raises(SerializationError, match=RULE):
            torch.jit.load(changed(content, "archive/tensors.json", json.dumps(wrong)))


def test_zip_bombs():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for k in range(6):
            file.writestr(f"archive/code/{k}.py", b"\0" * (60 << 20))
    with pytest.raises(SerializationError, match=RULE):
        torch.jit.load(io.BytesIO(made.getvalue()))


class Evil:
    def __reduce__(self):
        return (eval, ("1/0",))


def test_pickles_of_files_call_nothing():
    with zipfile.ZipFile(pytorch_file("branches.ts")) as file:
        root = file.namelist()[0].partition("/")[0]
    hostile = changed(pytorch_file("branches.ts").getvalue(), f"{root}/data.pkl", pickle.dumps(Evil(), 2))
    with pytest.raises(SerializationError, match=RULE):
        torch.jit.load(hostile)


@pytest.mark.parametrize("call", ["torch.load(\"x\")", "torch.hub.load(\"x\")", "torch.from_file(\"x\")",
                                  "ops.aten.system(x)", "torch.no_such_operator(x)", "ops.prim.no_such_operator(x)"])
def test_code_of_files_calls_operators_only(call):
    with zipfile.ZipFile(pytorch_file("tuples.ts")) as file:
        name = next(each for each in file.namelist() if each.endswith("code/__torch__.py"))
    text = ("class Tuples(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
            f"  _is_full_backward_hook : Optional[bool]\n  def forward(self: __torch__.Tuples, x: Tensor) -> Tensor:\n"
            f"    return {call}\n")
    with pytest.raises(RuntimeError, match="Unknown builtin op"):
        torch.jit.load(changed(pytorch_file("tuples.ts").getvalue(), name, text))


def test_map_location_moves_tensors(content):
    seen = []

    def place(tensor, location):
        seen.append(location)
        return tensor

    assert torch.jit.load(io.BytesIO(content), map_location=place)(torch.ones(1, 2)).shape == (1, 3)
    assert seen == ["cpu", "cpu"]


def test_missing_files(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(tmp_path / "nothing.pt")
