"""Operators of neural networks against NumPy in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_operators import functions as F
from tensocket_operators.nn.losses import cross_entropy
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, IndexOutOfRange, ShapeError
from tensocket_plugins.contract.launch_recorder import record_launches

X = np.random.default_rng(0).normal(size=(4, 3)) * 2
CLASSES = np.array([0, 2, 1, 2])
WEIGHT = np.array([0.5, 2.0, 3.0])
FORM = r"^\[{}\] .+ — .+ — .+"


def double(values):
    return torch.tensor(np.asarray(values, np.float64))


def log_softmax(x, axis=1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def nll(scores, classes, weight=None, ignore=-100, reduction="mean"):
    """By loops: scores [N, C, ...] and classes [N, ...]."""
    losses, total = np.zeros(classes.shape), 0.0
    for place in np.ndindex(classes.shape):
        chosen = classes[place]
        if chosen != ignore:
            factor = 1.0 if weight is None else weight[chosen]
            losses[place] = -factor * scores[(place[0], chosen, *place[1:])]
            total += factor
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[reduction]


# ---- softmax


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_softmax_of_every_dimension(device, dim, near):
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    expected = np.exp(x) / np.exp(x).sum(dim, keepdims=True)
    near(double(x).softmax(dim), expected)
    near(F.log_softmax(double(x), dim), np.log(expected))
    turned = np.exp(x.swapaxes(0, 2))
    near(double(x).transpose(0, 2).softmax(dim), turned / turned.sum(dim, keepdims=True))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softmax_of_every_dtype(device, dtype, make, near):
    x = X.astype(dtype).astype(np.float64)
    near(make(x, dtype).softmax(1), np.exp(log_softmax(x)), dtype=dtype)
    near(make(x, dtype).log_softmax(1), log_softmax(x), scale=4, dtype=dtype)


def test_softmax_of_bfloat16(make, near, host):
    x = make(X, "bfloat16")
    near(x.softmax(1), np.exp(log_softmax(host(x))), dtype="bfloat16")


def test_softmax_does_not_overflow(device):
    assert torch.tensor([1e4, 1e4, -1e4]).softmax(0).tolist() == [0.5, 0.5, 0.0]
    assert torch.tensor([1e4, 0.0]).log_softmax(0).tolist() == [0.0, -1e4]
    assert torch.tensor([-math.inf, 0.0]).softmax(0).tolist() == [0.0, 1.0]


def test_softmax_of_few_elements(device):
    assert torch.tensor(3.0).softmax(0).item() == 1.0
    assert torch.tensor([[3.0], [4.0]]).softmax(1).tolist() == [[1.0], [1.0]]
    assert torch.zeros(0, 3).softmax(1).tolist() == []
    assert torch.zeros(2, 0).log_softmax(1).tolist() == [[], []]


def test_softmax_converts_first(near):
    x = torch.tensor([1, 2, 3])
    expected = np.exp(log_softmax(np.array([1.0, 2.0, 3.0]), 0))
    near(F.softmax(x, 0, dtype=torch.float64), expected, dtype="float64")
    near(x.log_softmax(0, dtype=torch.float32), np.log(expected), dtype="float32")
    assert torch.equal(x.softmax(0, torch.float64), x.softmax(0, dtype=torch.float64))
    assert torch.equal(F.log_softmax(x, 0, torch.float64), x.log_softmax(0, dtype=torch.float64))
    with pytest.raises(DtypeError, match=FORM.format("softmax")):
        x.softmax(0)


# ---- losses


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignore", [-100, 2, -1])
def test_losses_of_classes(device, reduction, weight, ignore, near):
    classes = np.where(CLASSES == 1, -1, CLASSES) if ignore == -1 else CLASSES
    options = {"weight": None if weight is None else double(weight), "ignore_index": ignore, "reduction": reduction}
    expected = nll(log_softmax(X), classes, weight, ignore, reduction)
    near(F.nll_loss(double(log_softmax(X)), torch.tensor(classes), **options), expected)
    near(F.cross_entropy(double(X), torch.tensor(classes), **options), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_losses_of_many_scores(device, reduction, weight, ignore, near, monkeypatch):
    monkeypatch.setattr("tensocket_operators.nn.losses.nll._MANY", 0)
    x = (X * 200).astype(np.float64)  # exp(x) overflows
    options = {"weight": None if weight is None else double(weight), "ignore_index": ignore, "reduction": reduction}
    given = double(x).requires_grad_()
    loss = F.cross_entropy(given, torch.tensor(CLASSES), **options)
    near(loss, nll(log_softmax(x), CLASSES, weight, ignore, reduction))
    loss.sum().backward()
    factor = (np.ones(3) if weight is None else weight)[CLASSES] * (ignore != CLASSES)
    share = (np.exp(log_softmax(x)) - np.eye(3)[CLASSES]) * factor[:, None]
    near(given.grad, share / (factor.sum() if reduction == "mean" else 1))
    with pytest.raises(IndexError, match=FORM.format("nll_loss")):
        F.cross_entropy(double(x), torch.tensor(CLASSES + 3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("places", [(3,), (2, 4), (0,)])
def test_losses_of_labels_at_places(device, reduction, weighted, places, near):
    rng = np.random.default_rng(5)
    x, labels, weight = rng.normal(size=(4, 5, *places)), rng.integers(0, 5, (4, *places)), rng.uniform(1, 2, 5)
    labels[0] = 3
    options = {"weight": double(weight) if weighted else None, "ignore_index": 3, "reduction": reduction}
    given = double(x).requires_grad_()
    loss = F.cross_entropy(given, torch.tensor(labels), **options)
    if 0 in places:
        assert tuple(loss.shape) == (labels.shape if reduction == "none" else ())
        return
    near(loss, nll(log_softmax(x), labels, weight if weighted else None, 3, reduction))
    loss.sum().backward()
    factor = (weight[labels] if weighted else np.ones(labels.shape)) * (labels != 3)
    classes = np.moveaxis(np.eye(5)[labels], -1, 1)
    share = (np.exp(log_softmax(x)) - classes) * factor[:, None]
    near(given.grad, share / (factor.sum() if reduction == "mean" else 1))
    with pytest.raises(IndexError, match=FORM.format("nll_loss")):
        F.cross_entropy(double(x), torch.tensor(labels + 5), **options)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [150, 600])
def test_losses_of_a_large_matrix(device, reduction, weighted, rows, near):
    """Few enough scores for one kernel over saved probabilities, and so many that they are read twice."""
    rng = np.random.default_rng(3)
    x, labels, weight = rng.normal(size=(rows, 1000)), rng.integers(0, 1000, rows), rng.uniform(1, 2, 1000)
    options = {"weight": double(weight) if weighted else None, "ignore_index": 7, "reduction": reduction}
    labels[::9] = 7
    given = double(x).requires_grad_()
    loss = F.cross_entropy(given, torch.tensor(labels), **options)
    near(loss, nll(log_softmax(x), labels, weight if weighted else None, 7, reduction))
    loss.sum().backward()
    factor = (weight[labels] if weighted else np.ones(rows)) * (labels != 7)
    share = (np.exp(log_softmax(x)) - np.eye(1000)[labels]) * factor[:, None]
    near(given.grad, share / (factor.sum() if reduction == "mean" else 1))
    with pytest.raises(IndexError, match=FORM.format("nll_loss")):
        F.cross_entropy(double(x), torch.tensor(labels + 1000), **options)


@pytest.mark.parametrize("factors", [None, np.array([0.5, 2.0, 0.0, 3.0])])
def test_rows_of_classified_scores(device, factors, near):
    x, labels, upstream = double(X), torch.tensor(CLASSES[:, None]), np.array([1.0, -2.0, 3.0, 0.5])
    factor, kept = None if factors is None else double(factors[:, None]), (CLASSES != 2) * 1.0
    weights = kept if factors is None else kept * factors
    top, total, loss = call(cross_entropy.term_totals, x, labels, factor, 2, (-1,))
    near(top, X.max(1, keepdims=True))
    near(total, np.exp(X - X.max(1, keepdims=True)).sum(1, keepdims=True))
    near(loss[:, 0], -log_softmax(X)[np.arange(4), CLASSES] * weights)
    mean, count = call(cross_entropy.term_mean, loss[:, 0], labels[:, 0], None if factor is None else factor[:, 0], 2,
                       (-1,))
    near(count, [weights.sum()])
    near(mean, [(-log_softmax(X)[np.arange(4), CLASSES] * weights).sum() / weights.sum()])
    share = (np.exp(log_softmax(X)) - np.eye(3)[CLASSES]) * (weights * upstream / weights.sum())[:, None]
    near(call(cross_entropy.term_shares, x, labels, factor, top, total, double(upstream[:, None]),
              count.reshape(1, 1), 2, (-1,)), share)


def test_a_device_reads_labels_once_and_launches_few_kernels(monkeypatch):
    x, labels = double(X).requires_grad_(), torch.tensor(CLASSES)
    runtime, read = x._device_state.runtime, []
    copy = runtime.copy
    monkeypatch.setattr(runtime, "copy", lambda target, source, stream: (
        read.append(type(target)), copy(target, source, stream)))
    loss = F.cross_entropy(x, labels)
    assert read == [np.ndarray]
    recorder = record_launches(loss.backward)[1]  # without copies, which end a recording
    assert len(recorder.calls) <= 3  # the 1 to begin with, the gradient, and its copy, which the recorder holds


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("smoothing", [0.1, 1.0])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_label_smoothing(reduction, weight, smoothing, ignore, near):
    # (1 - s) * loss of the class + s / C * losses of all classes; ``mean`` divides both by the classes' weights.
    scores, factor = log_softmax(X), np.ones(3) if weight is None else weight
    keep = ignore != CLASSES
    hard = nll(scores, CLASSES, weight, ignore, "none")
    smooth = -(scores * factor).sum(1) / 3 * keep
    losses = (1 - smoothing) * hard + smoothing * smooth
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / (factor[CLASSES] * keep).sum()}[reduction]
    weights = None if weight is None else double(weight)
    near(F.cross_entropy(double(X), torch.tensor(CLASSES), weights, ignore, reduction, smoothing), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities(reduction, weight, smoothing, near):
    target = np.exp(log_softmax(X[::-1]))
    smoothed = target * (1 - smoothing) + smoothing / 3
    losses = -(log_softmax(X) * smoothed * (1 if weight is None else weight)).sum(1)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / 4}[reduction]
    weights = None if weight is None else double(weight)
    options = {"weight": weights, "reduction": reduction, "label_smoothing": smoothing}
    near(F.cross_entropy(double(X), double(target), **options), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_images_and_of_one_sample(device, reduction, near):
    x = np.random.default_rng(2).normal(size=(2, 3, 2, 5))
    classes = np.random.default_rng(3).integers(0, 3, (2, 2, 5))
    near(F.cross_entropy(double(x), torch.tensor(classes), double(WEIGHT), 1, reduction),
         nll(log_softmax(x), classes, WEIGHT, 1, reduction))
    one = nll(log_softmax(X[:1]), CLASSES[:1], reduction="sum")
    near(F.cross_entropy(double(X[0]), torch.tensor(0), reduction=reduction), one)
    near(F.nll_loss(double(log_softmax(X)[0]), torch.tensor(0), reduction=reduction), one)


def test_losses_of_nothing():
    everything_ignored = F.cross_entropy(double(X), torch.tensor([-100] * 4))
    assert math.isnan(everything_ignored.item())
    assert F.cross_entropy(double(X), torch.tensor([-100] * 4), reduction="sum").item() == 0
    assert math.isnan(F.nll_loss(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_differences(device, reduction, near):
    reduce = {"mean": np.mean, "sum": np.sum, "none": lambda x: x}[reduction]
    target = X[::-1].copy()
    near(F.mse_loss(double(X), double(target), reduction=reduction), reduce((X - target) ** 2))
    near(F.l1_loss(double(X), double(target), reduction=reduction), reduce(np.abs(X - target)))


@pytest.mark.parametrize("call", [
    lambda: F.nll_loss(double(X), torch.tensor([0, 1])), lambda: F.nll_loss(double(X), torch.tensor([[0, 1, 2, 0]])),
    lambda: F.nll_loss(double(1.0), torch.tensor(0))])
def test_shapes_of_targets_are_checked(call):
    with pytest.raises(ShapeError, match=FORM.format("nll_loss")):
        call()


def test_arguments_of_losses_are_checked():
    target = torch.tensor(CLASSES)
    with pytest.raises(ShapeError, match=FORM.format("cross_entropy")):
        F.cross_entropy(double(X), double(X[:2]))
    with pytest.raises(ArgumentError, match=FORM.format("cross_entropy")):
        F.cross_entropy(double(X), target, label_smoothing=1.5)
    with pytest.raises(ArgumentError, match=FORM.format("nll_loss")):
        F.nll_loss(double(X), target, reduction="median")
    with pytest.raises(ArgumentError, match=FORM.format("mse_loss")):
        F.mse_loss(double(X), double(X), reduction="median")
    with pytest.raises(IndexOutOfRange, match=FORM.format("nll_loss")):
        F.nll_loss(double(X), target + 1)


# ---- dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_statistics_of_dropout(p, host):
    torch.manual_seed(7)
    count = 4000
    result = host(F.dropout(torch.ones(count, dtype=torch.float64), p))
    kept = result != 0
    np.testing.assert_allclose(result[kept], 1 / (1 - p), rtol=1e-12)
    # Five standard deviations of a binomial distribution.
    assert abs(kept.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / count)
    # Neighbours are independent.
    both = (kept[1:] & kept[:-1]).mean()
    assert abs(both - (1 - p) ** 2) < 5 * math.sqrt((1 - p) ** 2 * (1 - (1 - p) ** 2) / count) * 1.5


def test_dropout_follows_the_seed():
    x = torch.ones(64)
    torch.manual_seed(1)
    first, second = F.dropout(x).tolist(), F.dropout(x).tolist()
    torch.manual_seed(1)
    assert F.dropout(x).tolist() == first
    assert first != second


def test_dropout_without_chance(device):
    x = torch.tensor([1.0, -2.0])
    assert F.dropout(x, 0.5, False) is x
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).tolist() == [0.0, 0.0]
    for p in (-0.1, 1.1):
        with pytest.raises(ArgumentError, match=FORM.format("dropout")):
            F.dropout(x, p)


# ---- embedding and one_hot


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_embedding(device, shape, dtype, make):
    index = np.resize([3, 0, 3, 1], shape)
    assert F.embedding(double(X), make(index, dtype)).tolist() == X[index.astype(np.int64)].tolist()


def test_embedding_checks_its_arguments():
    with pytest.raises(ShapeError, match=FORM.format("embedding")):
        F.embedding(double(X[0]), torch.tensor([0]))
    for wrong in (4, -1):
        with pytest.raises(IndexOutOfRange, match=FORM.format("embedding")):
            F.embedding(double(X), torch.tensor([0, wrong]))
    with pytest.raises(DtypeError, match=FORM.format("embedding")):
        F.embedding(double(X), torch.tensor([0.0]))


@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
def test_one_hot(device, shape):
    classes = np.resize([0, 2, 1, 2], shape)
    for count in (3, 5):
        result = F.one_hot(torch.tensor(classes), count)
        assert result.dtype is torch.int64
        assert result.tolist() == np.eye(count, dtype=np.int64)[classes].tolist()
    assert F.one_hot(torch.tensor(classes)).tolist() == np.eye(classes.max() + 1, dtype=np.int64)[classes].tolist()


def test_one_hot_of_nothing_and_of_wrong_classes():
    assert F.one_hot(torch.zeros(0, dtype=torch.int64), 3).shape == (0, 3)
    for classes, count in (([3], 3), ([-1, 0], 3), ([], -1)):
        with pytest.raises(ArgumentError, match=FORM.format("one_hot")):
            F.one_hot(torch.tensor(classes, dtype=torch.int64), count)
    with pytest.raises(DtypeError, match=FORM.format("one_hot")):
        F.one_hot(torch.tensor([0], dtype=torch.int32))


# ---- layer_norm, linear and activations


def normalised(x, dims, eps):
    axes = tuple(range(x.ndim - dims, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize(("dims", "weighted", "biased"), list(itertools.product([1, 2, 3], [0, 1], [0, 1])))
def test_layer_norm(device, dims, weighted, biased, near):
    random = np.random.default_rng(4)
    x = random.normal(size=(2, 3, 4)) * 3 + 5
    shape = x.shape[-dims:]
    weight, bias = random.normal(size=shape), random.normal(size=shape)
    expected = normalised(x, dims, 1e-3) * (weight if weighted else 1) + (bias if biased else 0)
    options = {"weight": double(weight) if weighted else None, "bias": double(bias) if biased else None, "eps": 1e-3}
    near(F.layer_norm(double(x), shape, **options), expected)


def test_layer_norm_in_float32_and_with_its_default(near, make):
    near(F.layer_norm(make(X), [3]), normalised(X, 1, 1e-5), scale=4)
    constant = F.layer_norm(torch.full((2, 3), 7.0), (3,))
    assert constant.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (2, 4, 3)])
def test_layer_norm_checks_its_shape(shape):
    with pytest.raises(ShapeError, match=FORM.format("layer_norm")):
        F.layer_norm(double(X), shape)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.floats(-1000, 1000))
def test_softmax_sums_to_one_and_ignores_a_shift(values, shift):
    result = torch.tensor(values, dtype=torch.float64).softmax(0)
    assert sum(result.tolist()) == pytest.approx(1, rel=1e-12)
    moved = torch.tensor([v + shift for v in values], dtype=torch.float64).softmax(0)
    assert moved.tolist() == pytest.approx(result.tolist(), rel=1e-10)


SIGMOID = 1 / (1 + np.exp(-X))


@pytest.mark.parametrize(("call", "expected"), [
    (lambda x: F.silu(x), X * SIGMOID),
    (lambda x: F.leaky_relu(x), np.where(X > 0, X, 0.01 * X)),
    (lambda x: F.leaky_relu(x, 0.3), np.where(X > 0, X, 0.3 * X)),
    (lambda x: F.gelu(x), X * (1 + np.vectorize(math.erf)(X / math.sqrt(2))) / 2),
    (lambda x: F.gelu(x, approximate="tanh"), X / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))),
    (lambda x: F.linear(x, double(X[:2])), X @ X[:2].T),
    (lambda x: F.linear(x, double(X[:2]), double([1.0, -1.0])), X @ X[:2].T + [1, -1]),
    (lambda x: F.linear(x[0], double(X[:2])), X[0] @ X[:2].T),
    (lambda x: F.linear(x, double(X[0]), double(2.0)), X @ X[0] + 2),
], ids=["silu", "leaky_relu", "leaky_relu slope", "gelu", "gelu tanh", "linear", "linear bias", "linear vector",
        "linear of one output"])
def test_activations_and_linear(device, call, expected, near):
    near(call(double(X)), expected)


def test_arguments_of_activations_and_linear_are_checked():
    with pytest.raises(ArgumentError, match=FORM.format("gelu")):
        F.gelu(double(X), approximate="erf")
    for weight in (X, X.T[0], X.T[:2]):
        with pytest.raises(ShapeError, match=FORM.format("linear")):
            F.linear(double(X[:, :2]), double(weight))


@pytest.mark.parametrize(("operator", "shape", "kernel"), [
    ("conv1d", (4, 6, 8), (5, 6, 3)), ("conv2d", (8, 3, 4, 4), (5, 3, 3, 3)), ("conv2d", (8, 3, 4, 4), (5, 3, 1, 1)),
    ("conv3d", (2, 1, 3, 3, 3), (2, 1, 2, 2, 2)), ("conv_transpose1d", (4, 6, 8), (6, 3, 3)),
    ("conv_transpose2d", (4, 3, 4, 4), (3, 5, 3, 3))])
def test_images_lie_as_programs_expect(operator, shape, kernel):
    image = torch.ones(shape, requires_grad=True)
    weight = torch.ones(kernel, requires_grad=True)
    result = getattr(torch, operator)(image, weight)
    assert result.is_contiguous()
    assert result.view(shape[0], -1).shape[0] == shape[0]
    result.sum().backward()
    assert image.grad.is_contiguous()
