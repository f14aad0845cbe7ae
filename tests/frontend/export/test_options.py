"""Options of export, further examples of inputs, moves between devices, and the command line."""

from __future__ import annotations

import re

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.cli import main
from tensocket.errors import ArgumentCombinationError, ExportError
from tensocket.export import AdditionalInputs, Dim, draft_export, export, save
from tensocket.export.passes import move_to_device_pass


class Pair(nn.Module):
    def forward(self, x, y, *, n=1):
        return x["a"] + y[0] * n


def pair(size):
    return {"a": torch.ones(size, 2)}, [torch.ones(size, 2)]


@pytest.mark.parametrize(("option", "message"), [
    ({"strict": True}, "modules run as Python, under a recorder, and no compiler of bytecode checks them"),
    ({"prefer_deferred_runtime_asserts_over_guards": True}, "comparisons of inputs' sizes are checks of the inputs"),
])
def test_options_without_an_effect_are_refused(option, message):
    with pytest.raises(ExportError, match=message):
        export(nn.Linear(2, 2), (torch.ones(1, 2),), **option)


def test_draft_export():
    with pytest.raises(ExportError, match="a program is right for all inputs in its ranges, or refused with the place"):
        draft_export(nn.Linear(2, 2), (torch.ones(1, 2),))


def test_additional_inputs():
    more = AdditionalInputs()
    more.add(pair(3), {"n": 2})
    more.add(pair(5), {"n": 2})
    shapes = more.dynamic_shapes(Pair(), pair(4), {"n": 2})
    assert shapes == {"x": {"a": (Dim.DYNAMIC, None)}, "y": [(Dim.DYNAMIC, None)], "n": None}
    program = export(Pair(), pair(4), {"n": 2}, dynamic_shapes=more)
    assert program.module()(*pair(9), n=2).shape == (9, 2)
    more.verify(program)
    with pytest.raises(torch.export.GuardError):
        program.module()(*pair(9), n=3)


@pytest.mark.parametrize(("args", "kwargs", "message"), [
    (({"a": torch.ones(3, 2)}, [torch.ones(3, 2)] * 2), {"n": 2}, "all examples have the structure of the arguments"),
    (pair(3), {"n": 3},
     "The following inputs were found to have differing values, but they cannot be marked as dynamic"),
    (pair(3), {"n": 2.0},
     "The following inputs were found to have differing types, so they cannot be marked as dynamic"),
    (({"a": torch.ones(2)}, [torch.ones(3, 2)]), {"n": 2}, "the number of dimensions is fixed"),
])
def test_additional_inputs_that_do_not_fit(args, kwargs, message):
    more = AdditionalInputs()
    more.add(args, kwargs)
    with pytest.raises(ExportError, match=message):
        export(Pair(), pair(4), {"n": 2}, dynamic_shapes=more)


def test_additional_inputs_are_tuples():
    with pytest.raises(ArgumentCombinationError, match="Representative args must be a tuple, and representative kwargs "
                                                       "must be None or a dict"):
        AdditionalInputs().add([torch.ones(1)])


@pytest.mark.parametrize("place", ["ref", {"cpu": "ref"}])
def test_moves_between_devices(place):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l, self.w = nn.Linear(2, 2), torch.ones(2)
            self.register_buffer("k", torch.ones(2))

        def forward(self, x):
            return self.l(x) + self.w + self.k + torch.arange(2, device=x.device).to("cpu").to(x.dtype)

    net = Net()
    program = export(net, (torch.ones(1, 2),))
    x = torch.randn(3, 2)[:1]
    expected = net(x)
    assert move_to_device_pass(program, place) is program
    assert {v.device.type for v in [*program.state_dict.values(), *program.constants.values()]} == {"ref"}
    assert {p.requires_grad for p in program.parameters()} == {True}
    assert program.example_inputs[0][0].device.type == "ref"
    result = program.module()(x.to("ref"))
    assert result.device.type == "ref"
    assert torch.allclose(result.cpu(), expected, atol=1e-6)


def test_random_numbers_outside_of_operators():
    class Fill(nn.Module):
        def forward(self, x):
            return x.clone().uniform_()

    with pytest.raises(ExportError, match="they are drawn outside of operators, so that the graph would have "
                                          "constants"):
        export(Fill(), (torch.ones(2),))


def test_generators():
    class Draw(nn.Module):
        def forward(self, x):
            return x + torch.rand(2, generator=torch.Generator())

    with pytest.raises(ExportError, match=r"\[export\] rand with a generator at .+ — a graph of an exported program "
                                          "has no generators: its calls draw from the default one — leave"):
        export(Draw(), (torch.ones(2),))


def test_the_command_shows_programs(tmp_path, capsys):
    path = tmp_path / "model.pt2"
    save(export(nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_shapes=({0: Dim("batch", max=8)},)), path,
         extra_files={"note.txt": "text"})
    assert main(["export", str(path)]) == 0
    text = capsys.readouterr().out
    assert "program model (TRAINING)" in text
    assert "p_weight: PARAMETER target='weight'  float32[2, 3]" in text
    assert re.search(r"input: USER_INPUT  float32\[s\d+, 3\]", text)
    assert "weights  2 tensors, 32 bytes" in text
    assert "torch.ops.aten.linear.default" in text
    assert "extra file note.txt" in text
    assert main(["export", str(path), "--no-graph"]) == 0
    assert "torch.ops" not in capsys.readouterr().out
    path.write_bytes(b"no program")
    assert main(["export", str(path)]) == 1
    assert "the file must be what torch.export.save wrote, complete and unchanged" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "gone.pt2")]) == 1
