"""Operators without derivative: their results belong to the graph, and a backward pass through them fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_operators.differentiation.delayed import forbid_backward
from tensocket_plugins.contract.errors import AutogradError

CALLS: dict[str, Callable[[Any], Any]] = {
    "unique": lambda x: F.unique(x),
    "unique_consecutive": lambda x: F.unique_consecutive(x, return_counts=True)[0],
    "heaviside": lambda x: F.heaviside(x, torch.ones(4)),
    "bincount": lambda x: F.bincount(torch.tensor([0, 2, 2, 1]), x),
    "histogram": lambda x: F.histogram(x, 3)[1],
    "histogramdd": lambda x: F.histogramdd(x.reshape(2, 2), [2, 2])[0],
    "floor_divide": lambda x: x // 2,
    "geqrf": lambda x: F.geqrf(x.reshape(2, 2))[1],
    "linalg_ldl_factor": lambda x: F.linalg_ldl_factor(x.reshape(2, 2))[0],
    "linalg_ldl_factor_ex": lambda x: F.linalg_ldl_factor_ex(x.reshape(2, 2))[0],
}


@pytest.fixture(autouse=True)
def on_the_host() -> None:
    pytest.importorskip("tensocket_cpu")
    torch.set_default_device("cpu")


@pytest.mark.parametrize("name", CALLS)
def test_gradients_do_not_vanish_silently(name: str) -> None:
    x = torch.tensor([0.5, 1.5, -0.75, 2.0], requires_grad=True)
    y = CALLS[name](x)
    assert y.requires_grad
    expected = re.escape(f"[backward] a result of {name}: the derivative for {name} is not implemented — gradients "
                         f"pass through operators with a derivative only — detach() what {name} is given")
    with pytest.raises(AutogradError, match=expected):
        (y.sum() + x.sum()).backward()
    with torch.no_grad():
        assert not CALLS[name](x).requires_grad
    assert not CALLS[name](x.detach()).requires_grad


@pytest.mark.parametrize("divide", [
    lambda x: 2 // x, lambda x: F.floor_divide(torch.ones(4), x), lambda x: (x * 1).floor_divide_(2)])
def test_every_form_of_floor_divide_has_no_derivative(divide: Callable[[Any], Any]) -> None:
    y = divide(torch.tensor([0.5, 1.5, -0.75, 2.0], requires_grad=True))
    assert y.grad_fn.name() == "NotImplemented"
    with pytest.raises(AutogradError, match="the derivative for floor_divide is not implemented"):
        y.sum().backward()


def test_bends_in_place_with_negative_slopes_have_no_way_back() -> None:
    x = torch.tensor([0.5, -1.5], requires_grad=True)
    y = forbid_backward("leaky_relu_", -2.0, x * 1)
    with pytest.raises(AutogradError, match=r"\[leaky_relu_\] a result with slope -2.0 in place of the input — "
                                            "gradients in place take slopes from 0 — work out of place"):
        y.sum().backward()
    assert not forbid_backward("leaky_relu_", -2.0, x.detach()).requires_grad


def test_rounded_quotients_and_remainders_have_one() -> None:
    x = torch.tensor([0.5, 1.5, -0.75, 2.0], requires_grad=True)
    for mode in ("floor", "trunc"):
        F.div(x, 2.0, rounding_mode=mode).sum().backward()
        assert x.grad.tolist() == [0.0] * 4
    (2.0 % x).sum().backward()
    assert x.grad.tolist() == [-4.0, -1.0, 3.0, -1.0]


def test_results_that_are_integers_stay_out_of_the_graph() -> None:
    x = torch.tensor([2.0, 1.0, 2.0], requires_grad=True)
    values, groups, counts = F.unique(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), groups.tolist(), counts.tolist()) == ([1, 2], [1, 0, 1], [1, 2])
    assert [t.requires_grad for t in (values, groups, counts)] == [True, False, False]
    assert not F.histogram(x.detach(), 3)[0].requires_grad
