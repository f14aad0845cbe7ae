"""Losses as layers against their formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(11)
X, Y, Z = RNG.normal(size=(3, 5, 4))
P, Q = RNG.uniform(0.05, 0.95, size=(2, 5, 4))
SIGNS = RNG.choice([-1.0, 1.0], size=(5, 4))
CLASSES = np.array([0, 3, 1, 2, 3])
WEIGHTS = np.array([0.5, 2.0, 1.0, 1.5])


def t(values):
    return torch.tensor(values)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def distance(a, b, p=2.0, eps=1e-6):
    return (np.abs(a - b + eps) ** p).sum(-1) ** (1 / p)


def hinge(values):
    return np.maximum(values, 0)


def entropy(p, target):
    return -target * np.log(p) - (1 - target) * np.log(1 - p)


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


GAP = np.abs(X - Y)
VARIANCE = P * 3
MARGINS = hinge(0.7 - X[np.arange(5), CLASSES][:, None] + X) * (np.arange(4) != CLASSES[:, None])
FAR = distance(X, Y, 3.0) - np.minimum(distance(X, Z, 3.0), distance(Y, Z, 3.0)) + 0.5
LOSSES = [
    (nn.SmoothL1Loss, {"beta": 0.3}, (X, Y), np.where(GAP < 0.3, GAP**2 / 0.6, GAP - 0.15)),
    (nn.HuberLoss, {"delta": 0.3}, (X, Y), np.where(GAP < 0.3, GAP**2 / 2, 0.3 * (GAP - 0.15))),
    (nn.BCELoss, {}, (P, Q), entropy(P, Q)),
    (nn.BCELoss, {"weight": t(WEIGHTS)}, (P, Q), entropy(P, Q) * WEIGHTS),
    (nn.BCEWithLogitsLoss, {"weight": t(WEIGHTS)}, (X, Q), entropy(sigmoid(X), Q) * WEIGHTS),
    (nn.BCEWithLogitsLoss, {"pos_weight": t(WEIGHTS)}, (X, Q),
     -WEIGHTS * Q * np.log(sigmoid(X)) - (1 - Q) * np.log(sigmoid(-X))),
    (nn.PoissonNLLLoss, {"log_input": False}, (P, Q), P - Q * np.log(P + 1e-8)),
    (nn.PoissonNLLLoss, {"full": True}, (X, Q * 9), np.exp(X) - Q * 9 * X + np.where(
        Q * 9 > 1, Q * 9 * np.log(Q * 9) - Q * 9 + 0.5 * np.log(2 * np.pi * Q * 9), 0)),
    (nn.GaussianNLLLoss, {"full": True}, (X, Y, VARIANCE),
     0.5 * (np.log(VARIANCE) + GAP**2 / VARIANCE + math.log(2 * math.pi))),
    (nn.KLDivLoss, {"log_target": True}, (X, Y), np.exp(Y) * (Y - X)),
    (nn.HingeEmbeddingLoss, {"margin": 0.4}, (X, SIGNS), np.where(SIGNS > 0, X, hinge(0.4 - X))),
    (nn.SoftMarginLoss, {}, (X, SIGNS), np.log1p(np.exp(-SIGNS * X))),
    (nn.MultiLabelSoftMarginLoss, {"weight": t(WEIGHTS)}, (X, Q), (entropy(sigmoid(X), Q) * WEIGHTS).mean(1)),
    (nn.MultiMarginLoss, {"p": 2, "margin": 0.7, "weight": t(WEIGHTS)}, (X, CLASSES),
     (MARGINS**2).sum(1) / 4 * WEIGHTS[CLASSES]),
    (nn.CosineEmbeddingLoss, {"margin": 0.2}, (X, Y, SIGNS[:, 0]),
     np.where(SIGNS[:, 0] > 0, 1 - cosines(X, Y), hinge(cosines(X, Y) - 0.2))),
    (nn.MarginRankingLoss, {"margin": 0.2}, (X, Y, SIGNS), hinge(-SIGNS * (X - Y) + 0.2)),
    (nn.TripletMarginLoss, {"margin": 0.5, "p": 3, "swap": True}, (X, Y, Z), hinge(FAR)),
    (nn.TripletMarginWithDistanceLoss, {}, (X, Y, Z), hinge(distance(X, Y) - distance(X, Z) + 1)),
    (nn.TripletMarginWithDistanceLoss, {"distance_function": lambda a, b: (a - b).abs().amax(-1), "margin": 2.0},
     (X, Y, Z), hinge(np.abs(X - Y).max(-1) - np.abs(X - Z).max(-1) + 2)),
]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("kind", "options", "inputs", "expected"), LOSSES)
def test_losses(kind, options, inputs, expected, reduction):
    if kind is nn.KLDivLoss and reduction == "mean":
        reduction, expected = "batchmean", expected.sum() / len(expected)
    reduced = {"none": expected, "mean": expected.mean(), "sum": expected.sum(), "batchmean": expected}[reduction]
    layer = kind(**options, reduction=reduction)
    np.testing.assert_allclose(layer(*map(t, inputs)).numpy(), reduced, rtol=1e-9, atol=1e-12)
    assert layer.reduction == reduction


def test_labels_of_several_classes():
    x = np.array([[0.1, 0.2, 0.4, 0.8]])
    listed, rest = [3, 0], [1, 2]
    expected = sum(hinge(1 - (x[0, a] - x[0, b])) for a, b in itertools.product(listed, rest)) / 4
    assert nn.MultiLabelMarginLoss()(t(x), t([[3, 0, -1, 1]])).item() == pytest.approx(expected, rel=1e-12)


def alignments(labels, length):
    """All ways to write labels over ``length`` steps, with blanks 0."""
    for path in itertools.product(range(3), repeat=length):
        if [key for key, _ in itertools.groupby(path) if key] == labels:
            yield path


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_alignments_of_labels(reduction):
    scores = log_softmax(RNG.normal(size=(2 * 4, 3))).reshape(4, 2, 3)
    targets, lengths = [[1, 2], [2, 2]], [4, 4]
    expected = np.array([-np.log(sum(np.exp(sum(scores[k, n, c] for k, c in enumerate(path)))
                                     for path in alignments(labels, 4))) for n, labels in enumerate(targets)])
    reduced = {"none": expected, "sum": expected.sum(), "mean": (expected / 2).mean()}[reduction]
    loss = nn.CTCLoss(reduction=reduction)
    np.testing.assert_allclose(loss(t(scores), t(targets), t(lengths), t([2, 2])).numpy(), reduced, rtol=1e-9)
    np.testing.assert_allclose(loss(t(scores), t(targets), tuple(lengths), (2, 2)).numpy(), reduced, rtol=1e-9)
    impossible = nn.CTCLoss(zero_infinity=True, reduction="sum")(t(scores[:1]), t(targets), t([1, 1]), t([2, 2]))
    assert impossible.item() == 0


def test_a_layer_before_cross_entropy():
    layer = nn.LinearCrossEntropyLoss(4, 3, bias=True, dtype=torch.float64, weight=t(WEIGHTS[:3]))
    weight, bias = layer.linear.weight.detach().numpy(), layer.linear.bias.detach().numpy()
    classes = CLASSES % 3
    picked = -log_softmax(X @ weight.T + bias)[np.arange(5), classes] * WEIGHTS[classes]
    assert layer(t(X), t(classes)).item() == pytest.approx(picked.sum() / WEIGHTS[classes].sum(), rel=1e-9)
    assert list(layer.state_dict()) == ["weight", "linear.weight", "linear.bias"]
    several = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), reduction="sum", dtype=torch.float64)
    weight = several.linear.weight.detach().numpy().reshape(3, 2, 4)
    targets = np.stack([classes, classes[::-1]], 1)
    expected = -sum(log_softmax(X @ weight[:, k].T)[np.arange(5), targets[:, k]].sum() for k in range(2))
    assert several(t(X), t(targets)).item() == pytest.approx(expected, rel=1e-9)
    assert several.extra_repr() == ("in_features=4, num_classes=3, out_features=(2,), bias=False, reduction=sum, "
                                    "ignore_index=None, label_smoothing=0.0, options=None")


@pytest.mark.parametrize(("options", "rule"), [
    ({"chunking_method": "rows"}, "chunking_method is None, 'auto' or 'aspect_ratio', perhaps with a number"),
    ({"acc_policy": "fast"}, "acc_policy is one of accurate, balanced, compact, auto"),
    ({"batch_chunk_size": -1}, "batch_chunk_size must be positive int or None")])
def test_options_of_that_layer(options, rule):
    with pytest.raises(ArgumentError, match=rule):
        nn.LinearCrossEntropyOptions(**options)
    given = nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:2")
    assert nn.LinearCrossEntropyLoss(4, 3, options=given).options is given


def test_older_names_warn():
    with pytest.warns(FutureWarning, match="NLLLoss2d is deprecated; use NLLLoss"):
        older = nn.NLLLoss2d(ignore_index=1)
    assert isinstance(older, nn.NLLLoss)
    with pytest.warns(FutureWarning, match="Container is deprecated; derive from Module"):
        held = nn.Container(act=nn.ReLU())
    assert isinstance(held.act, nn.ReLU)
    with pytest.warns(FutureWarning, match="min_value is deprecated; pass min_val"):
        assert nn.Hardtanh(min_value=-3).min_val == -3
    with pytest.warns(UserWarning, match="pass reduction='sum'"):
        assert nn.modules.loss._WeightedLoss(size_average=False).reduction == "sum"


@pytest.mark.parametrize(("make", "kind", "rule"), [
    (lambda: nn.MultiMarginLoss(p=3), ArgumentError, "only p == 1 and p == 2 supported"),
    (lambda: nn.MultiMarginLoss(weight=torch.ones(2, 2)), ShapeError, "expected weight to be None or 1D tensor"),
    (lambda: nn.TripletMarginLoss(0.0), ArgumentError, "expected margin to be greater than 0"),
    (lambda: nn.TripletMarginWithDistanceLoss(margin=-1), ArgumentError, "expected margin to be greater than 0")])
def test_arguments(make, kind, rule):
    with pytest.raises(kind, match=rule):
        make()


# ---- softmax with clusters


def adaptive():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True, dtype=torch.float64)
    return layer, RNG.normal(size=(6, 8))


def all_log_probabilities(layer, x):
    p = {name: value.numpy() for name, value in layer.state_dict().items()}
    head = log_softmax(x @ p["head.weight"].T + p["head.bias"])
    parts = [head[:, :3]]
    for cluster in range(2):
        within = log_softmax(x @ p[f"tail.{cluster}.0.weight"].T @ p[f"tail.{cluster}.1.weight"].T)
        parts.append(head[:, 3 + cluster:4 + cluster] + within)
    return np.concatenate(parts, 1)


def test_probabilities_of_classes_in_clusters():
    layer, x = adaptive()
    expected = all_log_probabilities(layer, x)
    np.testing.assert_allclose(np.exp(expected).sum(1), 1)
    np.testing.assert_allclose(layer.log_prob(t(x)).detach().numpy(), expected, rtol=1e-9)
    assert layer.predict(t(x)).tolist() == expected.argmax(1).tolist()
    with torch.no_grad():
        layer.head.bias[3:] += 5
    assert layer.predict(t(x)).tolist() == all_log_probabilities(layer, x).argmax(1).tolist()
    with torch.no_grad():
        layer.head.bias[3:] -= 50
    assert layer.predict(t(x)).tolist() == all_log_probabilities(layer, x)[:, :3].argmax(1).tolist()
    assert layer.tail[1][1].weight.shape == (5, 2)
    assert list(layer.state_dict())[:3] == ["head.weight", "head.bias", "tail.0.0.weight"]


def test_loss_of_classes_in_clusters():
    layer, x = adaptive()
    classes = np.array([0, 2, 3, 6, 7, 11])
    expected = all_log_probabilities(layer, x)[np.arange(6), classes]
    given = t(x).requires_grad_(True)
    output, loss = layer(given, t(classes))
    np.testing.assert_allclose(output.detach().numpy(), expected, rtol=1e-9)
    assert loss.item() == pytest.approx(-expected.mean(), rel=1e-9)
    loss.backward()
    step = np.zeros_like(x)
    step[4, 3] = 1e-6
    change = [all_log_probabilities(layer, x + k * step)[4, 7] for k in (1, -1)]
    assert given.grad[4, 3].item() == pytest.approx(-(change[0] - change[1]) / 2e-6 / 6, rel=1e-5)
    single = layer(t(x[2]), t(3))
    assert single.output.shape == ()
    assert single.output.item() == pytest.approx(expected[2], rel=1e-9)
    before = layer.head.weight.clone()
    layer.reset_parameters()
    assert not layer.head.weight.equal(before)


@pytest.mark.parametrize(("call", "rule"), [
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, []), "cutoffs should be a sequence of length larger than 0"),
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 5]), "cutoffs are unique, positive integers in an increasing "
                                                            "order, each between 1 and n_classes-1"),
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [20]), "cutoffs are unique, positive integers"),
    (lambda: adaptive()[0](t(X), t(CLASSES[:2])), "Input and target should have the same size in the batch dimension, "
                                                  "and no other in the target"),
    (lambda: adaptive()[0](torch.zeros(2, 8, dtype=torch.float64), t([1, 12])), r"target values are in \[0, 11\]")])
def test_what_clusters_refuse(call, rule):
    with pytest.raises(ValueError, match=rule):
        call()


@pytest.mark.parametrize("kind", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("ignored", "labels"), [(-100, [2, 0, 6, 2]), (-100, [2, -100, 6, 0]), (2, [2, 0, 6, 2])])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_classes_and_their_gradients(kind, weighted, ignored, labels, reduction):
    scores = np.random.default_rng(0).normal(size=(4, 7))
    weights = np.linspace(0.5, 2.0, 7) if weighted else np.ones(7)
    factor = np.array([0.0 if k == ignored else weights[k] for k in labels])
    picked = np.eye(7)[[max(k, 0) for k in labels]]
    log = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    start, slope = (log, np.exp(log)) if kind == "cross_entropy" else (scores, np.zeros_like(scores))
    terms, gradient = -(start * picked).sum(1) * factor, (slope - picked) * factor[:, None]
    total = factor.sum() if reduction == "mean" else 1.0
    x = torch.tensor(scores, requires_grad=True)
    loss = getattr(nn.functional, kind)(x, torch.tensor(labels), torch.tensor(weights) if weighted else None,
                            ignore_index=ignored, reduction=reduction)
    np.testing.assert_allclose(loss.detach().numpy(), terms if reduction == "none" else terms.sum() / total, rtol=1e-12)
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), gradient / total, rtol=1e-12, atol=1e-15)


def test_where_all_classes_are_ignored_nothing_moves():
    x = torch.randn(3, 4, requires_grad=True)
    loss = nn.functional.cross_entropy(x, torch.full((3,), -100))
    assert math.isnan(loss.item())
    loss.backward()
    assert x.grad.abs().max().item() == 0.0


@pytest.mark.parametrize("label", [-1, 4])
def test_classes_that_there_are_not(label):
    with pytest.raises(IndexError, match="nll_loss"):
        nn.functional.cross_entropy(torch.randn(2, 4), torch.tensor([0, label]))


def test_a_loss_of_classes_is_one_node():
    x = torch.randn(2, 4, requires_grad=True)
    loss = nn.functional.cross_entropy(x, torch.tensor([1, 3]))
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert loss.grad_fn.next_functions[0][0].variable is x


def test_targets_of_rankings_broadcast_in_the_general_function_alone() -> None:
    low, high, target = torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([1.0, -1.0, 1.0])
    assert torch.margin_ranking_loss(low, high, target, 0.5, 0).tolist() == [[1.5, 0.0, 1.5]] * 2
    with pytest.raises(RuntimeError, match="the inputs and the target have the same number of dimensions"):
        nn.functional.margin_ranking_loss(low, high, target)


@pytest.mark.parametrize(("name", "given", "expected"), [
    ("kl_div", ([0.0, -1.0], [0.5, 1.0]), [0.5 * np.log(0.5), 1.0]),
    ("hinge_embedding_loss", ([0.5, 0.25], [1.0, -1.0]), [0.5, 0.75]),
    ("margin_ranking_loss", ([1.0, 3.0], [2.0, 1.0], [1.0, 1.0]), [1.0, 0.0]),
    ("binary_cross_entropy_with_logits", ([0.0, 2.0], [1.0, 0.0]), [np.log(2), np.log1p(np.exp(2.0))]),
    ("cosine_embedding_loss", ([[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0]), [0.0, 1.0]),
    ("triplet_margin_loss", ([[0.0], [0.0]], [[1.0], [0.0]], [[0.5], [9.0]]), [1.5, 0.0]),
    ("poisson_nll_loss", ([0.0, 1.0], [1.0, 2.0]), [1.0, np.e - 2.0]),
    ("ctc_loss", ([[[0.0, -9.0]], [[0.0, -9.0]]], [[1]], [2], [1]), [9 - np.log(2 + np.exp(-9.0))]),
])
def test_losses_of_the_main_namespace_reduce_nothing_unless_they_are_told_to(name, given, expected) -> None:
    given = [torch.tensor(x) for x in given]
    loss = getattr(torch, name)
    assert loss(*given).tolist() == pytest.approx(expected, abs=1e-5)
    assert loss(*given, reduction=2).item() == pytest.approx(sum(expected), abs=1e-5)
    assert nn.functional.__dict__[name](*given, reduction="sum").item() == pytest.approx(sum(expected), abs=1e-5)
