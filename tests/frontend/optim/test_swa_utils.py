"""Averages of weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn, optim
from tensocket.errors import ArgumentError
from tensocket.optim import swa_utils


def trained(averaged, places):
    """Set the model to each of the places and take it into the average."""
    model = nn.Linear(2, 1, bias=False)
    averages = averaged(model)
    for place in places:
        with torch.no_grad():
            model.weight.copy_(torch.tensor([place]))
        averages.update_parameters(model)
    return averages.module.weight.detach().numpy()[0]


PLACES = [(1.0, 2.0), (3.0, -1.0), (0.5, 4.0), (2.5, 2.0)]


def exponential(decay):
    result = np.array(PLACES[0])
    for place in PLACES[1:]:
        result = decay * result + (1 - decay) * np.array(place)
    return result


@pytest.mark.parametrize(("options", "expected"), [
    ({}, np.mean(PLACES, 0)), ({"avg_fn": swa_utils.get_swa_avg_fn()}, np.mean(PLACES, 0)),
    ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, np.mean(PLACES, 0)),
    ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)}, exponential(0.75)),
    ({"avg_fn": swa_utils.get_ema_avg_fn(0.75)}, exponential(0.75)),
    ({"avg_fn": lambda old, new, count: torch.maximum(old, new)}, np.max(PLACES, 0)),
])
def test_averages(options, expected):
    found = trained(lambda model: swa_utils.AveragedModel(model, **options), PLACES)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        return x * self.weight


@pytest.mark.parametrize(("use_buffers", "mean", "count"), [(False, 3.0, 6), (True, 2.0, 4)])
def test_buffers_are_copied_or_averaged(use_buffers, mean, count):
    model = Counting()
    averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers)
    for value in (1.0, 3.0):
        model.mean.fill_(value)
        model.count.fill_(int(2 * value))
        averaged.update_parameters(model)
    assert (averaged.module.mean.item(), averaged.module.count.item()) == (mean, count)
    assert averaged.n_averaged.item() == 2
    assert averaged(torch.ones(1)).item() == 0.0
    assert "n_averaged" in averaged.state_dict()


def test_the_model_itself_stays():
    model = Counting()
    swa_utils.AveragedModel(model).update_parameters(model)
    assert model.weight.grad is None
    assert model.weight.item() == 0.0


@pytest.mark.parametrize("strategy", ["linear", "cos"])
def test_rates_go_to_that_of_the_average(strategy):
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, 0.2, anneal_epochs=4, anneal_strategy=strategy)
    for k in range(8):
        part = min(k / 4, 1.0)
        share = part if strategy == "linear" else (1 - math.cos(math.pi * part)) / 2
        assert optimizer.param_groups[0]["lr"] == pytest.approx(1.0 - 0.8 * share)
        optimizer.step()
        schedule.step()


class _BatchNorm(nn.Module):
    """The mean of all batches, as batch normalisation without momentum keeps it."""

    def __init__(self):
        super().__init__()
        self.momentum = 0.1
        self.reset_running_stats()

    def reset_running_stats(self):
        self.mean, self.seen = 99.0, 0

    def forward(self, x):
        assert self.training
        self.seen += 1
        share = 1 / self.seen if self.momentum is None else self.momentum
        self.mean += share * (x.mean().item() - self.mean)
        return x


def test_statistics_are_computed_anew():
    model = nn.Sequential(_BatchNorm()).eval()
    swa_utils.update_bn([torch.tensor([1.0, 3.0]), [torch.tensor([4.0, 6.0]), "label"]], model)
    assert model[0].mean == 3.5
    assert model[0].momentum == 0.1
    assert not model.training
    swa_utils.update_bn([torch.ones(1)], nn.Linear(3, 3))


@pytest.mark.parametrize(("build", "message"), [
    (lambda: swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max),
     "one of avg_fn and multi_avg_fn is given"),
    (lambda: swa_utils.get_ema_avg_fn(1.5), r"\[get_ema_avg_fn\] decay=1.5 — decay is between 0 and 1"),
    (lambda: swa_utils.get_ema_multi_avg_fn(-1), "decay=-1 — decay is between 0 and 1"),
    (lambda: swa_utils.SWALR(optim.SGD([torch.ones(1)]), 0.1, anneal_strategy="x"),
     "anneal_strategy is 'cos' or 'linear'"),
    (lambda: swa_utils.SWALR(optim.SGD([torch.ones(1)]), 0.1, -1), "anneal_epochs is an int and not negative"),
])
def test_bad_arguments(build, message):
    with pytest.raises(ArgumentError, match=message):
        build()
