"""Operators that a device lacks run on the host only where that is allowed, and every use is counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.device import open_device
from tensocket_core.dispatch import fallback
from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator
from tensocket_plugins.contract.registry import registry

NAME = "lacking"
needs_cpu = pytest.mark.skipif(not torch.is_available("cpu"), reason="the CPU backend is not installed")


@pytest.fixture(scope="module", autouse=True)
def lacking_device(make_plain: Callable[..., ModuleType]) -> Iterator[None]:
    """A device that adds, but has no exponential function and no matrix product."""
    registry().add(make_plain(NAME, frozenset({"exp", "matmul"})), name=NAME, distribution="the tests of core")
    yield
    registry().remove(NAME)


@pytest.fixture(autouse=True)
def empty_ledger() -> Iterator[None]:
    torch.reset_fallback_ledger()
    yield
    torch.set_fallback(None)
    torch.reset_fallback_ledger()


def lacking(values: Any, **options: Any) -> Any:
    return torch.tensor(values, device=NAME, **options)


def test_nothing_falls_back_unless_it_is_allowed() -> None:
    assert fallback._TARGET[0] is None
    x = lacking([0.0, 1.0])
    for _ in range(2):
        with pytest.raises(UnsupportedOperator, match=r"\[exp\] float32 on lacking:0 — .*'exp' — .*set_fallback"):
            x.exp()
    assert torch.fallback_ledger() == []
    assert (x + 1).tolist() == [1.0, 2.0]


def test_only_host_resident_devices_are_fallbacks() -> None:
    with pytest.raises(ArgumentError, match=r"\[set_fallback\] device 'ref' — operators fall back to a host-res"):
        torch.set_fallback("ref")
    assert fallback._TARGET[0] is None


def test_declared_host_operators_are_counted() -> None:
    torch.manual_seed(0)
    torch.randperm(5, device=NAME)
    torch.randperm(6, device=NAME)
    (record,) = torch.fallback_ledger()  # with the bytes of 5 and 6 keys
    assert record == torch.LedgerRecord("randperm", "int64", "lacking:0", "host_kernel", 2, 8 * 11)
    torch.reset_fallback_ledger()
    assert torch.fallback_ledger() == []


@needs_cpu
def test_allowed_operators_run_on_the_host_and_come_back() -> None:
    torch.set_fallback("cpu")
    assert fallback._TARGET[0] == "cpu"
    x = lacking([0.0, 1.0])
    y = x.exp()
    assert str(y.device) == "lacking:0"
    np.testing.assert_allclose(y.tolist(), np.exp([0.0, 1.0]), rtol=1e-6)
    x.exp()
    (record,) = torch.fallback_ledger()
    # Two floats there and two back, twice.
    assert record == torch.LedgerRecord("exp", "float32", "lacking:0", "fallback", 2, 2 * (8 + 8))


@needs_cpu
def test_operators_of_several_arguments_and_in_place_ones() -> None:
    torch.set_fallback("cpu")
    a = lacking([[1.0, 2.0], [3.0, 4.0]])
    assert (a @ a).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    x = lacking([0.0, 1.0])
    assert x.exp_() is x
    np.testing.assert_allclose(x.tolist(), np.exp([0.0, 1.0]), rtol=1e-6)
    assert [(r.operator, r.count) for r in torch.fallback_ledger()] == [("exp_", 1), ("matmul", 1)]
    assert (a + a).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert len(torch.fallback_ledger()) == 2  # addition is the device's own


@needs_cpu
def test_gradients_fall_back_too() -> None:
    torch.set_fallback("cpu")
    x = lacking([0.5, 1.0], requires_grad=True)
    x.exp().sum().backward()
    assert str(x.grad.device) == "lacking:0"
    np.testing.assert_allclose(x.grad.tolist(), np.exp([0.5, 1.0]), rtol=1e-6)


@needs_cpu
def test_forbidding_again_takes_effect_at_once() -> None:
    torch.set_fallback("cpu")
    x = lacking([0.0])
    assert x.exp().tolist() == [1.0]
    torch.set_fallback(None)
    with pytest.raises(UnsupportedOperator):
        x.exp()


@needs_cpu
def test_undeclared_host_operators_need_the_fallback() -> None:
    state = open_device(NAME)
    declared = state.runtime.profile
    state.runtime.profile = dataclasses.replace(declared, host_kernels=frozenset())
    try:
        with pytest.raises(UnsupportedOperator, match=r"\[randperm\] int64 on lacking:0 — the backend neither runs"):
            torch.randperm(3, device=NAME)
        torch.set_fallback("cpu")
        assert sorted(torch.randperm(3, device=NAME).tolist()) == [0, 1, 2]
        assert [(r.operator, r.kind) for r in torch.fallback_ledger()] == [("randperm", "fallback")]
    finally:
        state.runtime.profile = declared
