"""The layer of automatic precision, on any device: what is converted, what is kept, what it costs when it is off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.autocast import PRECISION, forget_conversions, switch
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_core.keys import AUTOCAST


@pytest.fixture
def on() -> Iterator[None]:
    switch("ref", torch.float16)
    yield
    switch("ref", None)
    forget_conversions()
    assert not STATE.include & AUTOCAST


def test_products_are_low_and_powers_are_wide(on: None) -> None:
    x = torch.ones(2, 2, device="ref")
    assert (x @ x).dtype is torch.float16
    assert (x @ x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert x.to(torch.float16).exp().dtype is torch.float32
    assert x.to(torch.float16).add(1).dtype is torch.float16


def test_operators_without_a_rule_have_the_closure_of_the_layer_below(on: None) -> None:
    x = torch.ones(2, device="ref")
    add, key = OPERATORS["add"], x._key
    assert add.below(key | AUTOCAST) is add.below(key)
    matmul = COMPOSITES["matmul"]
    assert matmul.below(key | AUTOCAST) is not matmul.below(key)


def test_parameters_are_kept(on: None) -> None:
    x, w = torch.ones(2, 2, device="ref"), torch.ones(2, 2, device="ref", requires_grad=True)
    (x @ w).sum().backward()
    kept = [result for _, _, result in PRECISION.converted.values()]
    assert [k.dtype for k in kept] == [torch.float16]
    assert w.grad.dtype is torch.float32
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_off_is_off() -> None:
    x = torch.ones(2, 2, device="ref")
    assert (x @ x).dtype is torch.float32
    assert not PRECISION.enabled
