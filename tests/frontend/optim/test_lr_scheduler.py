"""Learning rate schedules against their closed forms."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn, optim
from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.optim import lr_scheduler


def make(*rates):
    return optim.SGD([{"params": [nn.Parameter(torch.ones(1))], "lr": rate} for rate in rates or (0.5,)])


def rates(optimizer, schedule, epochs):
    """The rates of the first group in every epoch."""
    found = []
    for _ in range(epochs):
        found.append(optimizer.param_groups[0]["lr"])
        assert schedule.get_last_lr()[0] == found[-1]
        optimizer.step()
        schedule.step()
    return found


def check(make_schedule, closed_form, epochs=23):
    optimizer = make()
    found = rates(optimizer, make_schedule(optimizer), epochs)
    assert found == pytest.approx([closed_form(k) for k in range(epochs)], rel=1e-12, abs=1e-15)


def test_lambda():
    check(lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)), lambda k: 0.5 / (1 + k))


def test_step():
    check(lambda o: lr_scheduler.StepLR(o, 5, gamma=0.3), lambda k: 0.5 * 0.3 ** (k // 5))


def test_exponential():
    check(lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda k: 0.5 * 0.9**k)


def test_cosine_goes_down_and_up_again():
    check(lambda o: lr_scheduler.CosineAnnealingLR(o, 7, eta_min=0.1),
          lambda k: 0.1 + 0.4 * (1 + math.cos(math.pi * k / 7)) / 2)


def test_multiplicative():
    check(lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: epoch / (epoch + 1)), lambda k: 0.5 / (k + 1))


def test_milestones_that_stand_twice_count_twice():
    check(lambda o: lr_scheduler.MultiStepLR(o, [3, 8, 3], gamma=0.5),
          lambda k: 0.5 * 0.5 ** (2 * (k >= 3) + (k >= 8)))


def test_constant():
    check(lambda o: lr_scheduler.ConstantLR(o, 0.25, 4), lambda k: 0.5 if k >= 4 else 0.125)


def test_linear():
    check(lambda o: lr_scheduler.LinearLR(o, 0.2, 0.8, 6), lambda k: 0.5 * (0.2 + 0.1 * min(k, 6)))


def test_polynomial():
    check(lambda o: lr_scheduler.PolynomialLR(o, 9, 2.0), lambda k: 0.5 * (1 - min(k, 9) / 9) ** 2)


def test_warm_restarts_in_longer_and_longer_periods():
    def closed_form(k):
        start, period = max((2 * (2**n - 1), 2 * 2**n) for n in range(5) if 2 * (2**n - 1) <= k)
        return 0.1 + 0.4 * (1 + math.cos(math.pi * (k - start) / period)) / 2

    check(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2, eta_min=0.1), closed_form)


def test_warm_restarts_between_epochs():
    optimizer = make()
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4)
    schedule.step(5.5)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.25 * (1 + math.cos(math.pi * 1.5 / 4)))
    assert schedule.last_epoch == 5


@pytest.mark.parametrize(("options", "scale"), [
    ({}, lambda cycle, k: 1.0), ({"mode": "triangular2"}, lambda cycle, k: 0.5 ** (cycle - 1)),
    ({"mode": "exp_range", "gamma": 0.9}, lambda cycle, k: 0.9**k),
    ({"scale_fn": lambda cycle: 1 / cycle}, lambda cycle, k: 1 / cycle),
])
def test_cycles(options, scale):
    """4 steps up and 2 down, the momentum the other way."""
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=9.0, momentum=0.5)
    schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, 4, 2, **options)
    for k in range(20):
        cycle, place = divmod(k, 6)
        height = (place / 4 if place <= 4 else (6 - place) / 2) * scale(cycle + 1, k)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 + 0.4 * height)
        assert optimizer.param_groups[0]["momentum"] == pytest.approx(0.9 - 0.1 * height)
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_one_cycle(strategy):
    """3 steps up and 7 down; the momentum of Adam is its first beta."""
    def between(a, b, part):
        return a + (b - a) * (part if strategy == "linear" else (1 - math.cos(math.pi * part)) / 2)

    optimizer = optim.Adam([nn.Parameter(torch.ones(1))])
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, epochs=2, steps_per_epoch=5, pct_start=0.4, div_factor=10.0,
                                       final_div_factor=100.0, anneal_strategy=strategy)
    for k in range(10):
        up, part = k <= 3, k / 3 if k <= 3 else (k - 3) / 6
        group = optimizer.param_groups[0]
        assert group["lr"] == pytest.approx(between(0.1, 1.0, part) if up else between(1.0, 0.001, part))
        assert group["betas"][0] == pytest.approx(between(0.95, 0.85, part) if up else between(0.85, 0.95, part))
        optimizer.step()
        schedule.step()
    with pytest.raises(ArgumentError, match="step 11 of 10 — there are no more steps than total_steps"):
        schedule.step()


def test_one_cycle_with_the_state_of_an_older_pytorch():
    """Which had the function of its course in place of its name."""
    schedules = [lr_scheduler.OneCycleLR(optim.SGD([nn.Parameter(torch.ones(1))], 0.1, momentum=0.9), 1.0, 10)
                 for _ in range(2)]
    old = schedules[0].state_dict()
    assert old.pop("_anneal_func_type") == "cos"
    del schedules[1]._anneal_func_type
    schedules[1].load_state_dict({**old, "anneal_func": lr_scheduler.OneCycleLR._annealing_cos})
    for _ in range(9):
        for schedule in schedules:
            schedule.optimizer.step()
            schedule.step()
        assert schedules[0].get_last_lr() == schedules[1].get_last_lr()


def test_one_cycle_in_three_phases():
    optimizer = make()
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=11, pct_start=0.4, div_factor=10.0, three_phase=True,
                                       final_div_factor=100.0, anneal_strategy="linear", cycle_momentum=False)
    found = rates(optimizer, schedule, 11)
    assert found == pytest.approx(list(np.interp(range(11), [0, 3.4, 6.8, 10], [0.1, 1.0, 0.1, 0.001])))


def test_plateau():
    optimizer = make(1.0, 0.3)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=2, min_lr=0.2)
    found = []
    for metric in [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0]:
        schedule.step(torch.tensor(metric))
        found.append(tuple(schedule.get_last_lr()))
    assert found == [(1.0, 0.3)] * 3 + [(0.5, 0.2)] * 4 + [(0.25, 0.2)] * 2


@pytest.mark.parametrize(("mode", "threshold_mode", "better", "worse"), [
    ("min", "rel", 8.9, 9.1), ("min", "abs", 9.8, 9.95), ("max", "rel", 11.1, 10.9), ("max", "abs", 10.2, 10.05)])
def test_what_a_plateau_is(mode, threshold_mode, better, worse):
    schedule = lr_scheduler.ReduceLROnPlateau(make(), mode, threshold=0.1, threshold_mode=threshold_mode)
    assert schedule.is_better(better, 10.0)
    assert not schedule.is_better(worse, 10.0)


def test_a_plateau_with_groups_that_came_later():
    optimizer = make()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.1])
    optimizer.add_param_group({"params": nn.Parameter(torch.ones(1))})
    schedule.step(1.0)
    with pytest.raises(ArgumentError, match="min_lr has one value for each group, also for those that came later"):
        schedule.step(1.0)


def test_one_after_the_other():
    def build(o):
        return lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o, 0.5, 1.0, 4), lr_scheduler.ExponentialLR(o, 0.5),
                                             lr_scheduler.StepLR(o, 2)], [4, 7])

    def closed_form(k):
        return 0.5 * ((0.5 + k / 8) if k < 4 else 0.5 ** (k - 4) if k < 7 else 0.1 ** ((k - 7) // 2))

    check(build, closed_form)


def test_one_after_the_other_within_another():
    def build(o):
        parts = [lr_scheduler.ConstantLR(o, 0.5, 99), lr_scheduler.ConstantLR(o, 0.25, 99)]
        inner = lr_scheduler.SequentialLR(o, parts, [3])
        return lr_scheduler.SequentialLR(o, [inner, lr_scheduler.ExponentialLR(o, 0.5)], [5])

    check(build, lambda k: 0.25 if k < 3 else 0.125 if k < 5 else 0.5 * 0.5 ** (k - 5))


def test_several_at_once():
    check(lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.1, 2),
                                                    lr_scheduler.ExponentialLR(o, 0.9)]),
          lambda k: 0.5 * 0.9**k * (0.1 if k < 2 else 1.0))


def test_epochs_that_are_given_use_closed_forms():
    optimizer = make()
    schedule = lr_scheduler.StepLR(optimizer, 3, 0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="needs no epoch, and giving one is deprecated"):
        schedule.step(7)
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_rates_that_are_tensors_change_in_place():
    rate = torch.tensor(0.5)
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=rate)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == schedule.get_last_lr()[0].item() == 0.25


def test_objects_are_saved_with_what_they_hold():
    class Decay:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, epoch):
            return self.factor**epoch

    first = lr_scheduler.LambdaLR(make(1.0, 1.0), [Decay(0.5), lambda epoch: 1.0])
    second = lr_scheduler.LambdaLR(make(1.0, 1.0), [Decay(0.9), lambda epoch: 1.0])
    state = first.state_dict()
    assert state["lr_lambdas"] == [{"factor": 0.5}, None]
    second.load_state_dict(state)
    assert second.lr_lambdas[0].factor == 0.5


@pytest.mark.parametrize("build", [
    lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o, 0.5, 9), lr_scheduler.StepLR(o, 2)], [4]),
    lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(o), lr_scheduler.StepLR(o, 2)]),
    lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 3, scale_fn=lambda x: 1 / x, cycle_momentum=False),
    lambda o: lr_scheduler.OneCycleLR(o, 1.0, 20),
    lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 6]),
])
def test_all_kinds_go_on_from_saved_state(build):
    optimizer, resumed_optimizer = make(), make()
    schedule, resumed = build(optimizer), build(resumed_optimizer)
    rates(optimizer, schedule, 3)
    resumed_optimizer.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    resumed.load_state_dict(pickle.loads(pickle.dumps(schedule.state_dict())))
    assert rates(resumed_optimizer, resumed, 6) == rates(optimizer, schedule, 6)


def test_asking_for_rates_outside_of_a_step_warns():
    schedule = lr_scheduler.ExponentialLR(make(), 0.5)
    with pytest.warns(UserWarning, match=r"get_lr\(\) is for step\(\); get_last_lr\(\) has the rates"):
        schedule.get_lr()


def test_an_optimizer_with_another_step_warns():
    optimizer = make()
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) was replaced by another function"):
        schedule.step()


def other(o):
    return lr_scheduler.StepLR(make(), 1)


def test_every_group_has_its_rate():
    optimizer = make(1.0, 2.0)
    schedule = lr_scheduler.LambdaLR(optimizer, [lambda k: 0.5**k, lambda k: 1.0])
    optimizer.step()
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 2.0]
    assert [group["initial_lr"] for group in optimizer.param_groups] == [1.0, 2.0]


def test_schedules_multiply():
    optimizer = make(1.0)
    first, second = lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.StepLR(optimizer, 2, 0.1)
    for _ in range(3):
        optimizer.step()
        first.step()
        second.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.9**3 * 0.1)


def test_going_on_from_saved_state():
    optimizer = make()
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, 6)
    rates(optimizer, schedule, 3)
    resumed_optimizer = make()
    resumed = lr_scheduler.CosineAnnealingLR(resumed_optimizer, 6)
    resumed_optimizer.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    assert rates(resumed_optimizer, resumed, 5) == rates(optimizer, schedule, 5)


def test_starting_in_the_middle():
    optimizer = make()
    optimizer.param_groups[0]["initial_lr"] = 0.5
    lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.25 * (1 + math.cos(math.pi * 0.4)))


def test_calling_the_schedule_before_the_optimizer_warns():
    optimizer = make()
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.9)
    with pytest.warns(UserWarning, match=r"scheduler.step\(\) was called before optimizer.step\(\)"):
        schedule.step()


@pytest.mark.parametrize(("build", "error", "message"), [
    (lambda o: lr_scheduler.StepLR("o", 1), ArgumentTypeError, r"\[StepLR\] a str — "
                                                               "a schedule changes the rates of an Optimizer"),
    (lambda o: lr_scheduler.StepLR(o, 0), ArgumentError, r"\[StepLR\] step_size=0 — step_size is a positive int"),
    (lambda o: lr_scheduler.CosineAnnealingLR(o, 0), ArgumentError,
     r"\[CosineAnnealingLR\] T_max=0 — T_max is a positive int"),
    (lambda o: lr_scheduler.LambdaLR(o, [abs, abs]), ArgumentError, r"\[LambdaLR\] 2 functions for 1 groups — "
                                                                    "there is one function, or one for each group"),
    (lambda o: lr_scheduler.MultiplicativeLR(o, [abs, abs]), ArgumentError, "there is one function, or one for each"),
    (lambda o: lr_scheduler.ConstantLR(o, 2.0), ArgumentError, "factor=2.0 — factor is above 0 and at most 1"),
    (lambda o: lr_scheduler.LinearLR(o, 0.0), ArgumentError, "start_factor is above 0 and at most 1"),
    (lambda o: lr_scheduler.LinearLR(o, 0.5, 2.0), ArgumentError, "end_factor is above 0 and at most 1"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), ArgumentError, "T_0=0 — T_0 is a positive int"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 1.5), ArgumentError, "T_mult is a positive int"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2).step(-1), ArgumentError, "epochs are not negative"),
    (lambda o: lr_scheduler.CyclicLR("o", 1, 2), ArgumentTypeError, "a schedule changes the rates of an Optimizer"),
    (lambda o: lr_scheduler.CyclicLR(o, 1, 2, mode="x"), ArgumentError,
     "mode='x' — the mode is triangular, triangular2 or exp_range"),
    (lambda o: lr_scheduler.CyclicLR(o, [1, 1], 2), ArgumentError,
     "2 values of base_lr for 1 groups — there is one value, or one for each group"),
    (lambda o: lr_scheduler.CyclicLR(optim.Adagrad([torch.ones(1)]), 1, 2), ArgumentError,
     "cycle_momentum with Adagrad — the optimizer has an option momentum or betas"),
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0), ArgumentError,
     "total_steps is given, or both epochs and steps_per_epoch"),
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0, epochs=0, steps_per_epoch=3), ArgumentError,
     "epochs and steps_per_epoch are positive"),
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0, -1), ArgumentError, "total_steps=-1 — total_steps is a positive int"),
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 5, pct_start=2), ArgumentError, "pct_start is between 0 and 1"),
    (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 5, anneal_strategy="x"), ArgumentError,
     "anneal_strategy is 'cos' or 'linear'"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), ArgumentError, "factor=1.0 — factor is less than 1"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, "x"), ArgumentError, "mode='x' — mode is 'min' or 'max'"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="x"), ArgumentError,
     "threshold_mode is 'rel' or 'abs'"),
    (lambda o: lr_scheduler.SequentialLR(o, [], []), ArgumentError, "no schedules — there is at least one schedule"),
    (lambda o: lr_scheduler.SequentialLR(o, [other(o)], []), ArgumentError,
     "schedule 0, a StepLR — all schedules are of one optimizer"),
    (lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(o, 1), other(o)]), ArgumentError,
     "schedule 1, a StepLR — all schedules are of one optimizer"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ReduceLROnPlateau(o)], []), ArgumentError,
     "the schedules of SequentialLR need no metric"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]), ArgumentError,
     "1 schedules and 1 milestones — there is one milestone less than schedules"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], []).step(3), ArgumentError,
     r"\[SequentialLR.step\] epoch=3 — composed schedules go one epoch at a time"),
    (lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(o, 1)]).step(3), ArgumentError,
     r"\[ChainedScheduler.step\] epoch=3 — composed schedules go one epoch at a time"),
    (lambda o: lr_scheduler.StepLR(o, 1, last_epoch=4), KeyError,
     r"\[StepLR\] last_epoch=4 — group 0 of the optimizer has no initial_lr"),
])
def test_bad_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build(make())


def _options(make):
    """Rates of four steps, of which the second finds the tensor that was passed changed."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
    given = torch.tensor(0.0625)
    schedule, rates = make(optimizer, given), []
    for step in range(4):
        if step == 1:
            given.fill_(8.0)
        optimizer.step()
        schedule.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return rates, given


