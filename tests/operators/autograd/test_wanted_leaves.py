"""Gradients of chosen leaves: the pass runs only what leads to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import Function


@pytest.fixture(params=["cpu", "ref"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    if not torch.is_available(request.param):
        pytest.skip(f"no {request.param}")
    torch.set_default_device(request.param)
    yield request.param
    torch.set_default_device("ref")


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


class Raises(Function):
    """The identity, whose gradient must not be computed."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise AssertionError("not on the way")


def test_nodes_that_lead_elsewhere_do_not_run() -> None:
    x, other = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([5.0, 6.0])
    loss = (x * x * Raises.apply(other)).exp().sum()
    (gradient,) = torch.autograd.grad(loss, x)
    values, weights = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    np.testing.assert_allclose(gradient.tolist(), np.exp(values ** 2 * weights) * weights * 2 * values, rtol=1e-13)
    assert other.grad is None
    assert x.grad is None


def test_a_branch_that_leads_elsewhere_keeps_its_saved_values() -> None:
    x, other = leaf([2.0]), leaf([3.0])
    branch = (other * other).sin()
    (gradient,) = torch.autograd.grad((x * branch).sum(), x)
    np.testing.assert_allclose(gradient.tolist(), np.sin([9.0]), rtol=1e-13)
    branch.sum().backward()
    np.testing.assert_allclose(other.grad.tolist(), np.cos([9.0]) * 6, rtol=1e-13)


def test_an_output_that_leads_elsewhere_keeps_its_saved_values() -> None:
    x, other = leaf([2.0]), leaf([3.0])
    loss = (other * other).sum()
    (gradient,) = torch.autograd.grad([(x * x).sum(), loss], x)
    assert gradient.tolist() == [4.0]
    loss.backward()
    assert other.grad.tolist() == [6.0]


def test_gradients_of_chosen_inputs_have_memory_of_their_own() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = torch.tensor([10.0, 20.0], dtype=torch.float64)
    (x + y).backward(seed, inputs=[x, y])
    x.grad.mul_(0)
    assert (y.grad.tolist(), seed.tolist()) == ([10.0, 20.0], [10.0, 20.0])


def test_a_wanted_leaf_that_is_broadcast_and_used_twice() -> None:
    x, row = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([5.0, 6.0])
    gx, grow = torch.autograd.grad(((x + row) * row).sum(), (x, row))
    assert gx.tolist() == [[5.0, 6.0], [5.0, 6.0]]
    assert grow.tolist() == [1.0 + 3.0 + 4 * 5.0, 2.0 + 4.0 + 4 * 6.0]


def test_hooks_of_wanted_leaves_replace_their_gradients() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    x.register_hook(lambda grad: grad * 100)
    gx, gy = torch.autograd.grad((x * y).sum(), (x, y))
    assert (gx.tolist(), gy.tolist()) == ([300.0, 400.0], [1.0, 2.0])


@pytest.mark.parametrize(("dim", "keepdim"), [(None, False), (0, False), (1, False), (1, True), ((0, 1), False)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_gradients_of_sums_and_means_along_dimensions(name: str, dim: Any, keepdim: bool) -> None:
    x, weight = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), 0.5
    reduced = getattr(x * weight, name)(dim, keepdim)
    seed = np.arange(1.0, reduced.numel() + 1).reshape(tuple(reduced.shape))
    (gradient,) = torch.autograd.grad(reduced, x, torch.tensor(seed.tolist(), dtype=torch.float64))
    axes = (0, 1) if dim is None else dim
    wide = seed if keepdim else np.expand_dims(seed, axes)
    count = 1 if name == "sum" else np.prod([x.shape[k] for k in np.atleast_1d(axes)])
    assert gradient.tolist() == (np.broadcast_to(wide, (2, 3)) / count * weight).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_implicit_gradient_is_one_in_every_dtype(dtype: str) -> None:
    x = torch.tensor([1.0, 2.0], dtype=getattr(torch, dtype), requires_grad=True)
    (gradient,) = torch.autograd.grad((x * 3).sum(), x)
    assert (gradient.dtype, gradient.tolist()) == (x.dtype, [3.0, 3.0])
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("make", [lambda x: x * x, lambda x: x @ x, lambda x: (x * x).relu() * x])
def test_the_node_of_a_wanted_result_keeps_its_saved_tensors(make: Any) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    hidden = make(x)
    (first,) = torch.autograd.grad(hidden.sum(), hidden)
    assert first.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    (second,) = torch.autograd.grad(hidden.sum(), x)  # no pass has run the nodes between x and hidden
    (expected,) = torch.autograd.grad(make(x).sum(), x)
    assert second.tolist() == expected.tolist()
