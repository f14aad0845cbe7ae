"""Standard architectures, written as programs for PyTorch: their states, results and gradients are PyTorch's."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

import tensocket as torch

FOLDER = Path(__file__).parent
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


def test_the_list_is_complete(program):
    assert sorted(EXPECTED) == program.NAMES
    assert len(program.NAMES) >= 20


def summary(tensor):
    flat = tensor.numpy().astype(np.float64).reshape(-1)
    return [np.linalg.norm(flat), flat @ np.cos(np.arange(flat.size))]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_results(program, name):
    """In evaluation and float32."""
    model, inputs = program.make(name)
    program.fill(model)
    outputs, _ = program.step(model, inputs, training=False)
    assert [list(x.shape) for x in outputs] == EXPECTED[name]["shapes"]
    for mine, theirs in zip(outputs, EXPECTED[name]["eval"], strict=True):
        np.testing.assert_allclose(summary(mine), theirs, rtol=1e-4, atol=1e-4 * theirs[0])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_gradients(program, name):
    """In training and float64: some of these models amplify errors of rounding."""
    model, inputs = program.make(name)
    program.fill(model)
    assert sum(p.numel() for p in model.parameters()) == EXPECTED[name]["parameters"]
    model.double()
    inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    outputs, gradients = program.step(model, inputs, training=True)
    for mine, theirs in zip(outputs, EXPECTED[name]["train"], strict=True):
        np.testing.assert_allclose(summary(mine), theirs, rtol=1e-7, atol=1e-7 * theirs[0])
    largest = max(norm for norm, _ in EXPECTED[name]["gradients"])
    for (key, value), theirs in zip(gradients.items(), EXPECTED[name]["gradients"], strict=True):
        np.testing.assert_allclose(summary(value), theirs, rtol=1e-6, atol=1e-6 * theirs[0] + 1e-9 * largest,
                                   err_msg=key)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_states(program, name):
    """Keys, shapes and dtypes are PyTorch's; files keep every bit; a new model takes the state."""
    model, _ = program.make(name)
    state = model.state_dict()
    text = "\n".join(f"{key} {list(value.shape)} {str(value.dtype).split('.')[1]}" for key, value in state.items())
    assert hashlib.sha256(text.encode()).hexdigest() == EXPECTED[name]["digest"], text
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    found = torch.load(stream)
    other, _ = program.make(name)
    assert str(other.load_state_dict(found)) == "<All keys matched successfully>"
    for key, value in other.state_dict().items():
        assert value.numpy().tobytes() == state[key].numpy().tobytes()
    assert found._metadata == state._metadata
