"""Exported programs compute what their modules do, for all sizes in the ranges; gradients and written buffers, too."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.export import Dim, ShapesCollection, dims, export, register_dataclass
from tensocket.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument


class Sample(nn.Module):
    """A program with parameters, buffers that it writes, a constant, and a size among its results."""

    def __init__(self):
        super().__init__()
        self.c, self.b, self.l = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8 * 36, 10)
        self.register_buffer("k", torch.ones(10))
        self.w = torch.randn(10)

    def forward(self, x, *, scale=2.0):
        y = self.b(self.c(x)).relu()
        y = y.view(x.shape[0], -1)
        self.k.add_(1)
        return {"a": self.l(y) * scale + self.k + self.w, "n": x.shape[0]}


@pytest.fixture
def sample():
    model = Sample().eval()
    program = export(model, (torch.randn(2, 3, 8, 8),), {"scale": 3.0},
                     dynamic_shapes={"x": {0: Dim("batch", min=2, max=64)}, "scale": None})
    return model, program


def module(function):
    """A module around a function of one or two tensors."""
    class One(nn.Module):
        def forward(self, x):
            return function(x)

    class Two(nn.Module):
        def forward(self, x, y):
            return function(x, y)

    return One() if function.__code__.co_argcount == 1 else Two()


def test_names_order_and_signature_are_those_of_pytorch(sample):
    _, program = sample
    names = [node.name for node in program.graph.nodes]
    assert names == [
        "p_c_weight", "p_c_bias", "p_b_weight", "p_b_bias", "p_l_weight", "p_l_bias", "b_k", "b_b_running_mean",
        "b_b_running_var", "b_b_num_batches_tracked", "c_w", "x", "scale", "conv2d", "batch_norm", "relu",
        "sym_size_int_1", "view", "add_", "linear", "mul", "add", "add_1", "output"]
    signature = program.graph_signature
    assert str(signature) == """
# inputs
p_c_weight: PARAMETER target='c.weight'
p_c_bias: PARAMETER target='c.bias'
p_b_weight: PARAMETER target='b.weight'
p_b_bias: PARAMETER target='b.bias'
p_l_weight: PARAMETER target='l.weight'
p_l_bias: PARAMETER target='l.bias'
b_k: BUFFER target='k' persistent=True
b_b_running_mean: BUFFER target='b.running_mean' persistent=True
b_b_running_var: BUFFER target='b.running_var' persistent=True
b_b_num_batches_tracked: BUFFER target='b.num_batches_tracked' persistent=True
c_w: CONSTANT_TENSOR target='w'
x: USER_INPUT
scale: USER_INPUT

