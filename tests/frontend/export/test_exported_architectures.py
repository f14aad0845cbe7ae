"""Standard architectures as exported programs: with other batch sizes, results, gradients and buffers are theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensocket as torch
from tensocket.errors import ExportError
from tensocket.export import Dim, export, unflatten

FOLDER = Path(__file__).parents[2] / "architectures"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py")
               if path.stem not in ("program", "make_expected", "test_architectures", "resnet"))
#: Programs without a graph, and why.
REFUSED = {"seq2seq": "a read of elements of a tensor at .*seq2seq.py"}
#: Programs of a graph of fixed size.
FIXED = frozenset({"gcn"})


def exported(program, name, *, training):
    """A model, its program with a dynamic batch, and inputs with a larger batch."""
    model, inputs = program.make(name)
    program.fill(model)
    model.train(training)
    batch = inputs[0].shape[0]
    dim = Dim("batch", max=64)
    dynamic = [name not in FIXED and x.dim() > 0 and x.shape[0] == batch for x in inputs]
    made = export(model, tuple(inputs), dynamic_shapes=tuple([{0: dim} if x else None for x in dynamic]))
    rows = torch.arange(batch + 3) % batch
    return model, made, [x[rows] if grows else x for x, grows in zip(inputs, dynamic, strict=True)]


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(REFUSED)))
def test_evaluation_with_another_batch(program, name):
    model, made, inputs = exported(program, name, training=False)
    run = made.module()
    for mine, expected in zip(program.results(run(*inputs)), program.results(model(*inputs)), strict=True):
        assert mine.shape == expected.shape
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("name", ["alexnet", "bert", "gcn", "gpt", "lstm", "mobilenet", "transformer", "unet", "vae"])
def test_a_training_step_with_another_batch(program, name):
    model, made, inputs = exported(program, name, training=True)
    run = made.module()
    state = {key: x.clone() for key, x in model.state_dict().items()}
    found = []
    for function in (model, run):
        model.load_state_dict(state)
        model.zero_grad()
        torch.manual_seed(0)
        outputs = program.results(function(*inputs))
        sum((x * torch.cos(torch.arange(x.numel(), dtype=x.dtype)).reshape(x.shape)).sum() for x in outputs).backward()
        found.append({**{f"{key}.grad": p.grad for key, p in model.named_parameters() if p.grad is not None},
                      **{key: x.clone() for key, x in model.state_dict().items()}})
    expected, mine = found
    assert mine.keys() == expected.keys()
    assert len(mine) > len(state)
    # Sums over rows have another order once an operator is planned, which may happen between the two steps.
    scales = {key: float(x.abs().max()) for key, x in expected.items()}
    assert [key for key, x in mine.items() if not torch.allclose(x, expected[key], 1e-5, 1e-5 * scales[key])] == []


@pytest.mark.parametrize("name", ["alexnet", "gcn", "gpt", "lstm", "transformer", "unet", "vae"])
def test_submodules_and_decompositions_with_another_batch(program, name):
    model, made, inputs = exported(program, name, training=False)
    expected = program.results(model(*inputs))
    for mine, theirs in zip(program.results(unflatten(made)(*inputs)), expected, strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(program.results(made.run_decompositions().module()(*inputs)), expected, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_programs_without_a_graph(program, name):
    with pytest.raises(ExportError, match=REFUSED[name]):
        exported(program, name, training=False)
