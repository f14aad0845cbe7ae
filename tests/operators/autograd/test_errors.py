"""Errors of autograd: class, PyTorch's class behind it, form, and an engine that works afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import graph
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DtypeError,
    ShapeError,
    TensocketError,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def leaf(*shape: int, **options: Any) -> Any:
    return torch.ones(*shape, requires_grad=True, **options)


def freed() -> None:
    y = leaf(2).exp().sum()
    y.backward()
    y.backward()


def modified() -> None:
    y = leaf(2) * 1
    z = y * y
    y.add_(1)
    z.sum().backward()


def hooked(hook: Callable[[Any], Any]) -> None:
    y = leaf(2) * 1
    y.register_hook(hook)
    y.sum().backward()


def node_hooked(hook: Callable[..., Any]) -> None:
    y = leaf(2) * 1
    y.grad_fn.register_hook(hook)
    y.sum().backward()


def own_gradient() -> None:
    x = leaf(2)
    x.grad = x


def assigned(value: Any) -> Callable[[], None]:
    return lambda: setattr(leaf(2), "grad", value())


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # roots of backward
    (lambda: f(1).backward(), AutogradError, RuntimeError, "backward",
     "backward starts from a tensor that requires grad"),
    (lambda: leaf(2).backward(), AutogradError, RuntimeError, "backward",
     "a gradient is created implicitly for one element only"),
    (lambda: leaf(2).backward(f(3)), ShapeError, RuntimeError, "backward", "a gradient has its tensor's shape"),
    (lambda: leaf(1).backward(f(1).to(torch.complex64)), DtypeError, RuntimeError, "backward",
     "gradients are complex exactly where their tensors are"),
    (lambda: leaf(1, dtype=torch.complex64).backward(), AutogradError, RuntimeError, "backward",
     "a gradient is created implicitly for real numbers only"),
    (lambda: torch.autograd.backward([leaf(1), leaf(1)], [None]), AutogradError, RuntimeError, "backward",
     "there is one gradient for each tensor"),
    (lambda: torch.autograd.backward(leaf(1), 1.0), ArgumentTypeError, TypeError, "backward",
     "gradients are tensors or None"),
    (lambda: torch.autograd.backward(3), ArgumentTypeError, TypeError, "backward",
     "gradients belong to tensors or gradient edges"),
    (lambda: torch.autograd.backward(graph.get_gradient_edge(leaf(1))), AutogradError, RuntimeError, "backward",
     "a gradient is created implicitly for tensors only"),
    (lambda: leaf(1).backward(inputs=[]), AutogradError, RuntimeError, "backward", "there is at least one input"),
    # outputs and inputs of grad
    (lambda: torch.autograd.grad(leaf(1), []), AutogradError, RuntimeError, "grad", "there is at least one input"),
    (lambda: torch.autograd.grad(leaf(1), f(1)), AutogradError, RuntimeError, "grad",
     "gradients are taken with respect to tensors that require grad"),
    (lambda: torch.autograd.grad(leaf(1), leaf(1)), AutogradError, RuntimeError, "grad",
     "every input is used in the outputs"),
    (lambda: torch.autograd.grad(leaf(1), "x"), AutogradError, RuntimeError, "grad",
     "gradients belong to tensors or gradient edges"),
    (lambda: torch.autograd.grad(leaf(1), leaf(1), allow_unused=False, materialize_grads=True), ArgumentError,
     ValueError, "grad", "unused inputs are allowed where zeros stand for their gradients"),
    (lambda: torch.autograd.grad(leaf(2), leaf(1), torch.tensor(1.0), is_grads_batched=True), ShapeError, RuntimeError,
     "grad", "batched gradients have a first dimension of one size"),
    # the graph
    (freed, AutogradError, RuntimeError, "backward", "the graph's saved tensors were freed by the first backward"),
    (modified, AutogradError, RuntimeError, "backward",
     "one of the variables needed for gradient computation has been modified by an inplace operation"),
    (lambda: leaf(1).add_(1), AutogradError, RuntimeError, "add_",
     "a leaf that requires grad is not modified while gradients are recorded"),
    (lambda: graph.get_gradient_edge(f(1)), AutogradError, RuntimeError, "get_gradient_edge",
     "only tensors that require grad have a gradient edge"),
    # hooks
    (lambda: f(1).register_hook(print), AutogradError, RuntimeError, "register_hook",
     "only tensors with gradients have hooks"),
    (lambda: f(1).retain_grad(), AutogradError, RuntimeError, "retain_grad",
     "only tensors with gradients can keep one"),
    (lambda: (leaf(1) * 1).register_post_accumulate_grad_hook(print), AutogradError, RuntimeError,
     "register_post_accumulate_grad_hook", "only leaves accumulate gradients"),
    (lambda: f(1).register_post_accumulate_grad_hook(print), AutogradError, RuntimeError,
     "register_post_accumulate_grad_hook", "only tensors with gradients have hooks"),
    (lambda: hooked(lambda grad: 3), ArgumentTypeError, TypeError, "hook", "a hook returns a tensor or None"),
    (lambda: hooked(lambda grad: f(3)), ShapeError, RuntimeError, "hook", "a hook keeps the shape of the gradient"),
    (lambda: hooked(lambda grad: grad.double()), DtypeError, RuntimeError, "hook",
     "a hook keeps dtype and device of the gradient"),
    (lambda: node_hooked(lambda inputs, outputs: (inputs[0],) * 3), AutogradError, RuntimeError, "hook",
     "a node's hook returns as many gradients as it is given"),
    (lambda: graph.register_multi_grad_hook([leaf(1)], print, mode="some"), ArgumentError, ValueError,
     "register_multi_grad_hook", "the mode is 'all' or 'any'"),
    (lambda: graph.register_multi_grad_hook([leaf(1)], 3), ArgumentTypeError, TypeError, "register_multi_grad_hook",
     "hooks are functions"),
    # assignments to grad
    (assigned(lambda: 1), ArgumentTypeError, TypeError, "grad", "a gradient is a tensor or None"),
    (assigned(lambda: f(3)), ShapeError, RuntimeError, "grad", "a gradient has its tensor's shape"),
    (assigned(lambda: f(2).double()), DtypeError, RuntimeError, "grad", "a gradient has its tensor's dtype and device"),
    (assigned(lambda: torch.ones(2, device="ref:1")), DtypeError, RuntimeError, "grad",
     "a gradient has its tensor's dtype and device"),
    (own_gradient, AutogradError, RuntimeError, "grad", "a tensor is not its own gradient"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)


def test_missing_derivatives_are_errors() -> None:
    x, y = (torch.tensor([1.5, 2.5], dtype=torch.float64, requires_grad=True) for _ in range(2))
    factors = torch.functions.linalg_ldl_factor(torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64))
    given = factors[0].requires_grad_()
    right = torch.ones((2, 1), dtype=torch.float64)
    for name, run in (("input", lambda: torch.functions.igamma(x, y)), ("input", lambda: torch.functions.igammac(x, y)),
                      ("input", lambda: torch.functions.special_zeta(x, y)),
                      ("LD", lambda: torch.functions.linalg_ldl_solve(given, factors[1], right))):
        with pytest.raises(NotImplementedError, match=f"a derivative with respect to {name} — the operator has no "
                           "derivative for this argument"):
            run().sum().backward()
    torch.functions.igamma(x.detach(), y).sum().backward()
    # The density of the gamma distribution.
    expected = [v ** (a - 1) * math.exp(-v) / math.gamma(a) for a, v in ((1.5, 1.5), (2.5, 2.5))]
    assert y.grad.tolist() == pytest.approx(expected)
