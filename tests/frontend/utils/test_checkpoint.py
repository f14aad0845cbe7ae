"""Checkpointing gives the gradients of the plain function, and keeps less."""

from __future__ import annotations

import gc
import math
import re
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, AutogradError
from tensocket.utils.checkpoint import (
    CheckpointError,
    DefaultDeviceType,
    _Inputs,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    get_device_states,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    set_device_states,
)

REENTRANT = pytest.mark.parametrize("reentrant", [False, True])


def leaves() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.randn(4, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)


def gradients(function: Callable[..., Any], *tensors: Any) -> list[Any]:
    function(*tensors).sum().backward()
    found = [t.grad.tolist() for t in tensors]
    for t in tensors:
        t.grad = None
    return found


def block(w: Any, x: Any) -> Any:
    return torch.tanh(x @ w).exp() * x


@REENTRANT
def test_gradients_are_those_of_the_function(reentrant: bool) -> None:
    w, x = leaves()
    calls: list[int] = []

    def counted(w: Any, x: Any) -> Any:
        calls.append(1)
        return block(w, x)

    expected = gradients(block, w, x)
    assert gradients(lambda w, x: checkpoint(counted, w, x, use_reentrant=reentrant), w, x) == expected
    assert len(calls) == 2
    with torch.no_grad():
        assert checkpoint(counted, w, x, use_reentrant=reentrant).tolist() == block(w, x).tolist()
    assert len(calls) == 3


@REENTRANT
def test_the_same_random_numbers_are_drawn(reentrant: bool) -> None:
    _, x = leaves()
    masks: list[Any] = []

    def dropped(x: Any) -> Any:
        mask = torch.rand(x.shape)
        masks.append(mask.tolist())
        return x * mask

    y = checkpoint(dropped, x, use_reentrant=reentrant)
    after = torch.get_rng_state().tolist()
    y.sum().backward()
    assert torch.get_rng_state().tolist() == after
    assert masks[0] == masks[1] == x.grad.tolist()
    masks.clear()
    y = checkpoint(lambda x: dropped(x) ** 2, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    assert masks[0] != masks[1]


@REENTRANT
def test_several_results_and_arguments_that_are_no_tensors(reentrant: bool) -> None:
    w, x = leaves()

    def function(w: Any, power: int, x: Any) -> Any:
        return x @ w, (x**power).sum(), "text"

    first, second, text = checkpoint(function, w, 3, x, use_reentrant=reentrant)
    assert text == "text"
    (first.sum() + second).backward()
    expected = [w.grad.tolist(), x.grad.tolist()]
    w.grad = x.grad = None
    first, second, _ = function(w, 3, x)
    (first.sum() + second).backward()
    assert [w.grad.tolist(), x.grad.tolist()] == expected


def test_keywords_closures_and_graphs_in_arguments() -> None:
    w, x = leaves()

    def function(x: Any, *, scale: Any = 1.0) -> Any:
        return block(w, x) * scale

    def plain(x: Any) -> Any:
        return function(x * 2, scale=x)

    expected = gradients(plain, x)
    w.grad = None
    assert gradients(lambda x: checkpoint(function, x * 2, scale=x, use_reentrant=False), x) == expected
    assert w.grad is not None
    inner = torch.autograd.grad(checkpoint(function, x, use_reentrant=False).sum(), x)[0]
    assert inner.tolist() == torch.autograd.grad(function(x).sum(), x)[0].tolist()


def test_nested_checkpoints() -> None:
    w, x = leaves()
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return block(w, x)

    def twice(x: Any) -> Any:
        return checkpoint(counted, checkpoint(counted, x, use_reentrant=False), use_reentrant=False)

    expected = gradients(lambda x: block(w, block(w, x)), x)
    assert gradients(lambda x: checkpoint(twice, x, use_reentrant=False), x) == expected
    assert len(calls) > 4


def test_saved_values_are_not_kept() -> None:
    _, x = leaves()
    alive: list[weakref.ref[Any]] = []

    def function(x: Any) -> Any:
        y = x.exp()
        z = y.exp()
        alive.extend([weakref.ref(y._array), weakref.ref(z._array)])
        return z.sum()

    gc.disable()
    try:
        kept = function(x)
        assert [r() is not None for r in alive] == [True, True]
        alive.clear()
        result = checkpoint(function, x, use_reentrant=False)
        assert [r() for r in alive] == [None, None]
        result.backward()
        x.grad = None
        node = weakref.ref(result.grad_fn)
        del result
        assert node() is None
    finally:
        gc.enable()
    assert kept is not None


def test_graphs_can_be_retained_and_differentiated_twice() -> None:
    w, x = leaves()
    y = checkpoint(block, w, x, use_reentrant=False).sum()
    first = torch.autograd.grad(y, x, retain_graph=True)[0].tolist()
    assert torch.autograd.grad(y, x)[0].tolist() == first
    with pytest.raises(AutogradError, match="a second time"):
        y.backward()

    def penalty(function: Callable[..., Any]) -> Any:
        grad = torch.autograd.grad(function().sum(), x, create_graph=True)[0]
        return torch.autograd.grad((grad * grad).sum(), (w, x))

    plain = penalty(lambda: block(w, x))
    checked = penalty(lambda: checkpoint(block, w, x, use_reentrant=False))
    for a, b in zip(plain, checked, strict=True):
        assert torch.allclose(a, b) if hasattr(torch, "allclose") else (a - b).abs().max().item() < 1e-5


def test_the_second_run_stops_early() -> None:
    _, x = leaves()
    ends: list[int] = []

    def function(x: Any) -> Any:
        y = x.exp().exp()
        ends.append(1)
        return y

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(ends) == 1
    checkpoint(function, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(ends) == 3
    with set_checkpoint_early_stop(False):
        y = checkpoint(function, x, use_reentrant=False)
    y.sum().backward()
    assert len(ends) == 5


def test_contexts_of_both_runs() -> None:
    _, x = leaves()
    order: list[str] = []

    @contextmanager
    def noted(name: str) -> Any:
        order.append(name)
        yield

    checkpoint(torch.exp, x, use_reentrant=False, context_fn=lambda: (noted("first"), noted("second"))).sum().backward()
    assert order == ["first", "second"]


def test_sequences() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 2))
    x = torch.randn(3, 4, requires_grad=True)
    expected = gradients(layers, x)
    for reentrant in (False, True):
        assert gradients(lambda x, r=reentrant: checkpoint_sequential(layers, 2, x, use_reentrant=r), x) == expected
    assert checkpoint_sequential([torch.sin, torch.exp], 1, x, use_reentrant=False).tolist() == x.sin().exp().tolist()


