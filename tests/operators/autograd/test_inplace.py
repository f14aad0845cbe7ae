"""In-place changes while gradients are recorded: what is noticed, what is followed through bases and views."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators.autograd import Function, grad
from tensocket_plugins.contract.errors import AutogradError


def leaf(*values, **options):
    return tc.tensor(list(values), requires_grad=True, **options)


def test_modified_values_are_noticed():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(
        AutogradError,
        match=r"\[backward\] a tensor of shape \[2\] saved by MulBackward0, at version 1 instead of 0 — .*inplace",
    ):
        z.sum().backward()
    w = x.exp()
    w.mul_(2)
    with pytest.raises(AutogradError, match="ExpBackward0"):
        w.sum().backward()


def test_modifications_through_views_are_noticed():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.detach()[0] = 7
    with pytest.raises(AutogradError, match="MulBackward0"):
        z.sum().backward()


def test_values_that_are_not_needed_may_change():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y + 1
    y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_leaves_are_not_modified_while_recording():
    x = leaf(1.0, 2.0)
    for change in (lambda: x.add_(1), lambda: x[0].add_(1), lambda: x.__setitem__(0, 1.0), lambda: x.t().zero_()):
        with pytest.raises(AutogradError, match="leaf"):
            change()
    assert x.tolist() == [1.0, 2.0]
    with tc.no_grad():
        x.add_(1)
        x[0] = 9
    assert x.tolist() == [9.0, 3.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [18.0, 6.0]


def test_changes_of_a_base_reach_its_views():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    head, tail = y[:2], y[2:]
    y.mul_(3)
    (head.sum() + tail.sum() * 10).backward()
    assert x.grad.tolist() == [3.0, 3.0, 30.0, 30.0]


def test_changes_of_a_view_reach_its_base_and_other_views():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 1
    whole, head = y.view(2, 2), y[:2]
    head.mul_(3)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    whole.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 1.0, 1.0]


def test_tensors_without_gradient_are_filled_piece_by_piece():
    x = leaf(1.0, 2.0)
    y = tc.zeros(2, 2)
    y[0] = x * 2
    y[1].copy_(x * 3)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_dead_views_are_forgotten():
    x = leaf(1.0, 2.0)
    y = x * 1
    for _ in range(1000):
        y[0].sum()
    assert len(y._views) < 200
    y.add_(1)
    assert y.grad_fn.name() == "AddBackward0"


def test_changes_without_recording_keep_the_graph():
    x = leaf(1.0, 2.0)
    y = x + 1
    with tc.no_grad():
        y[0] = 100
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_detached_memory_is_not_followed():
    x = leaf(1.0, 2.0)
    y = x + 1
    y.detach().fill_(0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_graphs_die_with_their_results():
    x = leaf(1.0, 2.0)
    y = x * 2
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        z = y.exp().sum()
        del y
        assert node() is not None
        del z
        assert node() is None
    finally:
        gc.enable()


# ----------------------------------------------------------------------------------------- against central differences

STEP = 1e-6


def index(*values):
    return tc.tensor(list(values))


def rows(y, x):
    for k in range(3):
        y[k].mul_(x[k]).add_(y[0].detach() * 0)


def stale(y, x):
    head = y[0]
    y.mul_(x)
    y[1].add_(head)


def shared(y, x):
    whole, part = y.view(2, 6), y[1]
    whole.sin_()
    y[2] = part + whole[0, :4]


#: Changes of a matrix [3, 4] by another.
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda y, x: y.mul_(x).clamp_(0.4, 1.6).add_(1).pow_(2).sigmoid_(),
    "itself": lambda y, x: y.mul_(y),
    "slice": lambda y, x: y[1:, ::2].mul_(x[1:, ::2]),
    "transposed": lambda y, x: y.t().add_(x.t()),
    "view of a view": lambda y, x: y[0].view(2, 2)[1].mul_(x[0, :2]),
    "any geometry": lambda y, x: y.as_strided((3, 2), (3, 2), 1).mul_(x[:, :2]),
    "new dimensions": lambda y, x: y.unsqueeze(0).squeeze(0).expand(3, 4).exp_(),
    "row by row": rows,
    "a view from before": stale,
    "views that share": shared,
    "items": lambda y, x: y.__setitem__((slice(None), 1), x[:, 2] * 2),
    "index tensors": lambda y, x: y.__setitem__(index(0, 2), x[:2]),
    "mask": lambda y, x: y.__setitem__(y.detach() > 1, 0.5),
    "masked_fill_": lambda y, x: y.masked_fill_(x.detach() > 1, 2.0),
    "copy_": lambda y, x: y[1:].copy_(x[:2] * 3),
    "scatter_": lambda y, x: y.scatter_(1, tc.tensor([[0, 1], [2, 3], [1, 0]]), x[:, :2]),
    "nothing left": lambda y, x: y.zero_().add_(x),
}


def outcome(change, x, w):
    y = x * 1
    change(y, w)
    return (y * y * tc.tensor(np.linspace(-1, 2, 12).reshape(3, 4))).sum()


def leaves(values):
    return [tc.tensor(v, requires_grad=True) for v in values]


def slope(change, x, w):
    """A weighted sum of the gradients, to be differentiated again."""
    gradients = grad(outcome(change, x, w), [x, w], create_graph=True, allow_unused=True)
    weights = tc.tensor(np.linspace(1, -1, 12).reshape(3, 4))
    return sum((g * g * weights).sum() for g in gradients if g is not None)


def differences(scalar, values):
    result = [np.zeros_like(v) for v in values]
    for slopes, value in zip(result, values, strict=True):
        for place in np.ndindex(value.shape):
            before = value[place]
            value[place] = before + STEP
            high = scalar(*leaves(values)).item()
            value[place] = before - STEP
            low = scalar(*leaves(values)).item()
            value[place] = before
            slopes[place] = (high - low) / (2 * STEP)
    return result


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CHANGES)
def test_gradients_of_changes(name, order):
    change = CHANGES[name]
    values = list(np.random.default_rng(3).uniform(0.3, 1.7, (2, 3, 4)))

    def scalar(x, w):
        return (outcome if order == 1 else slope)(change, x, w)

    x, w = leaves(values)
    gradients = grad(scalar(x, w), [x, w], materialize_grads=True)
    for g, expected in zip(gradients, differences(scalar, values), strict=True):
        np.testing.assert_allclose(np.array(g.tolist()), expected, rtol=1e-5, atol=1e-5)


def test_bases_of_any_layout():
    x = tc.tensor(np.linspace(0.5, 2, 12).reshape(3, 4), requires_grad=True)
    y = (x.t() * 1).t()
    y[1].mul_(x[0])
    (y * y).sum().backward()
    a = np.linspace(0.5, 2, 12).reshape(3, 4)
    expected = 2 * a
    expected[1] = 2 * a[1] * a[0] ** 2
    expected[0] += 2 * a[0] * a[1] ** 2
    np.testing.assert_allclose(np.array(x.grad.tolist()), expected, rtol=1e-12)


# ------------------------------------------------------------------------------ views from before anything was recorded


def views_of_zeros():
    base = tc.zeros(4, dtype=tc.float64)
    return base, base[:2], base[1:3], base.view(2, 2)


def test_views_of_a_base_that_is_recorded_later():
    w = tc.tensor([1.0, 2.0, 3.0, 4.0], dtype=tc.float64, requires_grad=True)
    base, left, middle, square = views_of_zeros()
    base.add_(w * w)
    for view, places in ((left, [0, 1]), (middle, [1, 2]), (square, [0, 1, 2, 3])):
        assert view.requires_grad
        assert not view.is_leaf
        found = grad(view.sum(), w, retain_graph=True)[0]
        np.testing.assert_allclose(found.tolist(), [2.0 * (k + 1) * (k in places) for k in range(4)])
    base.mul_(3)  # the views follow later changes, too
    np.testing.assert_allclose(grad(middle.sum(), w)[0].tolist(), [0, 12, 18, 0])


def test_views_beside_a_view_that_is_recorded_later():
    w = tc.tensor([5.0, 7.0], dtype=tc.float64, requires_grad=True)
    base, left, middle, square = views_of_zeros()
    left.add_(w * w)
    for tensor, expected in ((base, [10, 14]), (left, [10, 14]), (middle, [0, 14]), (square, [10, 14])):
        assert tensor.requires_grad
        np.testing.assert_allclose(grad(tensor.sum(), w, retain_graph=True)[0].tolist(), expected)
    base.mul_(2)
    np.testing.assert_allclose(grad(left.sum(), w)[0].tolist(), [20, 28])


def test_views_of_other_dtypes_and_orders_from_before():
    w = tc.ones(2, requires_grad=True)
    base = tc.zeros(2, dtype=tc.complex64)
    parts = tc.view_as_real(base)
    base.add_(w)
    np.testing.assert_allclose(grad(parts.sum(), w)[0].tolist(), [1, 1])
    matrix = tc.zeros(2, 3)
    turned = matrix.t()
    row = turned[0]
    v = tc.ones(3, 2, requires_grad=True)
    turned.add_(v)
    row.mul_(tc.tensor([2.0, 3.0]))
    np.testing.assert_allclose(grad(matrix.sum(), v)[0].tolist(), [[2, 3], [1, 1], [1, 1]])


def test_assignments_reach_views_from_before():
    w = tc.tensor(2.0, requires_grad=True)
    base = tc.zeros(4)
    second, third = base[1], base[2]
    base[1] = w * 3
    assert grad(second, w, retain_graph=True)[0].item() == 3
    assert grad(third, w)[0].item() == 0


def test_functions_reach_views_from_before():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.mark_dirty(x)
            return x.add_(w)

        @staticmethod
        def backward(ctx, passed):
            return passed, passed * 2

    w = tc.ones(3, requires_grad=True)
    base = tc.zeros(3)
    view = base[1:]
    assert Doubled.apply(base, w) is base
    assert grad(view.sum(), w)[0].tolist() == [0, 2, 2]


def test_copies_and_detached_tensors_are_no_views():
    w = tc.ones(3, requires_grad=True)
    base = tc.zeros(3)
    alias, copy, dead = base.detach(), base.clone(), [base[:1]]
    dead.clear()
    base.add_(w)
    assert not alias.requires_grad
    assert not copy.requires_grad
    assert alias.tolist() == [1, 1, 1]


def test_nobody_is_looked_for_where_there_is_no_view(monkeypatch):
    def unexpected(*objects):
        raise AssertionError("looked for views")

    w = tc.ones(3, requires_grad=True)
    for change in (lambda x: x[0].copy_(w), lambda x: x.view(-1)[:3].add_(w), lambda x: x.add_(w).mul_(2),
                   lambda x: x.__setitem__(1, w), lambda x: x.exp_().mul_(w)):
        base = tc.zeros(2, 3)
        with monkeypatch.context() as patch:
            patch.setattr("gc.get_referrers", unexpected)
            change(base)
        assert base.requires_grad


@pytest.mark.parametrize("size", [3, 70000])
def test_a_saved_input_that_is_detached_in_place_is_noticed(size: int) -> None:
    a = tc.ones(size, dtype=tc.float64).requires_grad_().clone()
    b = a.sin()
    a.detach_()
    assert a._version == 0
    with pytest.raises(AutogradError, match=r"Trying to use a saved tensor that has been detached in-place, by "
                                            r"SinBackward0 — a tensor that is needed for the gradient keeps its "
                                            r"history — use \.detach\(\) instead"):
        b.sum().backward()


def test_a_detached_tensor_counts_changes_with_its_views() -> None:
    w = tc.tensor([2.0], requires_grad=True)
    h = w * 3
    view = h.view(1)
    h.detach_()
    h.add_(1)
    assert h._version == view._version == 1
    part = h[:1]
    part.add_(1)
    assert h._version == view._version == part._version == 2
    y = h * w
    y.sum().backward(retain_graph=True)  # values saved afterwards are valid
    assert w.grad.tolist() == [8.0]
    h.add_(1)
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("make", [lambda x: x.exp(), lambda x: x.tanh()])
def test_a_saved_result_may_be_detached_in_place(make: Any) -> None:
    x = tc.tensor([0.5], dtype=tc.float64, requires_grad=True)
    a = x.clone()
    b = make(a)
    c = b * 2
    b.detach_()
    c.sum().backward()
    assert x.grad.item() == pytest.approx(2 * (math.exp(0.5) if make(x).item() > 1 else 1 - math.tanh(0.5) ** 2))


#: Functions that arrange what they return by views of something of their own.
ARRANGING = {
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1), "roll": lambda x: x.roll(1), "rot90": lambda x: x.rot90(),
    "take": lambda x: x.take(tc.tensor([0, 1])), "mask": lambda x: x[x == 0], "reshape": lambda x: x.t().reshape(9),
    "kron": lambda x: tc.kron(x, x), "median": lambda x: x.median(0)[0], "diag_embed": lambda x: x.diag_embed(),
    "tensordot": lambda x: tc.tensordot(x, x, 1), "repeat": lambda x: x.repeat(2, 1),
}


@pytest.mark.parametrize("name", ARRANGING)
def test_results_that_were_not_recorded_are_no_views_and_can_be_modified(name):
    with tc.no_grad():
        result = ARRANGING[name](tc.zeros(3, 3))
    assert result._base is None
    factor = tc.ones(result.shape, requires_grad=True)
    result.add_(factor * 3)
    result.sum().backward()
    assert np.array_equal(factor.grad.tolist(), np.full(result.shape, 3.0))


def test_views_of_arguments_that_were_not_recorded_stay_fixed():
    base, factor = tc.zeros(3, 3), tc.ones(3, 3, requires_grad=True)
    with tc.no_grad():
        view, flat = base.t(), base.reshape(9)
    for fixed in (view, flat):
        with pytest.raises(AutogradError, match="created in no_grad mode"):
            fixed.add_(factor.reshape(fixed.shape))
