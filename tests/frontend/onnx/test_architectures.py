"""Standard architectures in ONNX: results of onnxruntime, with another batch, and those of the imported model."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import tensocket as torch
from tensocket.export import Dim

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

FOLDER = Path(__file__).parents[2] / "architectures"
MODULES = {"torch": "tensocket", **{f"torch.{name}": f"tensocket.{name}" for name in (
    "nn", "nn.functional", "nn.parameter", "nn.utils", "nn.utils.rnn")}}
#: Programs that have no graph.
REFUSED = ("seq2seq", "gcn")
NAMES = sorted(path.stem for path in FOLDER.glob("*.py")
               if path.stem not in ("program", "make_expected", "test_architectures", "resnet", *REFUSED))


@pytest.fixture
def program(monkeypatch):
    """The module ``program``, for which ``import torch`` gives this library."""
    for name, ours in MODULES.items():
        monkeypatch.setitem(sys.modules, name, importlib.import_module(ours))
    monkeypatch.syspath_prepend(str(FOLDER))
    names = [path.stem for path in FOLDER.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("program")
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_architectures(program, name, tmp_path):
    model, inputs = program.make(name)
    program.fill(model)
    model.eval()
    batch = inputs[0].shape[0]
    dim = Dim("batch", max=64)
    dynamic = [x.dim() > 0 and x.shape[0] == batch for x in inputs]
    path = tmp_path / "model.onnx"
    made = torch.onnx.export(model, tuple(inputs), path,
                             dynamic_shapes=tuple([{0: dim} if x else None for x in dynamic]))
    onnx.checker.check_model(str(path), full_check=True)
    rows = torch.arange(batch + 3) % batch
    others = [x[rows] if grows else x for x, grows in zip(inputs, dynamic, strict=True)]
    imported = torch.onnx.load_graph_module(path)
    for given in (inputs, others):
        with torch.no_grad():
            expected = program.results(model(*given))
            again = program.results(imported(*given))
        for mine, back, wanted in zip(made(*given), again, expected, strict=True):
            assert mine.dtype is back.dtype is wanted.dtype
            torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(back, wanted, rtol=1e-4, atol=1e-4)