def changing(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[], None]:
    """Backward through a checkpoint of a function that is another one when it runs again."""

    def run() -> None:
        _, x = leaves()
        runs = iter((first, second))
        checkpoint(lambda x: next(runs)(x), x, use_reentrant=False).sum().backward()

    return run


def test_values_outside_of_backward_are_computed_each_time() -> None:
    _, x = leaves()
    runs: list[int] = []

    def function(x: Any) -> Any:
        runs.append(1)
        return x.exp()

    y = checkpoint(function, x, use_reentrant=False)
    expected = y.tolist()
    node = y.grad_fn
    assert node._saved_result.tolist() == expected
    assert node._saved_result.tolist() == expected
    assert len(runs) == 3
    y.sum().backward()
    assert len(runs) == 4
    assert x.grad.tolist() == expected


def test_values_are_unpacked_once_in_a_pass() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            with pytest.raises(CheckpointError, match="what the second run computed is kept until it is unpacked"):
                _ = ctx.saved_tensors
            return 2 * x * grad

    x = torch.tensor([3.0], requires_grad=True)
    y = checkpoint(Twice.apply, x, use_reentrant=False)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12.0]


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_checkpointed_function_may_take_gradients(early_stop: bool) -> None:
    def slope(x: Any) -> Any:
        with torch.enable_grad():
            return torch.autograd.grad(checkpoint(lambda v: v.sin().exp(), x, use_reentrant=False).sum(), x,
                                       create_graph=True)[0]

    x = torch.tensor([0.3, -1.2], requires_grad=True, dtype=torch.float64)
    with set_checkpoint_early_stop(early_stop):
        y = checkpoint(lambda v: slope(v).sin(), x, use_reentrant=False)
        found = torch.autograd.grad(y.sum(), x)[0]
    v = np.array([0.3, -1.2])
    first = np.exp(np.sin(v)) * np.cos(v)
    second = np.exp(np.sin(v)) * (np.cos(v) ** 2 - np.sin(v))
    assert found.tolist() == pytest.approx((np.cos(first) * second).tolist(), rel=1e-12)


