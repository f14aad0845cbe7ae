"""Programs that PyTorch 2.13 exported and saved: they load, and compute what PyTorch did, buffers included.

``pytorch/make_programs.py`` wrote the files, and the results of calls beside them.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tensocket as torch
from tensocket.export import load

ARCHIVE = zipfile.ZipFile(Path(__file__).with_name("pytorch") / "programs.zip")
NAMES = sorted(name.removesuffix(".pt2") for name in ARCHIVE.namelist() if name.endswith(".pt2"))


def loaded(name):
    """A program, its extra files, and the calls that PyTorch made."""
    extra = {}
    program = load(io.BytesIO(ARCHIVE.read(f"{name}.pt2")), extra_files=extra)
    return program, extra, json.loads(ARCHIVE.read(f"{name}.json"))["calls"]


def value_of(text):
    """The value that ``make_programs.described`` wrote."""
    if isinstance(text, list):
        return [value_of(x) for x in text]
    if not isinstance(text, dict):
        return text
    if "dict" in text:
        return {key: value_of(x) for key, x in text["dict"].items()}
    return torch.tensor(text["data"], dtype=getattr(torch, text["dtype"])).reshape(text["shape"])


def compare(mine, expected):
    """Compare a result with PyTorch's: dtypes, shapes, elements, containers."""
    if isinstance(expected, dict) and "dtype" in expected:
        assert str(mine.dtype).rpartition(".")[2] == expected["dtype"]
        assert list(mine.shape) == expected["shape"]
        np.testing.assert_allclose(mine.detach().to(torch.float64).numpy().reshape(-1),
                                   np.array(expected["data"], np.float64), rtol=2e-5, atol=2e-6)
    elif isinstance(expected, dict):
        assert list(mine) == list(expected["dict"])
        for key, value in expected["dict"].items():
            compare(mine[key], value)
    elif isinstance(expected, list):
        assert isinstance(mine, (list, tuple))
        assert len(mine) == len(expected)
        for one, other in zip(mine, expected, strict=True):
            compare(one, other)
    else:
        assert mine == expected or (math.isnan(mine) and math.isnan(expected))


@pytest.mark.parametrize("name", NAMES)
def test_results_and_buffers(name):
    program, _, calls = loaded(name)
    run = program.module()
    assert len(calls) > 1 or name == "scalars"
    for call in calls:
        compare(run(*value_of(call["args"]), **value_of(call["kwargs"])), call["result"])
        compare(dict(run.named_buffers()), call["state"])


@pytest.mark.parametrize("name", NAMES)
def test_loaded_programs_are_saved_again(name):
    program, _, calls = loaded(name)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    run = load(stream).module()
    for call in calls:
        compare(run(*value_of(call["args"]), **value_of(call["kwargs"])), call["result"])


def test_extra_files_and_examples():
    program, extra, calls = loaded("mlp")
    assert extra == {"note.txt": "mlp"}
    args, kwargs = program.example_inputs
    compare(args, calls[0]["args"])
    assert kwargs == {}
    assert str(program.range_constraints).endswith(": VR[1, 64]}")


def test_training_gives_gradients():
    program, _, calls = loaded("training")
    run = program.module()
    run(*value_of(calls[0]["args"])).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in run.parameters())
    assert len(list(run.parameters())) == 4


def test_inputs_are_checked():
    run = loaded("sizes")[0].module()
    with pytest.raises(torch.export.GuardError, match=r"Guard failed: y\.size\(\)\[0\] == 2\*x\.size\(\)\[0\]"):
        run(torch.ones(4, 3), torch.ones(4, 3))
    with pytest.raises(torch.export.GuardError, match=r"Guard failed: x\.size\(\)\[1\] == 4"):
        loaded("mlp")[0].module()(torch.ones(2, 5))
    with pytest.raises(torch.export.GuardError, match="Guard failed: n == 2"):
        loaded("scalars")[0].module()(torch.ones(4, 3), 3, 1.5, True, "a", None)
