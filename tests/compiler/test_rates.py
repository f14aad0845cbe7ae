"""Whole steps of optimizers whose rates, or products of momenta, are tensors: their elements are read at each call."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
STEPS = 14


def train(name, rate, compile):
    """Parameters after each step, and the calls that graphs served; a tensor is changed between steps."""
    torch.manual_seed(0)
    model, x, found = nn.Linear(3, 2), torch.randn(4, 3), []
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=rate)

    def step():
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    call = compile(step)
    for _ in range(STEPS):
        call()
        if isinstance(rate, torch.Tensor):
            rate.mul_(0.9)
        found.append(model.weight.detach().numpy().copy())
    return found, sum(v.hits for v in call._compiled.variants) if compile is torch.compile else 0


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "Adagrad", "Adamax", "RMSprop", "Adadelta"])
@pytest.mark.parametrize("is_tensor", [True, False])
def test_steps_are_equal(name, is_tensor):
    wanted, _ = train(name, torch.tensor(0.01) if is_tensor else 0.01, lambda step: step)
    found, served = train(name, torch.tensor(0.01) if is_tensor else 0.01, torch.compile)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-6)
    assert served >= 8


@pytest.mark.parametrize("rate", [0.01, 0.02])
def test_branches_on_step_counts_are_taken_anew(rate):
    wanted, _ = train("RAdam", rate, lambda step: step)
    for _ in range(2):  # a second optimizer finds no numbers of the first one
        found, _ = train("RAdam", rate, torch.compile)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-6)