@pytest.mark.parametrize(("run", "kind", "message"), [
    (changing(lambda x: x.exp() * x, lambda x: x * 2), CheckpointError,
     "[checkpoint] 0 saved tensors in the second run and 3 in the first — both runs save the same tensors"),
    (changing(lambda x: x.exp(), lambda x: (x[0] * 1).exp()), CheckpointError,
     "saved tensors that differ between both runs, 0: float32[3, 4] on cpu and float32[4] on cpu"),
    (lambda: checkpoint(torch.exp, leaves()[1], use_reentrant=False, determinism_check="x"), ArgumentError,
     "[checkpoint] determinism_check 'x' — the check is 'default' or 'none'"),
    (lambda: checkpoint(torch.exp, leaves()[1], use_reentrant=True, key=1), ArgumentError,
     "[checkpoint] keyword arguments key with use_reentrant=True — the re-entrant form passes arguments by position"),
    (lambda: checkpoint(torch.exp, leaves()[1], use_reentrant=True, context_fn=lambda: None), ArgumentError,
     "[checkpoint] context_fn with use_reentrant=True — contexts belong to the other form"),
    (lambda: torch.autograd.grad(checkpoint(torch.exp, x := leaves()[1], use_reentrant=True).sum(), x), AutogradError,
     "[checkpoint] grad, or backward with inputs=, with use_reentrant=True — "
     "the inner backward accumulates into all leaves"),
    (lambda: checkpoint(lambda x: x.detach(), leaves()[1], use_reentrant=True).sum().backward(), AutogradError,
     "[checkpoint] a function none of whose results requires grad — a checkpointed function has a gradient"),
    (lambda: checkpoint_sequential([torch.exp], 2, leaves()[1], use_reentrant=False), ArgumentError,
     "[checkpoint_sequential] 2 segments of 1 functions — there is at least one function in a segment"),
    (lambda: checkpoint_sequential([torch.exp], 1, leaves()[1], use_reentrant=False, key=1), ArgumentError,
     "[checkpoint_sequential] keyword arguments key — there is only preserve_rng_state"),
], ids=range(9))
def test_refusals(run: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        run()
    _, x = leaves()
    checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
    assert x.grad is not None


def test_differences_can_be_ignored() -> None:
    _, x = leaves()
    runs = iter((lambda x: x.exp(), lambda x: x.exp().double().exp()))
    y = checkpoint(lambda x: next(runs)(x), x, use_reentrant=False, determinism_check="none")
    y.sum().backward()
    assert x.grad.tolist() == x.exp().tolist()


def test_the_place_of_arguments_takes_no_gradient() -> None:
    with pytest.raises(AutogradError, match="the place of arguments — it takes no part in backward — use"):
        _Inputs.backward(None, torch.zeros(0))


def test_warnings() -> None:
    _, x = leaves()
    with pytest.warns(UserWarning, match="pass use_reentrant explicitly"):
        checkpoint(torch.exp, x)
    with pytest.warns(UserWarning, match="no input requires grad"):
        checkpoint(torch.exp, x.detach(), use_reentrant=True)


def test_random_states_of_devices_are_kept():
    assert get_device_states(torch.ones(2), [3]) == ([], [])
    device = "ref:0"
    x = torch.ones(2, device=device)
    indices, states = get_device_states(x, {"y": [x]}, 3)
    assert indices == [0, 0]
    first = torch.rand(3, device=device).tolist()
    set_device_states(indices, states, device_type="ref")
    assert torch.rand(3, device=device).tolist() == first
    assert DefaultDeviceType.get_device_type() == "cuda"
    DefaultDeviceType.set_device_type("ref")
    try:
        set_device_states(indices, states)
    finally:
        DefaultDeviceType.set_device_type()
    assert torch.rand(3, device=device).tolist() == first
    set_device_states(indices, states, device_type="meta")
    assert torch.rand(3, device=device).tolist() != first


def test_states_are_of_one_kind_of_device():
    if "opencl:0" not in torch.available_devices():
        pytest.skip("a second kind of device")
    with pytest.warns(UserWarning, match="only the states of the first kind"):
        get_device_states(torch.ones(1, device="ref:0"), torch.ones(1, device="opencl:0"))


def test_arguments_are_cut_off_from_their_graph():
    x = torch.ones(2, requires_grad=True) * 2
    cut, plain, number = detach_variable((x, torch.ones(1), 3))
    assert cut.is_leaf
    assert cut.requires_grad
    assert not plain.requires_grad
    assert number == 3
    check_backward_validity([cut, plain])
    with pytest.warns(UserWarning, match="no input requires grad"):
        check_backward_validity([plain, 3])
    with pytest.raises(AutogradError, match="the arguments are a tuple"):
        detach_variable([x])


@pytest.mark.parametrize("enabled", [True, False, None])
def test_checkpoints_run_in_debug_blocks(enabled):
    x = torch.ones(2, requires_grad=True)
    with set_checkpoint_debug_enabled(enabled):
        checkpoint(lambda a: a.exp(), x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == pytest.approx([math.e, math.e])
