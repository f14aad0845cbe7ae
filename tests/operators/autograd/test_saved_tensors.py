"""Hooks on saved tensors, and anomaly mode."""

from __future__ import annotations

import re
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.autograd import anomaly
from tensocket_core.recording import RECORDING_SLOW_PATHS
from tensocket_operators import functions as F
from tensocket_operators.autograd import Function, graph
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError


@pytest.fixture(autouse=True)
def nothing_special() -> Iterator[None]:
    assert RECORDING_SLOW_PATHS == []
    yield
    assert RECORDING_SLOW_PATHS == []


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


# -------------------------------------------------------------------------------------------------- saved tensors hooks


def test_saved_tensors_go_through_the_hooks() -> None:
    x = leaf([1.0, 2.0])
    order: list[str] = []

    def pack(tensor: Any) -> Any:
        order.append("pack")
        assert not tensor.requires_grad
        return tensor.numpy(force=True).copy()

    def unpack(stored: Any) -> Any:
        order.append("unpack")
        return torch.tensor(stored)

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).exp().sum()
    assert order == ["pack", "pack", "pack"]
    y.backward(retain_graph=True)
    assert order[3:] == ["unpack"] * 3
    v = np.array([1.0, 2.0])
    np.testing.assert_allclose(x.grad.tolist(), 2 * v * np.exp(v * v))
    y.backward()
    np.testing.assert_allclose(x.grad.tolist(), 4 * v * np.exp(v * v))
    with pytest.raises(AutogradError, match="a second time"):
        y.backward()


@pytest.mark.parametrize("function", [lambda x: x * x * x, lambda x: x.exp() * x, lambda x: (x * 2).tanh()])
def test_second_derivatives_through_hooks(function: Any) -> None:
    def slopes(x: Any) -> tuple[Any, Any]:
        first = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
        return first.tolist(), torch.autograd.grad((first * first).sum(), x)[0].tolist()

    x = leaf([0.5, -1.5])
    expected = slopes(x)
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        assert slopes(x) == expected


def test_a_packed_leaf_accumulates() -> None:
    x = leaf([3.0])
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x * x
    first = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    first.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_the_innermost_hooks_are_used() -> None:
    x = leaf([1.0])
    used: list[str] = []
    with graph.saved_tensors_hooks(lambda t: used.append("outer") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: used.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert used == ["inner", "outer"]


def test_what_hooks_compute_is_not_packed() -> None:
    x = leaf([1.0])
    count: list[int] = []

    def pack(tensor: Any) -> Any:
        count.append(1)
        (leaf([2.0]) * leaf([3.0])).exp()
        return tensor

    with graph.saved_tensors_hooks(pack, lambda t: t):
        x.exp()
    assert len(count) == 1


def test_hooks_of_functions_and_of_versions() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a, None)
            return a * a

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 * ctx.saved_tensors[0]

    x = leaf([3.0])
    y = x * 1
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = Square.apply(y)
    y.add_(1)  # a clone was packed, so that this is not an error
    z.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_hooks_belong_to_a_thread() -> None:
    x = leaf([1.0])
    packed: list[Any] = []
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        thread = threading.Thread(target=x.exp)
        thread.start()
        thread.join()
    assert packed == []


def test_packed_values_die_with_the_graph() -> None:
    class Stored:
        pass

    stored = Stored()
    reference = weakref.ref(stored)
    with graph.saved_tensors_hooks(lambda t, s=[stored]: s.pop(), lambda s: pytest.fail("never unpacked")):
        y = leaf([1.0]).exp()
    del stored
    assert reference() is not None
    del y
    assert reference() is None


def test_saved_tensors_can_wait_on_the_host() -> None:
    pytest.importorskip("tensocket_cpu")
    x = leaf([1.0, 2.0])
    with graph.save_on_cpu(pin_memory=True):
        y = x * x
    packed = y.grad_fn.saved[0]
    assert str(packed._stored[1].device) == "cpu"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert str(x.grad.device) == "ref:0"


def bad_pack(tensor: Any) -> Any:
    return tensor.add_(1)


def under_hooks(pack: Any, unpack: Any) -> Any:
    with graph.saved_tensors_hooks(pack, unpack):
        return (leaf([1.0]) * 2).exp()


def disabled() -> None:
    with graph.disable_saved_tensors_hooks("not here"):
        under_hooks(lambda t: t, lambda t: t)


def disabled_inside() -> None:
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t), graph.disable_saved_tensors_hooks("not now"):
        pass


