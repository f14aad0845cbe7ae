"""Hooks on tensors, kept gradients, and what can be assigned to ``grad``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def test_hooks_of_a_leaf_see_the_whole_gradient_once() -> None:
    x = leaf([1.0, 2.0])
    seen: list[Any] = []
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    (x * 2 + x * 3 + x.sum() * x).sum().backward()
    # 5 + sum over outputs of d(s x_k): s + sum(x) = 3 + 3
    assert seen == [[11.0, 11.0]]
    assert x.grad.tolist() == [11.0, 11.0]


def test_leaves_are_served_as_soon_as_their_gradient_is_complete() -> None:
    early, late = leaf(2.0), leaf(3.0)
    order: list[str] = []
    early.register_post_accumulate_grad_hook(lambda t: order.append("early"))
    late.register_post_accumulate_grad_hook(lambda t: order.append("late"))
    y = early * 2
    y.register_hook(lambda grad: order.append("y"))
    (y * late * late).backward()
    assert order == ["late", "y", "early"]


def test_leaves_at_the_ends_of_chains_are_served_in_time() -> None:
    first, second = leaf(2.0), leaf(3.0)
    order: list[str] = []
    for name, t in (("first", first), ("second", second)):
        t.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    bottom = first * 1
    bottom.register_hook(lambda grad: order.append("bottom"))
    upper = ((second * 1).neg().neg() * bottom).exp()
    (upper * upper.detach()).backward()
    assert order == ["second", "bottom", "first"]
    order.clear()
    chain = first * 2
    chain.register_hook(lambda grad: order.append("chain"))
    (chain * second).neg().neg().backward()
    assert order == ["second", "chain", "first"]


def test_a_leaf_used_by_branches_that_end_elsewhere() -> None:
    x, w = leaf(2.0), leaf(5.0)
    calls: list[float] = []
    x.register_post_accumulate_grad_hook(lambda t: calls.append(t.grad.item()))
    used = x * w
    unused = x.detach() * x  # an edge through which no gradient comes
    used.backward()
    assert calls == [5.0]
    unused.backward()
    assert calls == [5.0, 7.0]


def test_post_accumulate_hooks_may_take_the_gradient() -> None:
    x = leaf([1.0, 2.0])

    def step(parameter: Any) -> None:
        with torch.no_grad():
            parameter.sub_(parameter.grad * 0.5)
        parameter.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert x.tolist() == [0.0, 1.0]
    assert x.grad is None
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_hooks_are_called_in_order_and_seen() -> None:
    x = leaf(1.0)
    y = x * 1
    assert y._backward_hooks is None
    y.register_hook(lambda grad: grad + 1)
    handle = y.register_hook(lambda grad: grad * 10)
    assert list(y._backward_hooks)[-1] == handle.id
    y.backward()
    assert x.grad.item() == 20.0
    with x.register_hook(lambda grad: grad * 0):
        assert len(x._backward_hooks) == 1
    assert x._backward_hooks == {}


def test_hook_tables_can_be_moved() -> None:
    x, other = leaf(1.0), leaf(1.0)
    x.register_hook(lambda grad: grad * 3)
    other._backward_hooks = x._backward_hooks
    other.sum().backward()
    assert other.grad.item() == 3.0
    other._backward_hooks = None
    assert other._backward_hooks is None
    torch.ones(1)._backward_hooks = None


def test_hooks_from_before_a_change_see_the_value_from_before() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.append(("before", grad.tolist())))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda grad: seen.append(("after", grad.tolist())))
    y.sum().backward()
    assert seen == [("after", [1.0, 1.0]), ("before", [3.0, 3.0])]
    assert y.grad.tolist() == [1.0, 1.0]  # kept gradients are those of the tensor as it is
    assert y.retains_grad


@pytest.mark.parametrize("change", [lambda base, view: view.mul_(3), lambda base, view: base.mul_(3)])
def test_kept_gradients_follow_views_and_bases(change: Any) -> None:
    x = leaf([1.0, 2.0])
    base = x * 1
    view = base[:1]
    base.retain_grad()
    view.retain_grad()
    change(base, view)
    (base.sum() * 2).backward()
    assert base.grad.tolist() == [2.0, 2.0]
    assert base.retains_grad
    assert view.retains_grad


def test_gradients_are_kept_once_and_add_up() -> None:
    x = leaf(3.0)
    y = x * x
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    (y * 2).backward(retain_graph=True)
    (y * 2).backward()
    assert y.grad.item() == 4.0
    assert not x.retains_grad


def test_chosen_inputs_that_are_no_leaves() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    z = (y * y).sum()
    z.backward(inputs=[y], retain_graph=True)
    assert y.grad.tolist() == [6.0, 12.0]
    assert x.grad is None
    z.backward(inputs=y, retain_graph=True)
    assert y.grad.tolist() == [12.0, 24.0]
    z.backward(inputs=(x, x))
    assert x.grad.tolist() == [18.0, 36.0]


def test_only_the_way_to_the_inputs_is_computed() -> None:
    x, y = leaf(2.0), leaf(3.0)
    below = x * x
    called: list[int] = []
    below.register_hook(lambda grad: called.append(1))
    z = below.detach().requires_grad_() * below * y
    assert torch.autograd.grad(z, y, retain_graph=True)[0].item() == 16.0
    assert called == []
    z.backward()  # nothing was freed on the way that was not gone
    assert x.grad.item() == 4 * 3 * 2 * 2.0


def test_gradients_of_a_dict_and_of_batches() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    found = torch.autograd.grad((x * y).sum(), {"a": x, "b": y})
    assert {name: g.tolist() for name, g in found.items()} == {"a": [3.0, 4.0], "b": [1.0, 2.0]}
    seeds = torch.tensor(np.eye(2))
    rows, none = torch.autograd.grad(x * x, (x, y), seeds, is_grads_batched=True, allow_unused=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert none is None
    rows, zeros = torch.autograd.grad(x * x, (x, y), seeds, is_grads_batched=True, materialize_grads=True)
    assert zeros.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_hooks_on_inputs_of_grad_run() -> None:
    x = leaf(2.0)
    x.register_hook(lambda grad: grad * 100)
    x.register_post_accumulate_grad_hook(lambda t: pytest.fail("nothing is accumulated"))
    assert torch.autograd.grad(x * x + x, x)[0].item() == 500.0


@pytest.mark.parametrize("function", [torch.Tensor.relu, lambda t: torch.functions.leaky_relu(t, 0.1)])
def test_gradients_of_piecewise_linear_functions_are_differentiable(function: Any) -> None:
    x = leaf([1.0, -2.0])
    grad = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
    assert grad.requires_grad
    assert torch.autograd.grad(grad.sum(), x)[0].tolist() == [0.0, 0.0]


def test_a_gradient_in_the_wrong_layout_is_laid_out_like_its_leaf() -> None:
    x = torch.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (x.t() * torch.tensor(np.arange(6.0).reshape(3, 2))).sum().backward()
    assert x.grad.stride() == x.stride() == (3, 1)
    turned = torch.tensor(np.arange(6.0).reshape(2, 3)).t().requires_grad_()
    (turned * torch.tensor(np.arange(6.0).reshape(3, 2))).sum().backward()
    assert turned.grad.stride() == turned.stride() == (1, 3)
    spread = torch.tensor([1.0], dtype=torch.float64).expand(3).requires_grad_()
    (spread * 2).sum().backward()
    assert spread.grad.stride() == (1,)
    assert spread.grad.tolist() == [2.0, 2.0, 2.0]
