"""Whole steps whose rates change: by schedules inside of them or behind them, or by the program."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.optim import lr_scheduler
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
STEPS = 16

SCHEDULES = {
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, total_iters=6),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 4),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.01, 3, cycle_momentum=False),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)], [5]),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)]),
}


class Run:
    """A model that is trained by plain or compiled steps."""

    def __init__(self, compile, optimizer="SGD", schedule="ExponentialLR", **options):
        torch.manual_seed(0)
        self.model, self.x, self.past_rates, self.past_weights = nn.Linear(3, 2), torch.randn(4, 3), [], []
        self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), lr=0.01, **options)
        self.scheduler = SCHEDULES[schedule](self.optimizer)
        self.call = torch.compile(self.step) if compile else self.step
        self.compiled = compile

    def update(self):
        self.optimizer.zero_grad()
        loss = self.model(self.x).square().sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def step(self):
        loss = self.update()
        self.scheduler.step()
        return loss

    def train(self, steps=STEPS, after=lambda run: None):
        for _ in range(steps):
            self.call()
            after(self)
            self.past_rates.append(self.optimizer.param_groups[0]["lr"])
            self.past_weights.append(self.model.weight.detach().numpy().copy())
        return self

    @property
    def served(self):
        return sum(v.hits for v in self.call._compiled.variants)


def check(one, other):
    assert one.past_rates == other.past_rates
    for a, b in zip(one.past_weights, other.past_weights, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-6)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "NAdam", "Adagrad", "Adamax", "RMSprop", "Adadelta"])
def test_a_step_with_its_schedule_is_one_graph(optimizer):
    found = Run(True, optimizer).train()
    check(found, Run(False, optimizer).train())
    assert found.served >= 8


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_step_behind_the_graph(schedule):
    found, wanted = [Run(compile, schedule=schedule, momentum=0.9).train() for compile in (True, False)]
    check(found, wanted)
    assert found.scheduler.state_dict().keys() == wanted.scheduler.state_dict().keys()
    assert found.scheduler.get_last_lr() == wanted.scheduler.get_last_lr()
    assert found.served >= 6


@pytest.mark.parametrize("set_rate", [
    lambda run: run.scheduler.step(),
    lambda run: run.optimizer.param_groups[0].update(lr=run.optimizer.param_groups[0]["lr"] * 0.9),
], ids=["by a schedule", "by the program"])
def test_rates_change_between_calls(set_rate):
    class Without(Run):
        step = Run.update
    found, wanted = [Without(compile, "Adam").train(after=set_rate) for compile in (True, False)]
    check(found, wanted)
    assert found.served >= 8


def test_rates_of_several_groups():
    def train(compile):
        run = Run(compile)
        bias = nn.Parameter(torch.ones(2))
        run.optimizer.add_param_group({"params": [bias], "lr": 0.5})
        run.scheduler = lr_scheduler.LambdaLR(run.optimizer, [lambda n: 0.9**n, lambda n: 1 / (n + 1)])
        run.model.extra = bias
        run.model.forward = lambda x: x @ run.model.weight.T + bias
        return run.train()
    check(train(True), train(False))


@pytest.mark.parametrize("read", [
    lambda run: run.optimizer.param_groups[0]["lr"],
    lambda run: next(iter(run.optimizer.state_dict()["param_groups"]))["lr"],
    lambda run: run.scheduler.get_last_lr()[0],
    lambda run: next(v for k, v in vars(run.optimizer)["param_groups"][0].items() if k != "params"),
    lambda run: run.group["lr"],
    lambda run: run.group[run.key],
    lambda run: getattr(run.optimizer, run.attribute)[0][run.key],
    lambda run: float(repr(run.optimizer).partition("lr: ")[2].split()[0]),
    lambda run: run.scheduler.last_epoch,
])
def test_a_rate_that_the_program_reads_is_never_old(read):
    class Reading(Run):
        key, attribute = "lr", "param_groups"

        def step(self):
            self.optimizer.zero_grad()
            scale = read(self)
            loss = (self.model(self.x) * scale).square().sum()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()

    def train(compile):
        run = Reading(compile)
        run.group = run.optimizer.param_groups[0]
        return run.train()
    check(train(True), train(False))


def test_a_rate_that_is_read_behind_the_schedule():
    class Reading(Run):
        def step(self):
            super().step()
            return self.optimizer.param_groups[0]["lr"]
    for compile in (True, False):
        run = Reading(compile)
        for _ in range(STEPS):
            assert run.call() == run.optimizer.param_groups[0]["lr"]


def test_two_steps_of_one_schedule_in_a_call():
    class Twice(Run):
        def step(self):
            super().step()
            super().step()
    check(Twice(True).train(), Twice(False).train())


def test_the_function_of_a_schedule_runs_at_each_call():
    calls = []

    def factor(epoch):
        calls.append((epoch, torch.compiler.is_compiling()))
        return 0.9**epoch
    for compile in (True, False):
        run = Run(compile)
        run.scheduler = lr_scheduler.LambdaLR(run.optimizer, factor)
        calls.clear()
        run.train()
        assert calls == [(k + 1, compile) for k in range(STEPS)]
        assert run.served >= 6 if compile else True


def test_a_schedule_that_reads_a_tensor():
    for compile in (True, False):
        run = Run(compile)
        scale = torch.tensor(1.0)

        def factor(epoch, scale=scale):
            return float(scale) * 0.9**epoch
        run.scheduler = lr_scheduler.LambdaLR(run.optimizer, factor)
        run.train(after=lambda run, scale=scale: scale.mul_(0.5))
        np.testing.assert_allclose(run.past_rates[-1], 0.01 * 0.5**(STEPS - 1) * 0.9**STEPS, rtol=1e-5)


def test_an_error_of_a_schedule_comes_at_its_call():
    def factor(epoch):
        if epoch == 12:
            raise ValueError("over")
        return 0.9
    found = []
    for compile in (True, False):
        run = Run(compile)
        run.scheduler = lr_scheduler.LambdaLR(run.optimizer, factor)
        with pytest.raises(ValueError, match="over"):
            run.train()
        rate = run.optimizer.param_groups[0]["lr"]
        found.append((len(run.past_rates), run.model.weight.detach().numpy().copy(), rate))
    assert found[0][0] == found[1][0] == 11
    assert found[0][2] == found[1][2]
    np.testing.assert_allclose(found[0][1], found[1][1], 1e-5)


def test_changes_behind_a_schedule_are_python():
    class Averaging(Run):
        average = None

        def step(self):
            super().step()
            self.average.mul_(0.9).add_(self.model.weight.detach() * 0.1)

    def train(compile):
        run = Averaging(compile)
        run.average = torch.zeros(2, 3)
        return run.train()
    found, wanted = train(True), train(False)
    check(found, wanted)
    np.testing.assert_allclose(found.average.numpy(), wanted.average.numpy(), 1e-5)
    assert any("after the step of a schedule" in reason for reason in found.call._compiled.reasons)


def test_a_rate_becomes_another_kind_of_number():
    def change(run):
        if len(run.past_rates) == 8:
            run.optimizer.param_groups[0]["lr"] = 1
        if len(run.past_rates) == 12:
            run.optimizer.param_groups[0]["lr"] = torch.tensor(0.25)

    class Without(Run):
        step = Run.update
    found, wanted = [Without(compile).train(after=lambda run: [run.scheduler.step(), change(run)]) for compile in
                     (True, False)]
    assert [float(x) for x in found.past_rates] == [float(x) for x in wanted.past_rates]
    for a, b in zip(found.past_weights, wanted.past_weights, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-6)


def test_warnings_of_schedules_name_the_line_of_the_program():
    run = Run(False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run.scheduler.step()
        run.scheduler.step(3)
    assert [w.filename for w in found] == [__file__] * len(found)
    assert len(found) == 2


def test_a_step_with_a_schedule_is_checked():
    run = Run(True)
    run.call = torch.compile(run.step, options={"check": 1})
    wanted = Run(False).train()
    check(run.train(), wanted)


def test_tables_do_not_outlive_their_optimizer():
    run = Run(True).train()
    assert run.served
    torch._dynamo.reset()
    alive = [id(run.optimizer)]
    del run
    gc.collect()
    assert not any(id(x) in alive and isinstance(x, torch.optim.SGD) for x in gc.get_objects())
