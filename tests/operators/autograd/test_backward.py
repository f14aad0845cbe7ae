"""The autograd engine and its modes; rules of single operators are tested by finite differences elsewhere."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.autograd.node import Node
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.schema import parse_schema
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, ShapeError


def leaf(values: Any, dtype: Any = None) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64 if dtype is None else dtype)


# ----------------------------------------------------------------------------------------------------------- engine


def test_gradients_add_up_over_diamonds() -> None:
    x = leaf([2.0, -3.0])
    a = x * x
    b = a + x
    (a * b + b).sum().backward()
    # x^4 + x^3 + x^2 + x
    np.testing.assert_allclose(x.grad.tolist(), [4 * v**3 + 3 * v**2 + 2 * v + 1 for v in (2.0, -3.0)])


def test_a_ladder_of_diamonds_is_visited_once_per_node() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_gradients_accumulate_over_calls() -> None:
    x = leaf([1.0, 2.0])
    (x * 3).sum().backward()
    (x * 4).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_leaf_is_its_own_output() -> None:
    x = leaf(3.0)
    x.backward()
    assert x.grad.item() == 1.0
    assert torch.autograd.grad(x, x)[0].item() == 1.0


def test_the_stored_gradient_is_nobody_elses_memory() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = torch.tensor([1.0, 1.0], dtype=torch.float64)
    (x + y).backward(seed)
    x.grad.zero_()
    assert y.grad.tolist() == seed.tolist() == [1.0, 1.0]


def test_gradients_of_several_outputs() -> None:
    x = leaf([1.0, 2.0])
    seed = torch.tensor([10.0, 100.0], dtype=torch.float64)
    torch.autograd.backward([x.sum(), x * x], [None, seed])
    assert x.grad.tolist() == [21.0, 401.0]


def test_backward_to_chosen_inputs_only() -> None:
    x, y = leaf(2.0), leaf(3.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 3.0
    assert y.grad is None


def test_saved_values_are_freed_unless_retained() -> None:
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0
    with pytest.raises(AutogradError, match=r"\[backward\] MulBackward0 a second time — the graph's saved tensors"):
        y.backward()
    assert x.grad.item() == 12.0


@pytest.mark.parametrize(("run", "error", "message"), [
    (lambda: torch.ones(2).sum().backward(), AutogradError,
     "[backward] element 0 of the tensors, which has no grad_fn"),
    (lambda: leaf([1.0, 2.0]).backward(), AutogradError,
     "[backward] a tensor of shape [2] — a gradient is created implicitly for one element only — pass gradient="),
    (lambda: leaf([1.0, 2.0]).backward(torch.ones(3)), ShapeError,
     "[backward] gradient of shape [3] for a tensor of shape [2] — a gradient has its tensor's shape"),
    (lambda: torch.autograd.grad(leaf(1.0) * 2, torch.ones(2)), AutogradError, "[grad] an input without requires_grad"),
    (lambda: torch.autograd.grad(leaf(1.0) * 2, leaf(1.0)), AutogradError,
     "[grad] an input that the outputs do not depend on — every input is used in the outputs — pass allow_unused=True"),
    (lambda: torch.ones(2).register_hook(print), AutogradError, "[register_hook] a tensor that requires no grad"),
    (lambda: torch.tensor([1, 2]).requires_grad_(), AutogradError,
     "[requires_grad] True for a tensor of dtype int64 — only floating-point and complex tensors have gradients"),
    (lambda: (leaf(1.0) * 2).requires_grad_(False), AutogradError, "[requires_grad] False for a tensor made by"),
    (lambda: setattr(leaf(1.0), "grad", 1.0), ArgumentTypeError, "[grad] float — a gradient is a tensor or None"),
    (lambda: setattr(leaf(1.0), "grad", torch.ones(2)), ShapeError, "[grad] gradient of shape [2] for a tensor of"),
], ids=range(10))
def test_refusals(run: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        run()


def test_a_tensor_modified_since_it_was_saved_is_named() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    y.add_(1)
    message = (r"\[backward\] a tensor of shape \[2\] saved by MulBackward0, at version 1 instead of 0 — "
               "one of the variables needed")
    with pytest.raises(AutogradError, match=message):
        z.sum().backward()
    # A sum needs no values, so that they may change.
    w = y + y
    y.mul_(2)
    w.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_result_modified_since_it_was_saved_is_named() -> None:
    x = leaf([1.0])
    y = x.tanh()
    z = y * 1
    y.mul_(2)
    with pytest.raises(AutogradError, match=r"saved by TanhBackward0, at version 1 instead of 0"):
        z.sum().backward()


def test_changes_through_views_and_detached_aliases_count() -> None:
    for alias in (lambda y: y[0], lambda y: y.detach()):
        x = leaf([[1.0, 2.0], [3.0, 4.0]])
        y = x * 1
        z = y * y
        with torch.no_grad():
            alias(y).zero_()
        with pytest.raises(AutogradError, match="at version 1 instead of 0"):
            z.sum().backward()


# ------------------------------------------------------------------------------------------------------------- graph


def test_nodes_have_names_and_edges() -> None:
    x, y = leaf(1.0), leaf(2.0)
    z = (x * y).exp()
    node = z.grad_fn
    assert isinstance(node, Node)
    assert node.name() == "ExpBackward0"
    assert repr(node).startswith("<ExpBackward0 object at 0x")
    product = node.next_functions[0][0]
    assert product.name() == "MulBackward0"
    assert [edge.variable for edge, _ in product.next_functions] == [x, y]
    assert x.is_leaf
    assert not z.is_leaf
    assert (x.grad_fn, z.requires_grad) == (None, True)


def test_only_values_that_a_gradient_needs_are_saved() -> None:
    x, constant = leaf([1.0, 2.0]), torch.ones(2, dtype=torch.float64)
    node = (x * constant).grad_fn
    assert [value is constant for value in node.saved].count(True) == 1
    assert not any(value is x for value in node.saved)
    assert (x + constant).grad_fn.saved == ()


def test_derivatives_are_checked_against_the_schema() -> None:
    with pytest.raises(ValueError, match=r"derivative of f for unknown arguments \['y'\]"):
        Derivative(y=lambda grad: grad).bind(parse_schema("f(Tensor x) -> Tensor"))


def test_detach_cuts_the_graph() -> None:
    x = leaf(3.0)
    (x * x.detach()).backward()
    assert x.grad.item() == 3.0
    y = x * 2
    assert y.detach_() is y
    assert not y.requires_grad
    assert y.is_leaf


def test_integer_results_end_the_graph() -> None:
    x = leaf([1.0, 3.0, 2.0])
    for result in (x.argmax(), x > 2, x.long(), x.isnan()):
        assert not result.requires_grad
    assert x.grad is None


# -------------------------------------------------------------------------------------------- gradients of gradients


def test_double_backward_of_closed_forms() -> None:
    v = np.array([0.5, -1.5, 2.0])
    for function, second in [
        (lambda x: x * x * x, 6 * v), (lambda x: x.exp(), np.exp(v)), (lambda x: x.sin(), -np.sin(v)),
        (lambda x: 1 / x, 2 / v**3), (lambda x: x.tanh(), -2 * np.tanh(v) * (1 - np.tanh(v) ** 2)),
    ]:
        x = leaf(v)
        first = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
        assert first.requires_grad
        np.testing.assert_allclose(torch.autograd.grad(first.sum(), x)[0].tolist(), second, rtol=1e-12)


def test_third_and_fourth_derivatives() -> None:
    x = leaf(2.0)
    y = x**5
    expected = [5 * 2.0**4, 20 * 2.0**3, 60 * 2.0**2, 120 * 2.0]
    for value in expected:
        y = torch.autograd.grad(y, x, create_graph=True)[0]
        assert y.item() == pytest.approx(value, rel=1e-12)


def test_backward_with_create_graph_leaves_a_differentiable_gradient() -> None:
    x = leaf(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a cycle, in the first call of a process
        (x**3).backward(create_graph=True)
    assert x.grad.requires_grad
    penalty = x.grad * x.grad  # (3 x^2)^2, derivative 36 x^3
    assert torch.autograd.grad(penalty, x)[0].item() == pytest.approx(36 * 27)
    x.grad = None


def test_mixed_second_derivatives() -> None:
    x, y = leaf(0.7), leaf(-1.3)
    z = (x * y).sin()
    gx = torch.autograd.grad(z, x, create_graph=True)[0]
    # d/dy (y cos(xy)) = cos(xy) - xy sin(xy)
    assert torch.autograd.grad(gx, y)[0].item() == pytest.approx(np.cos(-0.91) + 0.91 * np.sin(-0.91) * 1.0, rel=1e-12)


def test_without_create_graph_gradients_are_constants() -> None:
    x = leaf(3.0)
    assert not torch.autograd.grad(x * x, x)[0].requires_grad


# -------------------------------------------------------------------------------------------------- autograd.grad


def test_grad_does_not_touch_leaves() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    gx, gy = torch.autograd.grad((x * y).sum(), [x, y])
    assert gx.tolist() == [3.0, 4.0]
    assert gy.tolist() == [1.0, 2.0]
    assert x.grad is None
    assert y.grad is None


def test_grad_of_unused_inputs() -> None:
    x, unused = leaf(2.0), leaf([1.0, 2.0])
    gx, none = torch.autograd.grad(x * x, (x, unused), allow_unused=True)
    assert gx.item() == 4.0
    assert none is None
    gx, zeros = torch.autograd.grad(x * x, (x, unused), materialize_grads=True)
    assert gx.item() == 4.0
    assert zeros.tolist() == [0.0, 0.0]
    assert zeros.dtype is torch.float64


def test_grad_with_respect_to_intermediate_results() -> None:
    x = leaf(3.0)
    y = x * x
    z = y * y
    gy, gx = torch.autograd.grad(z, (y, x))
    assert (gy.item(), gx.item()) == (18.0, 108.0)


def test_grad_outputs_weigh_the_outputs() -> None:
    x = leaf([1.0, 2.0])
    seeds = [torch.tensor([1.0, 10.0], dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)]
    assert torch.autograd.grad([x * x, x.sum()], x, seeds)[0].tolist() == [7.0, 45.0]


# ----------------------------------------------------------------------------------------- shapes, dtypes, devices


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 1), (2, 3), (1, 1, 3)])
def test_gradients_of_broadcast_inputs_have_their_shape(device: str, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    weights = torch.arange(24, dtype=torch.float32).reshape(4, 2, 3)
    (x * weights).sum().backward()
    assert x.grad.shape == shape
    values = np.arange(24.0).reshape(4, 2, 3)
    lead = 3 - len(shape)
    padded = (1,) * lead + shape
    summed = values.sum(tuple(k for k in range(3) if padded[k] == 1), keepdims=True).reshape(shape)
    assert x.grad.tolist() == summed.tolist()


@pytest.mark.parametrize("other", ["float16", "float32", "float64", "bfloat16"])
def test_gradients_have_the_dtype_of_their_tensor(other: str) -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float16, requires_grad=True)
    y = torch.tensor([3.0, 4.0], dtype=getattr(torch, other), requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (x.dtype, y.dtype)
    assert x.grad.tolist() == [3.0, 4.0]
    assert y.grad.tolist() == [1.0, 2.0]


def test_integers_take_no_gradient_but_take_part() -> None:
    x = leaf([1.0, 2.0])
    (x * torch.tensor([3, 4])).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_gradients_come_back_to_their_device() -> None:
    x = torch.ones(2, requires_grad=True)
    (x.to("ref:1") * 3).sum().backward()
    assert str(x.grad.device) == "ref:0"
    assert x.grad.tolist() == [3.0, 3.0]
    scale = torch.tensor(2.0, requires_grad=True)
    (torch.ones(3, device="ref:1") * scale).sum().backward()
    assert str(scale.grad.device) == "ref:0"
    assert scale.grad.item() == 3.0


# -------------------------------------------------------------------------------------------------------------- hooks


def test_hooks_on_leaves_and_results() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    x.register_hook(lambda grad: grad * 10)
    y.sum().backward()
    assert seen == [[1.0, 1.0]]
    assert x.grad.tolist() == [20.0, 20.0]


def test_hooks_replace_gradients_in_order_and_can_be_removed() -> None:
    x = leaf(1.0)
    y = x * 1
    first = y.register_hook(lambda grad: grad + 1)
    y.register_hook(lambda grad: grad * 10)
    y.backward(retain_graph=True)
    assert x.grad.item() == 20.0
    first.remove()
    first.remove()
    x.grad = None
    y.backward()
    assert x.grad.item() == 10.0


def test_retain_grad_keeps_the_gradient_of_results() -> None:
    x = leaf(3.0)
    y = x * x
    y.retain_grad()
    x.retain_grad()  # leaves keep theirs anyway
    (y * 2).backward()
    assert (y.grad.item(), x.grad.item()) == (2.0, 12.0)


# --------------------------------------------------------------------------------------------------------------- views


def test_gradients_through_views() -> None:
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    (x.t() * weights)[1:].sum().backward()
    assert x.grad.tolist() == [[0.0, 3.0, 5.0], [0.0, 4.0, 6.0]]


def test_two_views_of_one_changed_base() -> None:
    x = leaf([1.0, 2.0, 3.0, 4.0])
    base = x * 1
    left, right = base[:3], base[2:]
    left.mul_(10)  # the third element is in both views
    assert right.tolist() == [30.0, 4.0]
    right.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 10.0, 1.0]


def test_chained_views_write_through() -> None:
    x, v = leaf(np.arange(6.0).reshape(2, 3)), leaf([7.0, 8.0])
    base = x * 1
    base.t()[1].copy_(v)
    (base * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 3.0], [4.0, 0.0, 6.0]]
    assert v.grad.tolist() == [2.0, 5.0]


@pytest.mark.parametrize("kind", [tuple, list, iter, set, lambda values: dict(enumerate(values)).values()])
def test_anything_that_gives_tensors_stands_for_them(kind: Callable[[Any], Any]) -> None:
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    product = (x * y).sum()
    found = torch.autograd.grad(product, kind([x, y]), retain_graph=True)
    assert sorted(gradient.tolist() for gradient in found) == [[2.0, 3.0], [5.0, 7.0]]
    (found_x,) = torch.autograd.grad(kind([product, 2 * product]), x, retain_graph=True)
    assert found_x.tolist() == [15.0, 21.0]
    torch.autograd.backward(kind([product]), inputs=kind([x, y]))
    assert x.grad.tolist() == y.tolist()
    assert y.grad.tolist() == x.tolist()
