"""In-place changes while gradients are recorded: what is noticed, what is followed through bases and views."""

from __future__ import annotations

import gc
import weakref

import pytest
import tensocket_core as tc

from tensocket_plugins.contract.errors import AutogradError


def leaf(*values, **options):
    return tc.tensor(list(values), requires_grad=True, **options)


def test_modified_values_are_noticed():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(AutogradError, match=r"\[backward\] a tensor of shape \[2\] saved by MulBackward0, at version 1 instead of 0 — .*in-place"):
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
    assert y.grad_fn.name() == "CopySlicesBackward0"
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
