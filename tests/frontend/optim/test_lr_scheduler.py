"""Learning rate schedules against their closed forms."""

from __future__ import annotations

import math

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
    (lambda o: lr_scheduler.StepLR(o, 0), ArgumentError, r"\[StepLR\] step_size=0 — step_size is at least 1"),
    (lambda o: lr_scheduler.CosineAnnealingLR(o, 0), ArgumentError,
     r"\[CosineAnnealingLR\] T_max=0 — T_max is at least 1"),
    (lambda o: lr_scheduler.LambdaLR(o, [abs, abs]), ArgumentError, r"\[LambdaLR\] 2 functions for 1 groups — "
                                                                    "there is one function, or one for each group"),
    (lambda o: lr_scheduler.StepLR(o, 1, last_epoch=4), ArgumentError,
     r"\[StepLR\] last_epoch=4 — group 0 of the optimizer has no initial_lr"),
])
def test_bad_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build(make())
