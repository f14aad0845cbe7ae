"""Functions of neural networks beside NumPy: what the samples of the conformance suite cannot show."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 3, 5))


def t(values):
    return torch.tensor(values)


def close(result, expected):
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


# ---- losses


def test_older_arguments_of_losses_decide_with_a_warning():
    x, y = t(X[0]), t(X[1])
    with pytest.warns(UserWarning, match="pass reduction='sum'"):
        assert F.smooth_l1_loss(x, y, False).item() == F.smooth_l1_loss(x, y, reduction="sum").item()
    with pytest.warns(UserWarning, match="pass reduction='none'"):
        assert F.soft_margin_loss(x, y, reduce=False).shape == x.shape


def test_different_shapes_of_losses_are_warned_of():
    with pytest.warns(UserWarning, match="This will likely lead to incorrect results due to broadcasting. Please "
                      "ensure they have the same size"):
        F.mse_loss(t(X[0]), t(X[0, 0]))
    with pytest.warns(UserWarning, match="'batchmean' does not"):
        F.kl_div(t(X[0]), t(np.abs(X[0])))


def test_weighted_distances():
    x, y, w = X[0], X[1], np.abs(X[2])
    close(F.mse_loss(t(x), t(y), weight=t(w)), ((x - y) ** 2 * w).sum() / w.sum())
    close(F.l1_loss(t(x), t(y), weight=t(w), reduction="sum"), (np.abs(x - y) * w).sum())
    close(F.huber_loss(t(x), t(x + 3), weight=t(w)), (2.5 * w).mean())


def test_probabilities_are_checked_on_the_host():
    with pytest.raises(ArgumentError, match=r"\[binary_cross_entropy\] inputs .*inputs and targets are probabilities"):
        F.binary_cross_entropy(t([1.0, 2.0]), t([1.0, 1.0]))
    for value in (2.0, math.nan, -0.5):
        with pytest.raises(ArgumentError, match=r"targets from .* — inputs and targets are probabilities"):
            F.binary_cross_entropy(t([1.0, 0.5]), t([1.0, value]))
    with pytest.raises(RuntimeError, match="input and target have one dtype"):
        F.binary_cross_entropy(t([1.0, 0.5]), torch.tensor([1, 0]))
    assert F.binary_cross_entropy(t([0.0, 1.0]), t([1.0, 0.0])).item() == 100.0


def test_logits_of_any_size_have_finite_losses():
    x, target = t([-1000.0, 1000.0, 0.0]), t([1.0, 0.0, 0.5])
    terms = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    np.testing.assert_allclose(terms.tolist(), [1000, 1000, math.log(2)], rtol=1e-6)
    weighted = F.binary_cross_entropy_with_logits(x, target, pos_weight=t([3.0, 1.0, 1.0]), reduction="none")
    assert weighted[0].item() == 3000.0


def all_alignments(probabilities, labels, blank):
    """The sum over all paths that collapse to the labels."""
    steps, classes = probabilities.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        collapsed = [k for k, _ in itertools.groupby(path) if k != blank]
        if collapsed == list(labels):
            total += math.prod(probabilities[step, k] for step, k in enumerate(path))
    return total


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [2], []])
def test_ctc_sums_all_alignments(labels):
    scores = RNG.normal(size=(4, 3))
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    loss = F.ctc_loss(t(np.log(probabilities))[:, None], torch.tensor([labels], dtype=torch.long), [4], [len(labels)],
                      reduction="none")
    close(loss, [-math.log(all_alignments(probabilities, labels, 0))])


def test_impossible_alignments():
    scores = torch.zeros(1, 1, 3, dtype=torch.float64, requires_grad=True)
    loss = F.ctc_loss(scores, t([[1, 1]]), [1], [2], reduction="none")
    assert loss.tolist() == [math.inf]
    loss = F.ctc_loss(scores, t([1, 1]), (1,), (2,), zero_infinity=True)
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


# ---- normalisation


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics(training):
    mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    result = F.batch_norm(t(X), mean, var, training=training, momentum=0.3, eps=0.1)
    if training:
        own, spread = X.mean((0, 2)), X.var((0, 2))
        close(mean, own * 0.3)
        close(var, 0.7 + X.var((0, 2), ddof=1) * 0.3)
    else:
        own, spread = np.zeros(3), np.ones(3)
        assert mean.tolist() == [0, 0, 0]
    close(result, (X - own[:, None]) / np.sqrt(spread[:, None] + 0.1))


def test_running_statistics_of_instances():
    mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    result = F.instance_norm(t(X), mean, var, momentum=0.25, eps=0.1)
    close(result, (X - X.mean(2, keepdims=True)) / np.sqrt(X.var(2, keepdims=True) + 0.1))
    close(mean, X.mean((0, 2)) * 0.25)
    close(var, 0.75 + X.var(2, ddof=1).mean(0) * 0.25)
    close(F.instance_norm(t(X), mean, var, use_input_stats=False, eps=0.0),
          (X - mean.numpy()[:, None]) / np.sqrt(var.numpy()[:, None]))


def test_large_offsets_do_not_disturb_normalisation():
    x = (X[0] + 1e4).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    np.testing.assert_allclose(F.layer_norm(t(x), (5,), eps=0.0).numpy(), expected, atol=2e-3)


def test_single_values_are_not_normalised():
    with pytest.raises(ArgumentError, match=r"Expected more than 1 value per channel when training, got input size .*"):
        F.batch_norm(torch.ones(1, 2), None, None, training=True)
    with pytest.raises(ArgumentError, match=r"Expected more than 1 spatial element when training, got input size .*"):
        F.instance_norm(torch.ones(2, 2, 1))
    with pytest.raises(ArgumentError, match="more than one value per group is normalised"):
        F.group_norm(torch.ones(1, 2), 2)
    with pytest.raises(ArgumentError, match="eps is positive, or zero out of training"):
        F.batch_norm(torch.ones(2, 2), None, None, training=True, eps=0.0)


# ---- dropout


@pytest.mark.parametrize(("function", "shape"), [
    (F.dropout1d, (50, 40, 3)), (F.dropout2d, (50, 40, 2, 3)), (F.dropout3d, (50, 40, 2, 1, 3))])
def test_whole_channels_are_dropped(function, shape):
    x = torch.ones(*shape)
    rows = function(x, 0.25).reshape(2000, -1)
    assert rows.eq(rows[:, :1]).all()
    assert set(rows[:, 0].tolist()) == {0.0, rows.max().item()}
    assert abs(rows.max().item() - 4 / 3) < 1e-6
    assert abs(rows.ne(0).double().mean().item() - 0.75) < 0.06
    assert function(x, 0.25, False) is x
    assert function(x, 0.25, inplace=True) is x


def test_unusual_shapes_of_channel_dropout():
    with pytest.raises(ShapeError, match=r"\[dropout1d\] .* the input is \(N, C, L\) or \(C, L\)"):
        F.dropout1d(torch.ones(2))
    with pytest.warns(UserWarning, match="dropout2d of an input with 3 dimensions"):
        assert F.dropout2d(torch.ones(2, 3, 4)).shape == (2, 3, 4)
    with pytest.warns(UserWarning, match="dropout3d of an input with 3 dimensions"):
        assert F.dropout3d(torch.ones(2, 3, 4)).shape == (2, 3, 4)


def test_alpha_dropout_keeps_mean_and_variance():
    torch.manual_seed(2)
    result = F.alpha_dropout(torch.randn(200000), 0.3, True)
    assert abs(result.mean().item()) < 0.02
    assert abs(result.var().item() - 1) < 0.03


def test_native_dropout_and_its_mask():
    x = torch.ones(1000)
    values, mask = torch.native_dropout(x, 0.5, True)
    assert values.tolist() == [2.0 if keep else 0.0 for keep in mask.tolist()]
    assert torch.native_dropout_backward(x, mask, 2.0).tolist() == values.tolist()
    assert torch.native_dropout(x, 0.5, False)[1].all()
    assert torch.native_dropout(x, 1.0, True)[0].tolist() == [0.0] * 1000


def test_gumbel_softmax():
    torch.manual_seed(3)
    logits = t(np.log([[0.2, 0.5, 0.3]])).expand(20000, 3)
    drawn = F.gumbel_softmax(logits, hard=True)
    assert set(drawn.sum(1).round().tolist()) == {1.0}
    np.testing.assert_allclose(drawn.mean(0).numpy(), [0.2, 0.5, 0.3], atol=0.02)
    with pytest.warns(UserWarning, match="eps is deprecated"):
        F.gumbel_softmax(logits[:1], eps=1e-5)


# ---- embeddings


def test_rows_of_tables_are_renormalised_in_place():
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    rows = F.embedding(t([0, 1, 0]), weight, max_norm=1.0)
    np.testing.assert_allclose(rows.tolist(), [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]], rtol=1e-5)
    np.testing.assert_allclose(weight.tolist(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-5)


def test_gradients_of_padding_and_frequent_rows():
    weight = torch.ones(3, 2, requires_grad=True)
    index = t([0, 0, 1, 2, 0])
    F.embedding(index, weight, padding_idx=1, scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [1, 1]]
    weight.grad = None
    F.embedding(index, weight, -2).sum().backward()
    assert weight.grad.tolist() == [[3, 3], [0, 0], [1, 1]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    weight, index = X[0], np.array([0, 2, 1, 1, 0])
    of = {"sum": lambda rows: rows.sum(0), "mean": lambda rows: rows.mean(0), "max": lambda rows: rows.max(0)}[mode]
    expected = [of(weight[index[:2]]), np.zeros(5), of(weight[index[2:]])]
    close(F.embedding_bag(t(index), t(weight), t([0, 2, 2]), mode=mode), expected)
    close(F.embedding_bag(t(index), t(weight), t([0, 2, 2, 5]), mode=mode, include_last_offset=True), expected)
    skipped = [of(weight[[2]]), np.zeros(5), of(weight[[1, 1]])]
    close(F.embedding_bag(t(index), t(weight), t([0, 2, 2]), mode=mode, padding_idx=0), skipped)


# ---- attention


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_queries_that_may_look_at_nothing_get_zeros():
    q, k, v = (torch.tensor(x, requires_grad=True) for x in (X[0], X[1], X[2]))
    mask = t([[True, False, True], [False, False, False], [True, True, True]])
    result = F.scaled_dot_product_attention(q, k, v, mask)
    scores = np.where(mask.numpy(), X[0] @ X[1].T / math.sqrt(5), -1e9)
    close(result, softmax(scores) @ X[2] * [[1], [0], [1]])
    result.sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert q.grad[1].tolist() == [0] * 5


def heads_in_numpy(query, key, value, weight, bias, heads, mask):
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), np.split(weight, 3), np.split(bias, 3), strict=True))
    outputs, seen = [], []
    for a, b, c in zip(*(np.split(x, heads, -1) for x in (q, k, v)), strict=True):
        seen.append(softmax(a @ b.T / math.sqrt(a.shape[1]) + mask))
        outputs.append(seen[-1] @ c)
    return np.concatenate(outputs, -1), np.stack(seen)


def test_heads_of_attention():
    query, key = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4))
    weight, bias, out = RNG.normal(size=(12, 4)), RNG.normal(size=12), RNG.normal(size=(4, 4))
    hidden = np.array([False, True, False, False, True])
    given = (4, 2, t(weight), t(bias), None, None, False, 0.0, t(out), None)
    expected, seen = heads_in_numpy(query, key, key, weight, bias, 2, np.where(hidden, -1e9, 0.0))
    result, weights = F.multi_head_attention_forward(t(query), t(key), t(key), *given, key_padding_mask=t(hidden))
    close(result, expected @ out.T)
    close(weights, seen.mean(0))
    batch = [t(x)[:, None] for x in (query, key, key)]
    hidden = t(hidden)[None]
    result, weights = F.multi_head_attention_forward(*batch, *given, key_padding_mask=hidden, need_weights=False)
    close(result[:, 0], expected @ out.T)
    assert weights is None


def test_errors_of_attention():
    x = torch.ones(3, 2, 4)
    weights = (torch.ones(12, 4), None, None, None, False, 0.0, torch.ones(4, 4), None)
    for change, rule in [
        ({"is_causal": True}, "is_causal says what attn_mask is"),
        ({"attn_mask": torch.ones(2, 2)}, r"a mask is \(L, S\) or \(N \* num_heads, L, S\)"),
        ({"key_padding_mask": torch.ones(3, 2)}, r"a padding mask is \(N, S\)"),
        ({"use_separate_proj_weight": True}, "query, key and value are projected"),
    ]:
        with pytest.raises((ArgumentError, ShapeError), match=rule):
            F.multi_head_attention_forward(x, x, x, 4, 2, *weights, **change)
    with pytest.raises(ShapeError, match=r"query \(L, N, E\), key \(S, N, K\) and value \(S, N, V\) have one batch, "
                                         "and the heads divide E"):
        F.multi_head_attention_forward(x, x, x, 4, 3, *weights)


# ---- recurrent networks


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_lstm_over_time():
    x, h, c = RNG.normal(size=(3, 2, 4)), RNG.normal(size=(1, 2, 3)), RNG.normal(size=(1, 2, 3))
    w_ih, w_hh, b_ih, b_hh = (RNG.normal(size=s) for s in ((12, 4), (12, 3), (12,), (12,)))
    params = [t(w_ih), t(w_hh), t(b_ih), t(b_hh)]
    output, last, cell = torch.lstm(t(x), (t(h), t(c)), params, True, 1, 0.0, False, False, False)
    expected, (a, b) = [], (h[0], c[0])
    for moment in x:
        i, f, g, o = np.split(moment @ w_ih.T + b_ih + a @ w_hh.T + b_hh, 4, -1)
        b = sigmoid(f) * b + sigmoid(i) * np.tanh(g)
        a = sigmoid(o) * np.tanh(b)
        expected.append(a)
    close(output, expected)
    close(last[0], a)
    close(cell[0], b)


def test_gru_in_both_directions():
    x, h = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 2, 3))
    params = [RNG.normal(size=s) for _ in range(2) for s in ((9, 4), (9, 3))]
    output, last = torch.gru(t(x), t(h), [t(p) for p in params], False, 1, 0.0, False, True, True)
    for k in range(2):
        state, w_ih, w_hh = h[k], params[2 * k], params[2 * k + 1]
        for step in range(3)[::1 - 2 * k]:
            (r, z, n), (r2, z2, n2) = np.split(x[:, step] @ w_ih.T, 3, -1), np.split(state @ w_hh.T, 3, -1)
            update = sigmoid(z + z2)
            state = (1 - update) * np.tanh(n + sigmoid(r + r2) * n2) + update * state
            close(output[:, step, 3 * k:3 * k + 3], state)
        close(last[k], state)


def test_signatures_show_the_class_of_tensors():
    signature = inspect.signature(F.cross_entropy)
    assert signature.parameters["input"].annotation is torch.Tensor
    assert signature.return_annotation is torch.Tensor