@pytest.mark.parametrize("make", [
    lambda o, rate: torch.optim.lr_scheduler.CyclicLR(o, 0.0, rate, step_size_up=2),
    lambda o, rate: torch.optim.lr_scheduler.CyclicLR(o, rate, 0.5, step_size_up=2),
    lambda o, rate: torch.optim.lr_scheduler.OneCycleLR(o, rate, total_steps=10),
    lambda o, rate: torch.optim.swa_utils.SWALR(o, rate, anneal_epochs=3),
    lambda o, rate: torch.optim.lr_scheduler.OneCycleLR(o, [rate], total_steps=10),
])  # fmt: skip
def test_options_that_are_tensors_are_copied(make):
    rates, given = _options(make)
    assert given.item() == 8.0, "the schedule wrote to the caller's tensor"
    assert max(rates) <= 0.5, "the schedule follows the caller's tensor"


def test_a_cycle_up_to_a_tensor():
    rates, _ = _options(lambda o, rate: torch.optim.lr_scheduler.CyclicLR(o, 0.0, rate, step_size_up=2))
    assert rates == pytest.approx([0.03125, 0.0625, 0.03125, 0.0])


@pytest.mark.parametrize("make", [
    lambda opt, rate, low, high: lr_scheduler.CyclicLR(opt, base_lr=rate, max_lr=high, base_momentum=low,
                                                       max_momentum=high),
    lambda opt, rate, low, high: lr_scheduler.OneCycleLR(opt, max_lr=rate, total_steps=10, base_momentum=low,
                                                         max_momentum=high),
    lambda opt, rate, low, high: torch.optim.swa_utils.SWALR(opt, swa_lr=high),
])
def test_schedules_keep_values_and_not_the_tensors_they_were_given(make):
    def run(change):
        given = [torch.tensor(v) for v in (0.1, 0.5, 0.9)]
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        schedule = make(optimizer, *given)
        rates = []
        for _ in range(4):
            if change:
                for value in given:
                    value.mul_(0.5)
            optimizer.step()
            schedule.step()
            group = optimizer.param_groups[0]
            rates.append([float(group[k]) for k in ("lr", "momentum", "max_momentum", "base_momentum", "swa_lr")
                          if k in group])
        return rates

    assert run(True) == run(False)
