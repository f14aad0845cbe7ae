"""Random programs: the recorded module, its copies, its parts and its interpreter compute what the program does."""

from __future__ import annotations

import copy
import operator
import pickle
import random

import numpy as np
import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx.passes.dialect.common.cse_pass import CSEPass
from tensocket.fx.passes.split_module import split_module
from tensocket.nn import functional as F

SHAPE = (3, 4)
UNARY = [
    ("neg", operator.neg), ("relu", F.relu), ("sin", torch.sin), ("tanh", lambda x: x.tanh()), ("abs", abs),
    ("gelu", lambda x: F.gelu(x, approximate="tanh")), ("softmax", lambda x: F.softmax(x, dim=-1)),
    ("flip", lambda x: torch.flip(x, dims=[0])), ("clamp", lambda x: torch.clamp(x, min=-0.5, max=0.5)),
    ("shape", lambda x: x.reshape(x.shape[0], x.size(1))), ("rows", lambda x: torch.cat([x[1:], x[:1]], dim=0)),
    ("half", lambda x: x[:, ::2].repeat(1, 2)), ("mean", lambda x: x - x.mean(dim=1, keepdim=True)),
    ("pair", lambda x: sum(torch.split(x, 2, dim=1)[at].repeat(1, 2) for at in (0, 1))),
    ("drop", lambda x: F.dropout(x, p=0.5, training=False)), ("norm", lambda x: F.layer_norm(x, (4,))),
    ("dict", lambda x: {"a": x, "b": [x, 1]}["b"][0] * 2), ("max", lambda x: torch.max(x, dim=0, keepdim=True)[0] + x)]
BINARY = [
    ("add", operator.add), ("sub", operator.sub), ("mul", operator.mul),
    ("where", lambda a, b: torch.where(a > b, a, b)),
    ("maximum", torch.maximum), ("matmul", lambda a, b: a @ b.t() @ a / 10),
    ("alpha", lambda a, b: torch.add(a, b, alpha=2)),
    ("stack", lambda a, b: torch.stack([a, b]).sum(0)), ("lerp", lambda a, b: torch.lerp(a, b, 0.25)),
    ("iadd", lambda a, b: operator.iadd(a.clone(), b)), ("compare", lambda a, b: (a < b).to(torch.float32)),
    ("scalar", lambda a, b: 1.5 - a + b * 2 ** 0.5)]


class Program(nn.Module):
    """A random sequence of steps on values that earlier steps made."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.choices = random.Random(seed)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4))])
        self.weight = nn.Parameter(torch.linspace(-1, 1, 12).reshape(SHAPE))
        self.register_buffer("shift", torch.full(SHAPE, 0.25))
        self.steps = [self._step(2 + at) for at in range(self.choices.randint(3, 12))]

    def _step(self, known: int):
        pick = self.choices.random()
        operands = [self.choices.randrange(known) for _ in range(2)]
        if pick < 0.4:
            return self.choices.choice(UNARY)[1], operands[:1]
        if pick < 0.75:
            return self.choices.choice(BINARY)[1], operands
        if pick < 0.85:
            return self.layers[self.choices.randrange(2)], operands[:1]
        return self.choices.choice([lambda x: x * self.weight, lambda x: x + self.shift,
                                    lambda x: torch.ones(SHAPE) + x]), operands[:1]

    def forward(self, x, y):
        values = [x, y]
        for function, operands in self.steps:
            values.append(function(*(values[at] for at in operands)))
        return values[-1], {"sum": values[-1] + values[-2], "first": values[2]}


def flat(result):
    last, named = result
    return [value.detach().numpy() for value in (last, named["sum"], named["first"])]


@pytest.mark.parametrize("block", range(10))
def test_random_programs(block):
    for seed in range(30 * block, 30 * block + 30):
        torch.manual_seed(seed)
        program = Program(seed).eval()
        inputs = torch.randn(SHAPE), torch.randn(SHAPE)
        expected = flat(program(*inputs))
        traced = fx.symbolic_trace(program)
        traced.graph.lint()
        forms = [traced, fx.Interpreter(traced).run, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)),
                 fx.Transformer(traced).transform(), CSEPass()(traced).graph_module]
        if seed % 5 == 0:
            numbers = {node.name: at * 4 // len(traced.graph.nodes) for at, node in enumerate(traced.graph.nodes)}
            forms += [split_module(traced, program, lambda node, numbers=numbers: numbers[node.name]),
                      fx.symbolic_trace(traced)]
        for at, form in enumerate(forms):
            for mine, theirs in zip(flat(form(*inputs)), expected, strict=True):
                np.testing.assert_array_equal(mine, theirs, err_msg=f"seed {seed}, form {at}\n{traced.code}")
        length = len(traced.graph.nodes)
        traced.graph.eliminate_dead_code()
        traced.recompile()
        assert len(traced.graph.nodes) <= length
        for mine, theirs in zip(flat(traced(*inputs)), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=f"seed {seed}")


def test_gradients_flow_through_graphs():
    program = Program(7).eval()
    inputs = torch.randn(SHAPE), torch.randn(SHAPE)
    grads = []
    for form in (program, fx.symbolic_trace(program)):
        program.zero_grad()
        form(*inputs)[1]["sum"].sum().backward()
        grads.append({name: p.grad.numpy().copy() for name, p in program.named_parameters() if p.grad is not None})
    assert grads[0].keys() == grads[1].keys()
    for name, value in grads[0].items():
        np.testing.assert_array_equal(value, grads[1][name])