# outputs
add_1: USER_OUTPUT
sym_size_int_1: USER_OUTPUT
"""
    assert signature.user_inputs == ("x", 3.0)
    assert signature.user_outputs == ("add_1", "sym_size_int_1")
    assert signature.inputs_to_parameters["p_c_weight"] == "c.weight"
    assert signature.inputs_to_buffers["b_k"] == "k"
    assert signature.inputs_to_lifted_tensor_constants == {"c_w": "w"}
    assert signature.buffers_to_mutate == {}
    assert signature.input_specs[0].kind is InputKind.PARAMETER
    assert signature.input_specs[-1].arg == ConstantArgument("scale", 3.0)
    assert signature.output_specs[0].kind is OutputKind.USER_OUTPUT
    assert signature.output_specs[0].arg == TensorArgument("add_1")
    assert str(program.range_constraints) == "{s77: VR[2, 64]}"
    assert list(program.constants) == ["w"]
    assert list(program.state_dict) == list(signature.parameters) + list(signature.buffers)
    assert [name for name, _ in program.named_parameters()] == list(signature.parameters)
    assert len(list(program.parameters())) == 6
    assert len(list(program.buffers())) == 4


def test_targets_are_operators(sample):
    _, program = sample
    nodes = {node.name: node for node in program.graph.nodes}
    assert nodes["conv2d"].target is torch.ops.aten.conv2d.default
    assert nodes["add_"].target is torch.ops.aten.add_.Tensor
    assert nodes["sym_size_int_1"].target is torch.ops.aten.sym_size.int
    assert nodes["view"].args == (nodes["relu"], [nodes["sym_size_int_1"], -1])
    assert str(nodes["conv2d"].meta["val"]) == "FakeTensor(..., size=(s77, 8, 6, 6), requires_grad=True)"
    assert nodes["conv2d"].meta["val"].shape == (2, 8, 6, 6)
    assert "y = self.b(self.c(x)).relu()" in nodes["relu"].meta["stack_trace"]


def test_the_text_shows_graph_signature_and_ranges(sample):
    _, program = sample
    text = str(program)
    assert text.startswith("ExportedProgram:\n    class GraphModule(torch.nn.Module):\n")
    assert "conv2d = torch.ops.aten.conv2d.default(x, p_c_weight, p_c_bias" in text
    assert "# f32[s77, 8, 6, 6]" in text
    assert "Range constraints: {s77: VR[2, 64]}" in text
    code = program.module().code
    assert "c_weight = self.c.weight" in code
    assert "_guards_fn = self._guards_fn(x, scale)" in code


@pytest.mark.parametrize("batch", [2, 5, 64])
def test_results_for_other_batches(sample, batch):
    model, program = sample
    x = torch.randn(batch, 3, 8, 8)
    mine = program.module()(x, scale=3.0)
    model.k.sub_(1)
    expected = model(x, scale=3.0)
    assert torch.equal(mine["a"], expected["a"])
    assert mine["n"] == batch


def test_the_capture_leaves_no_trace():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.calls, self.seen = nn.BatchNorm1d(3), 0, []

        def forward(self, x):
            self.calls += 1
            self.seen.append(1)
            return self.norm(x) + torch.rand(3)

    model = Counting()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    x = torch.randn(4, 3)
    versions = [x._version, model.norm.running_mean._version]
    torch.manual_seed(3)
    export(model, (x,), dynamic_shapes={"x": {0: Dim("b", min=2)}})
    drawn = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(3))
    assert (model.calls, model.seen) == (0, [])
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert [x._version, model.norm.running_mean._version] == versions


def test_training_updates_buffers_and_gives_gradients():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    other = copy.deepcopy(model)
    program = export(model, (torch.randn(4, 3),), dynamic_shapes=({0: Dim("b", min=2)},))
    run, x = program.module(), torch.randn(7, 3)
    run(x).sum().backward()
    other(x).sum().backward()
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(mine.grad.numpy(), theirs.grad.numpy(), err_msg=name)
    for mine, theirs in zip(model.buffers(), other.buffers(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    assert dict(run.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert run.get_parameter("0.weight") is model[0].weight


def test_no_grad_blocks_are_in_the_graph():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            with torch.no_grad():
                y = self.one(x)
            return self.two(y)

    model = Frozen()
    run = export(model, (torch.randn(3, 2),)).module()
    run(torch.randn(3, 2)).sum().backward()
    assert model.one.weight.grad is None
    assert model.two.weight.grad is not None
    assert torch.is_grad_enabled()


def test_assigned_buffers_are_written():
    class Assigning(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2))

        def forward(self, x):
            self.k = self.k + x
            return self.k * 2

    model = Assigning()
    program = export(model, (torch.ones(2),))
    assert model.k.tolist() == [0, 0]
    run = program.module()
    assert run(torch.ones(2)).tolist() == [2, 2]
    assert run(torch.ones(2)).tolist() == [4, 4]
    assert "copy__default" in [node.name for node in program.graph.nodes]


def test_containers_of_arguments_and_results():
    @dataclasses.dataclass
    class Pair:
        left: object
        right: object = None

    register_dataclass(Pair)

    class Nested(nn.Module):
        def forward(self, x, y, *, z):
            return Pair([x + 1, {"k": (y["a"][0] * z, None, 5, "text")}])

    program = export(Nested(), (torch.ones(2), {"a": [torch.ones(3)]}), {"z": torch.full((3,), 2.0)})
    assert program.graph_signature.user_inputs == ("x", "y_a_0", "z")
    result = program.module()(torch.zeros(2), {"a": [torch.arange(3.0)]}, z=torch.ones(3))
    assert type(result) is Pair
    assert result.right is None
    assert result.left[0].tolist() == [1, 1]
    assert result.left[1]["k"][0].tolist() == [0, 1, 2]
    assert result.left[1]["k"][1:] == (None, 5, "text")


def test_arguments_keep_their_names():
    class Odd(nn.Module):
        def forward(self, input, *more, **named):
            return input * more[0] + named["q"]

    one = torch.ones(2)
    program = export(Odd(), (one, one * 3), {"q": one})
    assert program.graph_signature.user_inputs == ("input", "more_0", "q")
    assert program.module()(one, one * 2, q=one).tolist() == [3, 3]


def test_literals_are_new_in_each_call():
    def add_up(x):
        total = torch.tensor([1.0, 2.0])
        total += x
        return total

    program = export(module(add_up), (torch.zeros(2),))
    assert list(program.constants) == ["lifted_tensor_0"]
    run = program.module()
    assert run(torch.ones(2)).tolist() == [2, 3]
    assert run(torch.ones(2)).tolist() == [2, 3]


def indexed(x):
    y = torch.zeros(x.shape[0], 3)
    y[:, 1] = x[:, 0]
    y[0] = 2.0
    y[torch.tensor([1])] += 1
    return y


@pytest.mark.parametrize("function", [
    lambda x: x / x.shape[0] + x.numel() ** 0.5, lambda x: x[: x.shape[0] // 2], lambda x: x[..., None, 1],
    lambda x: torch.arange(x.shape[0]) + torch.zeros(x.size(0)), lambda x: x[: min(x.shape[0], 400)], indexed,
    lambda x: x.view(*x.shape[:-1], 1, x.shape[-1]).expand(-1, 3, -1), lambda x: x[torch.tensor([0, 1])][:, [1, 0]],
    lambda x: x.transpose(0, 1).contiguous().as_strided((2,), (x.shape[0],)), lambda x: x[-1] - x[0],
    lambda x: x * torch.full((), x.shape[0]), lambda x: x.reshape(-1).softmax(0), lambda x: x[::2, 1:],
    lambda x: nn.functional.pad(x, (0, 0, 1, 40 - x.shape[0])), lambda x: x + 1 if x.shape[0] < 33 else x,
    lambda x: torch.cat([x, torch.ones(x.shape[0] * 2 + 1, 2)])])
def test_sizes_follow(function):
    model = module(function)
    run = export(model, (torch.randn(4, 2),), dynamic_shapes={"x": {0: Dim("b", min=2, max=32)}}).module()
    for size in (2, 7, 32):
        x = torch.randn(size, 2)
        mine, expected = run(x), model(x)
        assert mine.shape == expected.shape
        assert torch.equal(mine, expected)


def test_sizes_of_two_dimensions():
    def convolved(x):
        return nn.functional.conv1d(x, torch.ones(1, 2, 3), stride=2).reshape(x.shape[0], -1).softmax(-1)

    model, batch = module(convolved), Dim("batch")
    run = export(model, (torch.randn(2, 2, 9),), dynamic_shapes={"x": (batch, None, Dim("time", min=3, max=99))}
                 ).module()
    x = torch.randn(5, 2, 30)
    assert torch.equal(run(x), model(x))


def test_equal_and_derived_dims():
    batch, = dims("batch", max=32)
    program = export(module(lambda x, y: x + y[::2]), (torch.randn(6, 2), torch.randn(12, 2)),
                     dynamic_shapes={"x": {0: batch}, "y": {0: 2 * batch}})
    assert str(program.range_constraints) == "{s77: VR[0, 32], 2*s77: VR[0, 64]}"
    assert program.module()(torch.ones(7, 2), torch.ones(14, 2)).sum().item() == 28
    program = export(module(lambda x, y: x + y), (torch.randn(6, 2), torch.randn(6, 2)),
                     dynamic_shapes=[{0: batch}] * 2)
    assert program.module()(torch.ones(7, 2), torch.ones(7, 2)).sum().item() == 28
    shifted = export(module(lambda x, y: x + y[1:]), (torch.randn(6, 2), torch.randn(7, 2)),
                     dynamic_shapes=({0: batch}, {0: batch + 1}))
    assert shifted.module()(torch.ones(3, 2), torch.ones(4, 2)).sum().item() == 12


def test_hints_take_the_sizes_that_may_change():
    auto = Dim.AUTO
    both = export(module(lambda x, y: x + y), (torch.randn(6, 2), torch.randn(6, 2)),
                  dynamic_shapes=({0: auto, 1: auto}, {0: auto, 1: Dim.STATIC}))
    assert both.module()(torch.ones(3, 2), torch.ones(3, 2)).sum().item() == 12
    fixed = export(module(lambda x: x + torch.ones(6, 1)), (torch.randn(6, 2),), dynamic_shapes=({0: auto, 1: auto},))
    assert list(map(str, fixed.range_constraints)) == ["s27"]
    narrowed = export(module(lambda x: x + 1 if x.shape[0] > 4 else x), (torch.randn(6, 2),),
                      dynamic_shapes=({0: auto},))
    assert str(narrowed.range_constraints) == "{s77: VR[5, int_oo]}"


def test_shapes_by_tensor():
    x, shapes = torch.randn(4, 2), ShapesCollection()
    shapes[x] = {0: Dim("b")}
    assert len(shapes) == 1
    assert shapes[x] == {0: shapes[x][0]}
    run = export(module(lambda x: x.sum(1)), (x,), dynamic_shapes=shapes).module()
    assert run(torch.ones(9, 2)).tolist() == [2] * 9


@pytest.mark.parametrize("size", [0, 1])
def test_examples_with_a_size_of_0_or_1(size):
    model = module(lambda x: x.view(x.shape[0], 1, 2).expand(-1, 3, -1))
    run = export(model, (torch.randn(size, 2),), dynamic_shapes={"x": {0: Dim("b")}}).module()
    for count in (0, 1, 5):
        x = torch.randn(count, 2)
        assert torch.equal(run(x), model(x))


def test_indices_stay_valid_in_runs_with_other_sizes():
    model = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 2))
    run = export(model, (torch.tensor([[2, 0], [1, 2]]),), dynamic_shapes=({0: Dim("b"), 1: Dim("t")},)).module()
    ids = torch.tensor([[0, 1, 2, 2, 1]] * 3)
    assert torch.equal(run(ids), model(ids))


def test_programs_know_that_they_are_exported():
    model = module(lambda x: x + 1 if torch.compiler.is_exporting() and torch.compiler.is_compiling() else x - 1)
    assert export(model, (torch.zeros(1),)).module()(torch.zeros(1)).item() == 1
    assert not torch.compiler.is_exporting()
    assert not torch.compiler.is_compiling()


def test_copies_keep_the_names_of_nodes():
    """Nodes whose name Python has, too, keep it, as the signature tells by names."""
    class Sum(nn.Module):
        def forward(self, input, x):
            return input + x

    program = export(Sum(), (torch.ones(2), torch.ones(2)))
    other = copy.deepcopy(program)
    other.validate()
    assert [node.name for node in other.graph.nodes] == [node.name for node in program.graph.nodes]
    assert other.module()(torch.ones(2), torch.full((2,), 3.0)).tolist() == [4.0, 4.0]


def test_copies_are_apart(sample):
    model, program = sample
    other = copy.deepcopy(program)
    other.state_dict["k"].zero_()
    assert model.k.sum().item() == 10
    x = torch.randn(3, 3, 8, 8)
    assert (other.module()(x, scale=3.0)["a"] - program.module()(x, scale=3.0)["a"]).mean().item() == pytest.approx(-1)