@pytest.mark.parametrize(("run", "kind", "message"), [
    (lambda: under_hooks(bad_pack, lambda t: t), AutogradError,
     "[saved_tensors_hooks] a tensor that the pack hook modified in place — pack hooks leave their argument as it is"),
    (lambda: under_hooks(lambda t: t, lambda t: 3).backward(), ArgumentTypeError,
     "[saved_tensors_hooks] int from the unpack hook of ExpBackward0 — unpack hooks return a tensor"),
    (lambda: graph.saved_tensors_hooks(1, 2), ArgumentTypeError, "[saved_tensors_hooks] a hook of type int"),
    (disabled, AutogradError, "[saved_tensors_hooks] not here — hooks on saved tensors are disabled here"),
    (disabled_inside, AutogradError,
     "[disable_saved_tensors_hooks] not now — no hooks are active when they are disabled"),
], ids=range(5))
def test_refusals(run: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        run()
    with graph.disable_saved_tensors_hooks("nothing to disable"):
        leaf([1.0]).exp().backward()


# ------------------------------------------------------------------------------------------------------------- anomaly


def test_errors_show_the_forward_line() -> None:
    x = leaf([-1.0, 4.0])
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = torch.autograd.detect_anomaly()
    message = (r"\[backward\] NaN in gradient 0 computed by SqrtBackward0 — "
               "gradients are checked for NaN in anomaly mode — look")
    with mode:
        y = x.sqrt()  # the failing call
        z = (y * 2).sum()
        with pytest.raises(AutogradError, match=message) as caught, pytest.warns(UserWarning, match="Error") as warned:
            z.backward()
    assert "Error detected in SqrtBackward0" in str(warned[0].message)
    assert isinstance(caught.value, RuntimeError)
    assert "y = x.sqrt()  # the failing call" in str(warned[0].message)
    assert not anomaly.is_anomaly_enabled()


def test_errors_of_functions_show_their_call() -> None:
    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise KeyError("broken")

    x = leaf([1.0])
    before = Broken.apply(x)
    with torch.autograd.set_detect_anomaly(True):
        after = Broken.apply(x)  # the line to find
        with pytest.raises(KeyError), pytest.warns(UserWarning, match="the line to find"):
            after.backward()
        with pytest.raises(KeyError), pytest.warns(UserWarning, match="No forward pass information available"):
            before.backward()


def test_nan_is_not_looked_for_unless_wanted() -> None:
    x = leaf([-1.0])
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert anomaly.is_anomaly_enabled()
        assert not anomaly.is_anomaly_check_nan_enabled()
        x.sqrt().sum().backward()
    assert np.isnan(x.grad.item())
    assert anomaly.is_anomaly_check_nan_enabled()


def test_anomaly_mode_as_a_function() -> None:
    torch.autograd.set_detect_anomaly(True)
    try:
        y = leaf([1.0]).exp()
        assert any("y = leaf([1.0]).exp()" in line for line in y.grad_fn.extras.trace)
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert leaf([1.0]).exp().grad_fn.extras is None


def test_errors_of_second_derivatives_show_both_lines() -> None:
    x = leaf([0.0])
    with torch.autograd.set_detect_anomaly(True):
        y = x.sqrt()  # made here
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            first = torch.autograd.grad(y, x, torch.ones(1, dtype=torch.float64).requires_grad_(), create_graph=True)[0]
        with pytest.raises(AutogradError, match="NaN"), pytest.warns(UserWarning, match="Traceback") as warned:
            (first * 0).sum().backward()
    texts = [str(w.message) for w in warned]
    assert texts[0].startswith("Error detected in")
    assert "during the gradient of SqrtBackward0" in texts[1]
    assert "y = x.sqrt()  # made here" in texts[1]


# ------------------------------------------------------------------------------------------------------ in transforms


def packing(function: Any, pack: Any, unpack: Any) -> Any:
    def run(*args: Any) -> Any:
        with graph.saved_tensors_hooks(pack, unpack):
            return function(*args)

    return run


@pytest.mark.parametrize(("pack", "unpack"), [
    (lambda x: x, lambda x: x), (lambda x: x * 2, lambda x: x / 2), (lambda x: [x.clone()], lambda held: held[0])])
def test_hooks_keep_the_graphs_of_other_levels(pack: Any, unpack: Any) -> None:
    grad, vmap, jvp = torch.transforms.grad, torch.transforms.vmap, torch.transforms.jvp
    x = torch.tensor([0.5, 2.0], dtype=torch.float64)
    v = np.array([0.5, 2.0])
    first, second = v * np.cos(v) + np.sin(v), 2 * np.cos(v) - v * np.sin(v)

    def product(t: Any) -> Any:
        return (t.sin() * t).sum()

    inside = packing(product, pack, unpack)
    for function in (grad(inside), packing(grad(product), pack, unpack), vmap(grad(inside))):
        result = function(x)
        np.testing.assert_allclose(result.tolist(), first)
        assert not result.requires_grad
    for function in (lambda t: grad(inside)(t).sum(), lambda t: packing(grad(product), pack, unpack)(t).sum()):
        np.testing.assert_allclose(grad(function)(x).tolist(), second)
    tangent = jvp(grad(inside), (x,), (torch.ones(2, dtype=torch.float64),))[1]
    np.testing.assert_allclose(tangent.tolist(), second)

    z = leaf([0.5, 2.0])  # recorded outside, saved inside
    grad(packing(lambda t: t.exp().sum(), pack, unpack))(z).sum().backward()
    np.testing.assert_allclose(z.grad.tolist(), np.exp(v))
    packing(lambda t: vmap(product)(t).sum(), pack, unpack)(z * 1).backward()
    np.testing.assert_allclose(z.grad.tolist(), np.exp(v) + first)


def test_a_warning_that_is_an_error_does_not_hide_the_failure_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.autograd.set_detect_anomaly(True):
        x = torch.ones(2, requires_grad=True)
        y = x + 1
        z = y ** 2
        y += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(AutogradError, match="modified by an inplace operation"):
                z.sum().backward()
    assert "Error detected in PowBackward0" in capsys.readouterr().err


@pytest.mark.parametrize("factor", [
    lambda x: F.linalg_qr(x)[1], lambda x: F.linalg_qr(x.mT)[1], lambda x: F.linalg_svd(x, False)[1]])
def test_factored_matrices_are_not_saved(factor: Any) -> None:
    """The derivatives are functions of the factors: the matrix may change after the call."""
    values = [[2.0, -1.0], [0.5, 3.0], [1.5, 0.25]]
    made = []
    for change in (False, True):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        work = x * 1
        result = factor(work)
        if change:
            work.mul_(7)
        result.sum().backward()
        made.append(x.grad.tolist())
    assert made[0] == made[1]
    step = 1e-6
    for i, j in ((0, 1), (2, 0)):
        ends = []
        for sign in (1, -1):
            moved = np.array(values)
            moved[i, j] += sign * step
            ends.append(factor(torch.tensor(moved)).sum().item())
        assert made[0][i][j] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)
