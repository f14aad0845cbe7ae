"""Whole steps of optimizers that compute numbers from step counts, norms and momenta: graphs compute them anew."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.optim import lr_scheduler
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
STEPS = 16

OPTIMIZERS = {
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "RAdam of decoupled decay": lambda p: torch.optim.RAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01),
    "ASGD that averages": lambda p: torch.optim.ASGD(p, lr=0.01, lambd=0.1, t0=5, weight_decay=0.1),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "Adafactor of decay": lambda p: torch.optim.Adafactor(p, lr=0.5, d=1.5, weight_decay=0.1, maximize=True),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
}
#: Optimizers with a momentum, and the schedules that cycle it.
CYCLES = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
}
SCHEDULES = {
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=3 * STEPS),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.01, 3),
}


class Run:
    """Parameters that are trained by plain or compiled steps; their gradients are products, whose bits stay."""

    def __init__(self, compiled, optimizer, schedule=None):
        torch.manual_seed(0)
        self.parameters = [nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(2))]
        self.x, self.y, self.past_values = torch.randn(2, 3), torch.randn(2), []
        self.optimizer = optimizer(self.parameters)
        self.scheduler = schedule and schedule(self.optimizer)
        self.call = torch.compile(self.step) if compiled else self.step

    def step(self):
        self.optimizer.zero_grad()
        torch.autograd.backward([self.parameters[0].sin(), self.parameters[1].sin()], [self.x, self.y])
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()

    def train(self, steps=STEPS, before=lambda run, step: None):
        for step in range(steps):
            before(self, step)
            self.call()
            self.past_values += [x.detach().numpy().copy() for x in self.parameters]
        return self

    @property
    def states(self):
        return [x.numpy() for state in self.optimizer.state.values() for x in state.values()]

    @property
    def served(self):
        return sum(v.hits for v in self.call._compiled.variants)


def check(found, wanted, tolerance=0.0):
    for one, other in zip([*found.past_values, *found.states], [*wanted.past_values, *wanted.states], strict=True):
        np.testing.assert_allclose(one, other, tolerance, tolerance / 10)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_have_the_bits_of_eager_ones(optimizer):
    found, wanted = [Run(compiled, OPTIMIZERS[optimizer]).train() for compiled in (True, False)]
    check(found, wanted)
    assert found.served >= 10
    report = torch.compiler.compiled(found.call).report()
    assert report.graph_count >= 1
    assert not report.break_reasons


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_call_is_checked(optimizer):
    found = Run(True, OPTIMIZERS[optimizer])
    found.call = torch.compile(found.step, options={"check": 1})
    check(found.train(), Run(False, OPTIMIZERS[optimizer]).train())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rates_change(optimizer):
    def change(run, step):
        run.optimizer.param_groups[0]["lr"] *= 0.9
    found, wanted = [Run(compiled, OPTIMIZERS[optimizer]).train(before=change) for compiled in (True, False)]
    check(found, wanted)
    assert found.served >= 8


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_states_are_loaded(optimizer):
    def load(run, step):
        if step == 2:
            run.saved = run.optimizer.state_dict()
            run.saved = {"state": {k: {n: x.clone() for n, x in state.items()}
                                   for k, state in run.saved["state"].items()},
                         "param_groups": run.saved["param_groups"]}
        if step == 10:
            run.optimizer.load_state_dict(run.saved)
    check(*[Run(compiled, OPTIMIZERS[optimizer]).train(24, load) for compiled in (True, False)])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimizer", CYCLES)
def test_momenta_that_schedules_cycle(optimizer, schedule):
    found, wanted = [Run(compiled, CYCLES[optimizer], SCHEDULES[schedule]).train() for compiled in (True, False)]
    check(found, wanted)
    assert found.served >= 6
    for group, other in zip(found.optimizer.param_groups, wanted.optimizer.param_groups, strict=True):
        assert {k: v for k, v in group.items() if k != "params"} == {k: v for k, v in other.items() if k != "params"}


def test_a_momentum_that_becomes_zero_takes_another_graph():
    def change(run, step):
        run.optimizer.param_groups[0]["momentum"] = 0.0 if step % 8 == 7 else 0.9 - 0.01 * step
    found, wanted = [Run(compiled, CYCLES["SGD"]).train(32, change) for compiled in (True, False)]
    check(found, wanted)
    assert found.served >= 8


def test_betas_that_become_something_else():
    def change(run, step):
        first = torch.tensor(0.8) if step == 12 else 0 if step == 16 else 0.9 - 0.01 * step
        run.optimizer.param_groups[0]["betas"] = (first, 0.99)
    check(*[Run(compiled, CYCLES["Adam"]).train(24, change) for compiled in (True, False)])


def test_a_momentum_that_the_program_reads_is_never_old():
    class Reading(Run):
        def step(self):
            super().step()
            return self.optimizer.param_groups[0]["betas"][0]
    for compiled in (True, False):
        run = Reading(compiled, CYCLES["Adam"], SCHEDULES["OneCycleLR"])
        for _ in range(STEPS):
            assert run.call() == run.optimizer.param_groups[0]["betas"][0]


def test_steps_on_counts_that_differ_by_parameter():
    class Late(Run):
        def step(self):
            super().step()
            self.optimizer.zero_grad()
            self.parameters[0].sin().backward(self.x)
            self.optimizer.step()
    for optimizer in ("RAdam", "ASGD that averages", "Adafactor"):
        check(*[Late(compiled, OPTIMIZERS[optimizer]).train(24) for compiled in (True, False)])


def test_two_steps_in_one_call():
    class Twice(Run):
        def step(self):
            super().step()
            super().step()
    for optimizer in OPTIMIZERS.values():
        check(*[Twice(compiled, optimizer).train() for compiled in (True, False)])


@pytest.mark.parametrize("optimizer", ["RAdam", "ASGD that averages", "Adafactor"])
def test_counts_of_float64(optimizer):
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found, wanted = [Run(compiled, OPTIMIZERS[optimizer]).train() for compiled in (True, False)]
    finally:
        torch.set_default_dtype(default)
    check(found, wanted, 1e-12 if optimizer == "Adafactor" else 0.0)  # sums may be rounded otherwise
    assert found.served >= 10
