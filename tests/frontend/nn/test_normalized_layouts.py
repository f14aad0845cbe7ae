"""Normalisations of many shapes, layouts and dtypes against closed forms in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket.nn import functional as F

EPS = 1e-5


def closed(x, g, w, b, axes):
    """Values and gradients of x, w and b of (x - mean) / sqrt(var + eps) * w + b; w and b broadcast."""
    x, g, w, b = (a.astype(np.float64) for a in (x, g, w, b))
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    scale = 1 / np.sqrt(var + EPS)
    y = (x - mean) * scale
    h = g * w
    first = scale * (h - h.mean(axes, keepdims=True) - y * (h * y).mean(axes, keepdims=True))
    shared = tuple(d for d in range(x.ndim) if w.shape[d] == 1)
    return y * w + b, first, (g * y).sum(shared, keepdims=True), g.sum(shared, keepdims=True)


def draw(shape, *parameters):
    rng = np.random.default_rng(sum(shape))
    return [rng.normal(3, 2, shape), rng.normal(size=shape), *(rng.normal(1, 0.5, p) for p in parameters)]


def compare(run, shape, parameter, axes, dtype="float32", order=None):
    """``run(x, w, b)`` and its gradients; ``parameter`` is the shape of w and b with all dimensions."""
    kind = getattr(torch, dtype)
    x, g, w, b = (torch.tensor(a).to(kind) for a in draw(shape, parameter, parameter))
    x, g, w, b = (a.double().numpy() for a in (x, g, w, b))
    expected = closed(x, g, w, b, axes)
    given = torch.tensor(x).to(kind)
    if order is not None:
        given = given.permute(order).contiguous().permute(tuple(np.argsort(order)))
    leaves = [given.requires_grad_(), *(torch.tensor(p).reshape(-1).to(kind).requires_grad_() for p in (w, b))]
    result = run(*leaves)
    result.backward(torch.tensor(g).to(kind))
    unit = {"float32": 2e-6, "float64": 1e-13, "bfloat16": 1.2e-2, "float16": 2e-3}[dtype]
    for found, wanted in zip((result, *(leaf.grad for leaf in leaves)), expected, strict=True):
        size = max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(found.detach().double().numpy().reshape(wanted.shape), wanted, rtol=4 * unit,
                                   atol=unit * size)
    return result


@pytest.mark.parametrize("shape", [(3, 5), (40, 16), (7, 33), (5, 64), (9, 200), (2, 5000), (1, 1), (300, 8), (6, 1),
                                   (600, 70), (45, 1000)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_layers(shape, dtype):
    compare(lambda x, w, b: F.layer_norm(x, shape[1:], w, b), shape, (1, shape[1]), (1,), dtype)


@pytest.mark.parametrize("order", [None, (1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_layers_of_any_layout(order):
    compare(lambda x, w, b: F.layer_norm(x, (6,), w, b), (17, 4, 6), (1, 1, 6), (2,), order=order)
    compare(lambda x, w, b: F.layer_norm(x, (4, 6), w.reshape(4, 6), b.reshape(4, 6)), (17, 4, 6), (1, 4, 6), (1, 2),
            order=order)


@pytest.mark.parametrize(("shape", "weighted"), [((7, 33), True), ((600, 70), True), ((45, 1000), False)])
def test_rows_that_are_not_centred(shape, weighted):
    x, g, w = draw(shape, shape[1:])
    given, weight = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    F.rms_norm(given, shape[1:], weight if weighted else None, EPS).backward(torch.tensor(g))
    scale = 1 / np.sqrt((x * x).mean(1, keepdims=True) + EPS)
    y, h = x * scale, g * w if weighted else g
    np.testing.assert_allclose(given.grad.numpy(), scale * (h - y * (h * y).mean(1, keepdims=True)), atol=1e-12)
    if weighted:
        np.testing.assert_allclose(weight.grad.numpy(), (g * y).sum(0), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", [(40, 3), (70, 24), (33, 140), (6, 5, 7), (5, 3, 7, 7), (2, 9, 1, 1), (3, 2, 33, 40)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_batches(shape, dtype):
    axes = (0, *range(2, len(shape)))
    channels = tuple(n if d == 1 else 1 for d, n in enumerate(shape))
    mean, var = torch.zeros(shape[1]), torch.ones(shape[1])
    compare(lambda x, w, b: F.batch_norm(x, mean, var, w, b, True), shape, channels, axes, dtype)
    x = torch.tensor(draw(shape)[0]).to(getattr(torch, dtype)).double().numpy()
    near = {"rtol": 1e-2 if dtype == "bfloat16" else 1e-5}
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.mean(axes), **near)
    np.testing.assert_allclose(var.numpy(), 0.9 + 0.1 * x.var(axes, ddof=1), **near)


@pytest.mark.parametrize("shape", [(40, 3), (700, 70), (6, 5, 7), (5, 3, 7, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_statistics_of_earlier_batches(shape, dtype):
    kind, rank = getattr(torch, dtype), len(shape)
    channels, axes = tuple(n if d == 1 else 1 for d, n in enumerate(shape)), (0, *range(2, rank))
    x, g, w, b = (torch.tensor(a).to(kind) for a in draw(shape, channels, channels))
    mean, var = (torch.tensor(a) for a in draw((shape[1],)))
    mean, var = mean.float() if dtype != "float64" else mean, (var.square() + 0.5).to(mean.dtype)
    exact = [a.double().numpy() for a in (x, g, w, b)]
    leaves = [x.requires_grad_(), *(p.reshape(-1).clone().requires_grad_() for p in (w, b))]
    result = F.batch_norm(leaves[0], mean.to(kind), var.to(kind), leaves[1], leaves[2], False)
    result.backward(g)
    center, scale = mean.to(kind).double().numpy(), 1 / np.sqrt(var.to(kind).double().numpy() + EPS)
    y = (exact[0] - center.reshape(channels)) * scale.reshape(channels)
    wanted = [y * exact[2] + exact[3], exact[1] * exact[2] * scale.reshape(channels), (exact[1] * y).sum(axes),
              exact[1].sum(axes)]
    unit = {"float32": 2e-6, "float64": 1e-13, "bfloat16": 2e-2}[dtype]
    for found, expected in zip((result, *(leaf.grad for leaf in leaves)), wanted, strict=True):
        size = max(np.abs(expected).max(), 1)
        np.testing.assert_allclose(found.detach().double().numpy(), expected, rtol=4 * unit, atol=unit * size)


def test_batches_keep_their_layout():
    result = compare(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (4, 24, 5, 6), (1, 24, 1, 1), (0, 2, 3),
                     order=(0, 2, 3, 1))
    assert result.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("rest", [(), (5,), (7, 7)])
def test_groups(groups, rest):
    shape, split = (4, 6, *rest), (4, groups, 6 // groups, int(np.prod(rest)))
    parameter = (1, groups, 6 // groups, 1)
    compare(lambda x, w, b: F.group_norm(x.reshape(shape), groups, w, b).reshape(split), split, parameter, (2, 3))


@pytest.mark.parametrize("rest", [(5,), (7, 9)])
def test_instances(rest):
    compare(lambda x, w, b: F.instance_norm(x, None, None, w, b), (4, 6, *rest), (1, 6, *[1] * len(rest)),
            tuple(range(2, 2 + len(rest))))


def test_far_from_zero():
    """The variance is that of the distances to an element, not a difference of large squares."""
    x = 1e4 + np.random.default_rng(0).normal(size=(4, 1000))
    given = torch.tensor(x).to(torch.float32)
    exact = given.double().numpy()
    expected = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + EPS)
    np.testing.assert_allclose(F.layer_norm(given, (1000,)).double().numpy(), expected, atol=2e-3)
    assert F.layer_norm(torch.full((2, 100), 1e30), (100,)).abs().max() == 0


@pytest.mark.parametrize("shape", [(16400, 8), (8200, 3, 8), (64, 2100), (700, 1030)])
def test_sums_of_many_rows_do_not_depend_on_threads(shape):
    axes = tuple(range(1, len(shape)))
    few = (1, *shape[1:])
    count = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            x, g, w = (torch.tensor(a).float() for a in draw(shape, few))
            leaves = [x.requires_grad_(), w.reshape(few[1:]).requires_grad_()]
            F.layer_norm(leaves[0], few[1:], leaves[1]).backward(g)
            results.append([leaf.grad.numpy() for leaf in leaves])
    finally:
        torch.set_num_threads(count)
    expected = closed(x.detach().numpy(), g.numpy(), w.numpy(), np.zeros(few), axes)
    np.testing.assert_allclose(results[0][1], expected[2].reshape(few[1:]), rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(results[0][0], expected[1], rtol=1e-4, atol=1e-5 * np.abs(expected[1]).max())
    for other in results[1:]:
        for found, first in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(found, first)
