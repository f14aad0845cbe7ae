"""Sums of large gradients: dead temporaries are reused, and nobody who knows a gradient sees it change."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device

N = 200


def numbers(seed):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((N, N)).astype(np.float32)).clone()


def uses(y, w):
    return (y @ w).sum() + (y.exp() * w).sum() + (y * y).sum() + (w * y).sum()


def expected(x, w):
    """The gradient of ``uses(1.5 x, w)`` in double precision."""
    y, w = 1.5 * x.double().numpy(), w.double().numpy()
    return 1.5 * (np.ones((N, N)) @ w.T + np.exp(y) * w + 2 * y + w)


@pytest.fixture
def x():
    return numbers(0).requires_grad_()


W = numbers(1)


@pytest.fixture
def reuse():
    """Sums happen in an operand's memory where large arrays own it, as in the pool in machine code."""
    if not numbers(0).numpy().flags.owndata:
        pytest.skip("this NumPy takes memory from nobody else")


@pytest.mark.usefixtures("reuse")
def test_sums_reuse_memory(x, monkeypatch):
    allocator = open_device("cpu").runtime.allocator

    def allocations():
        x.grad = None
        loss = uses(x * 1.5, W)
        before = allocator.stats().allocations
        loss.backward()
        np.testing.assert_allclose(x.grad.numpy(), expected(x.detach(), W), rtol=2e-5, atol=1e-5)
        return allocator.stats().allocations - before

    def fewest():
        return min(allocations() for _ in range(80))  # the first passes also make what stays, or record their rules

    reusing = fewest()
    monkeypatch.setattr("tensocket_core.autograd.engine.add_gradients", lambda old, grad, create_graph: old + grad)
    assert reusing < fewest()


@pytest.mark.usefixtures("reuse")
def test_a_sum_happens_in_the_first_term():
    from tensocket_core.autograd.accumulate import add_gradients

    first, second = [numbers(2)], numbers(3)
    place, total = first[0].data_ptr(), (first[0] + second).tolist()
    found = add_gradients(first.pop(), second, False)
    assert found.data_ptr() == place
    assert found._version == 0
    assert found.tolist() == total


@pytest.mark.parametrize("known", ["tensor", "view", "detached", "array", "create_graph"])
def test_a_first_term_that_somebody_knows_stays(known):
    from tensocket_core.autograd.accumulate import add_gradients

    first, second = [numbers(2)], numbers(3)
    holder = {"tensor": lambda t: t, "view": lambda t: t[3:], "detached": lambda t: t.detach(),
              "array": lambda t: t.numpy(), "create_graph": lambda t: None}[known](first[0])
    place, before = first[0].data_ptr(), None if holder is None else holder.tolist()
    found = add_gradients(first.pop(), second, known == "create_graph")
    assert found.data_ptr() != place or known == "create_graph"
    if holder is not None:
        assert holder.tolist() == before


def test_hooks_and_kept_gradients_do_not_change(x):
    seen = []
    y = x * 1.5
    y.retain_grad()
    a, b = y.exp(), y * y
    for t in (a, b, y):
        t.register_hook(seen.append)
    ((a * W).sum() + b.sum() + (y @ W).sum() + (W * y).sum()).backward()
    copies = {id(g): g for g in seen}
    assert len(copies) == 3
    np.testing.assert_array_equal(y.grad.numpy(), seen[-1].numpy())
    np.testing.assert_allclose(y.grad.numpy() * 1.5, expected(x.detach(), W), rtol=2e-5, atol=1e-5)
    np.testing.assert_array_equal(seen[0].numpy() if seen[0].shape == W.shape else 0, seen[0].numpy())


def test_hooks_of_a_use_keep_what_they_got(x):
    kept = []
    y = x * 1.5
    for use in (y.view(N, N), y.t(), y + 0):
        use.register_hook(lambda g: kept.append((g, g.clone())))
        x.sum()
    views = [y.view(N, N), y.t(), y + 0]
    for view in views:
        view.register_hook(lambda g: kept.append((g, g.clone())))
    sum((v * W).sum() for v in views).backward()
    assert len(kept) == 3
    for seen, copy in kept:
        assert torch.equal(seen, copy)


def test_the_gradient_that_a_user_gives_does_not_change(x):
    upstream = numbers(4)
    before = upstream.clone()
    y = x + x
    (y + y).backward(upstream)
    assert torch.equal(upstream, before)
    np.testing.assert_array_equal(x.grad.numpy(), (before * 4).numpy())


def test_results_of_grad_do_not_change(x):
    y = x * 1.5
    first = torch.autograd.grad(uses(y, W), [x, y], retain_graph=True)
    copies = [g.clone() for g in first]
    second = torch.autograd.grad(uses(y, W), [x, y])
    for one, copy, other in zip(first, copies, second, strict=True):
        assert torch.equal(one, copy)
        assert torch.equal(one, other)


def test_second_derivatives(x):
    (first,) = torch.autograd.grad(uses(x, W), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), np.exp(x.detach().double().numpy()) * W.double().numpy() + 2,
                               rtol=2e-5, atol=1e-5)


def test_operators_with_several_results(x):
    a, b = torch.split(x * 1.0, N // 2)
    values, _ = (x * 2).sort(1)
    loss = (a * a).sum() + (a.exp() * W[: N // 2]).sum() + (b * W[N // 2:]).sum() + values.sum() + (values * 3).sum()
    loss.backward()
    y, w = x.detach().double().numpy(), W.double().numpy()
    wanted = np.concatenate([2 * y[: N // 2] + np.exp(y[: N // 2]) * w[: N // 2], w[N // 2:]]) + 8
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=2e-5, atol=1e-5)


class Noting(torch.autograd.Function):
    """Twice its input; notes where the gradient that it passes on lies, and keeps it if asked to."""

    @staticmethod
    def forward(ctx, x, noted, kept):
        ctx.noted, ctx.kept = noted, kept
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        made = grad * 2
        ctx.noted.append(made.data_ptr())
        if ctx.kept is not None:
            ctx.kept.append(made)
        return made, None, None


def test_a_reshaped_gradient_that_nobody_knows_is_not_copied(x):
    noted = []
    Noting.apply(x.view(-1), noted, None).sum().backward()
    assert x.grad.data_ptr() == noted[0]
    assert x.grad.shape == x.shape
    assert not x.grad._is_view()
    np.testing.assert_array_equal(x.grad.numpy(), 2)


def test_a_reshaped_gradient_that_somebody_knows_is_copied(x):
    kept, given = [], torch.full((N * N,), 2.0)
    Noting.apply(x.view(-1), [], kept).sum().backward()
    x.grad.zero_()
    np.testing.assert_array_equal(kept[0].numpy(), 2)
    x.grad = None
    x.view(-1).backward(given)
    x.grad.zero_()
    np.testing.assert_array_equal(given.numpy(), 2)
    x.grad = None
    y = x.view(-1)
    z = y * 1
    z.register_hook(kept.append)
    z.view(N, N).backward(torch.full((N, N), 3.0))
    x.grad.zero_()
    np.testing.assert_array_equal(kept[1].numpy(), 3)


def test_a_reshaped_gradient_of_two_leaves_is_not_shared(x):
    other = numbers(1).requires_grad_()
    (x.view(-1) + other.view(-1)).backward(torch.ones(N * N))
    x.grad.zero_()
    np.testing.assert_array_equal(other.grad.numpy(), 1)
