"""Derivatives of losses, normalisation, dropout, embeddings, distances, attention and recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import functions as F
from tensocket_operators.differentiation.gradcheck import gradcheck, gradgradcheck

# Distinct values, away from zero and from each other, where nothing has a kink.
X = np.array([[0.7, -1.3, 1.6], [-0.4, 2.3, -2.6]])
Y = np.array([[1.2, 0.45, -0.85], [2.4, -1.7, 0.55]])
Z = np.array([[-0.65, 1.45, 2.2], [0.3, -1.1, 1.75]])
U = np.array([[0.2, 0.55, 0.9], [0.35, 0.7, 0.1]])
V = np.array([[0.6, 0.25, 0.45], [0.8, 0.15, 0.65]])
ROW = Y[0]
CUBE = np.linspace(-1.9, 2.1, 12).reshape(2, 2, 3) + np.cos(np.arange(12)).reshape(2, 2, 3)
SIGN = np.array([[1, -1, 1], [-1, -1, 1]])
CLASSES = np.array([2, 0])
INDEX = np.array([1, 0, 1, 1, 0])

Case = tuple[Any, ...]
#: Arguments of records by position; every float64 array among them is differentiated.
RECORDS: dict[str, list[Case]] = {
    "huber_terms": [(X, Y, 1.1)], "smooth_l1_terms": [(X, Y, 1.1)], "bce_terms": [(U, V)],
    "bce_logits_terms": [(X, V, U + 1), (X, V, 1.0)], "kl_terms": [(X, V)], "kl_log_terms": [(X, Y)],
    "soft_margin_terms": [(X, Y)], "kept": [(X, U.astype(np.float32), 0.4, 1.5)],
    "log_add3": [(X, Y, Z)],
    "normalize_rows": [(X, ROW, Z[0], 0.1, (-1,)), (CUBE, ROW[:2, None], None, 0.1, (-3, -1))],
    "normalize_rms": [(X, ROW, 0.1, (-1,)), (CUBE, None, 0.1, (-2, -1))],
    "normalize_backward": [(X, Y, ROW, True), (X, Y, None, False)], "normalize_sums": [(X, Y, True), (X, Y, False)],
    "score_totals": [(X,)], "score_shares": [(X, U[:, :1], V[:, :1])],
    "normalize_backward_sums": [(X, Y, U[:, :1], True), (X, Y, None, True)],
}


def rows_statistics(x: Any, centred: bool) -> tuple[Any, Any]:
    """Return the values that the forward pass saved, which are not arguments of their own."""
    if centred:
        _, mean, var = call(OPERATORS["normalize_rows"], x.detach(), None, None, 0.1, (-1,))
        return mean, var
    return None, call(OPERATORS["normalize_rms"], x.detach(), None, 0.1, (-1,))[1]


def functions_of_total(top: Any, total: Any) -> Any:
    """Return a value that does not depend on the number that is subtracted from all scores."""
    return total.log() + top


WITH_STATISTICS: dict[str, Callable[..., Any]] = {
    "score_totals": lambda x: functions_of_total(*call(OPERATORS["score_totals"], x, (-1,))),
    "score_shares": lambda x, factor, less: call(
        OPERATORS["score_shares"], x, torch.tensor(Y[:, :1]), factor, torch.tensor(CLASSES[:, None]), less, (-1,)),
    "normalize_backward": lambda g, x, w, centred: call(
        OPERATORS["normalize_backward"], g, x, w, *rows_statistics(x, centred), 0.1, (-1,)),
    "normalize_sums": lambda g, x, centred: call(
        OPERATORS["normalize_sums"], g, x, *rows_statistics(x, centred), 0.1, (-1,), (-2,)),
    "normalize_backward_sums": lambda g, x, w, centred: call(
        OPERATORS["normalize_backward_sums"], g, x, w, *rows_statistics(x, centred), 0.1, (-1,)),
}


def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        torch.manual_seed(5)
        return function(*args)

    return run


def cell(name: str, gates: int) -> list[tuple[Callable[..., Any], *Case]]:
    """A cell with an input of 3 and a state of 2 elements."""
    weights = [np.sin(np.arange(gates * 2 * n)).reshape(gates * 2, n) for n in (3, 2)]
    biases = [np.cos(np.arange(gates * 2) * k) for k in (1, 2)]
    if name == "lstm":
        return [(lambda x, h, c, *w: sum(F.lstm_cell(x, (h, c), *w)), X, U[:, :2], V[:, :2], *weights, *biases)]
    return [(getattr(F, f"{name}_cell"), X, U[:, :2], *weights, *biases)]


def layers(name: str, gates: int) -> list[tuple[Callable[..., Any], *Case]]:
    """Two directions over two times."""
    weights = [np.sin(np.arange(gates * 2 * n) + k).reshape(gates * 2, n) for k in range(2) for n in (3, 2)]
    states = np.stack([U[:, :2], V[:, :2]])

    def run(x: Any, h: Any, *params: Any) -> Any:
        given = (h, h * 0.5) if name == "lstm" else h
        output, last, *_ = getattr(F, name)(x, given, list(params), False, 1, 0.0, False, True, False)
        return output.sum(0) + last.sum(0).repeat(1, 2)

    return [(run, CUBE, states, *weights)]


def one_way(name: str, gates: int) -> list[tuple[Callable[..., Any], *Case]]:
    """Three times of two examples, with and without biases and a weight of inputs; of cells, both results and each
    alone.
    """
    inputs = np.sin(np.arange(3 * 2 * gates * 2) * 0.7).reshape(3, 2, gates * 2)
    weight, bias = np.cos(np.arange(gates * 2 * 2)).reshape(gates * 2, 2), np.cos(np.arange(gates * 2) * 2)
    states = (U[:, :2], V[:, :2]) if name == "lstm" else (U[:, :2],)

    def run(*args: Any) -> Any:
        return call(COMPOSITES[f"{name}_layer"], *args, True)[:-1]

    pick: list[Callable[..., Any]] = [lambda *args: run(*args, False)[0], lambda *args: run(*args, True)[0]]
    if name == "lstm":
        pick += [lambda *args: run(*args, False), lambda *args: run(*args, True)[1]]
    source = np.cos(np.arange(18) * 0.9).reshape(3, 2, 3), np.sin(np.arange(gates * 6) * 1.1).reshape(gates * 2, 3)
    return [*[(p, inputs, None, None, *states, weight, b) for p in pick for b in (bias, None)],
            *[(pick[0], *source, b, *states, weight, b) for b in (bias * 0.5, None)]]


def attention(q: Any, k: Any, v: Any) -> Any:
    mask = torch.tensor([[True, False], [False, False]])
    return F.scaled_dot_product_attention(q, k, v, mask) + F.scaled_dot_product_attention(q, k, v, is_causal=True)


#: Function and its arguments.
COMPOSED: dict[str, list[tuple[Callable[..., Any], *Case]]] = {
    "mse_loss": [(lambda x, y, w: F.mse_loss(x, y, weight=w), X, Y, U)],
    "l1_loss": [(lambda x, y, w: F.l1_loss(x, y, weight=w, reduction="sum"), X, Y, U)],
    "huber_loss": [(lambda x, y, w: F.huber_loss(x, y, weight=w, delta=0.9), X, Y, U)],
    "smooth_l1_loss": [(F.smooth_l1_loss, X, Y), (lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), X, Y)],
    "binary_cross_entropy": [(F.binary_cross_entropy, U, V, X + 3)],
    "binary_cross_entropy_with_logits": [(F.binary_cross_entropy_with_logits, X, V, U, ROW + 2)],
    "kl_div": [(F.kl_div, X, V), (lambda x, y: F.kl_div(x, y, "batchmean", log_target=True), X, Y)],
    "poisson_nll_loss": [(F.poisson_nll_loss, X, V), (lambda x, y: F.poisson_nll_loss(x, y, False, True), U, U + 2)],
    "gaussian_nll_loss": [(F.gaussian_nll_loss, X, Y, U),
                          (lambda x, y, v: F.gaussian_nll_loss(x, y, v, True), X, Y, U[:, 0])],
    "nll_loss": [(lambda x, t: F.nll_loss(x, t, reduction=2), X, CLASSES)],
    "cross_entropy": [(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), X, CLASSES)],
    "linear_cross_entropy": [(lambda x, w, b, t: F.linear_cross_entropy(x, w, t, linear_bias=b), X, CUBE[0], X[:, 0],
                              np.array([1, 0]))],
    "soft_margin_loss": [(F.soft_margin_loss, X, Y)],
    "hinge_embedding_loss": [(lambda x, t: F.hinge_embedding_loss(x, t, 2.0), X, SIGN)],
    "margin_ranking_loss": [(lambda x, y, t: F.margin_ranking_loss(x, y, t, 0.2), X, Y, SIGN)],
    "multi_margin_loss": [(lambda x, w, t: F.multi_margin_loss(x, t, 2, 1.3, w), X, U[0], CLASSES)],
    "class_margins": [(lambda x, w, t, p=p: call(COMPOSITES["class_margins"], x, t, p, 0.7, w), X, U[0],
                       CLASSES[:, None]) for p in (1, 2)],
    "multilabel_margin_loss": [(F.multilabel_margin_loss, X, np.array([[2, 0, -1], [1, -1, 0]]))],
    "label_margins": [(lambda x, t: call(COMPOSITES["label_margins"], x, t), X, np.array([[2, 2, -1], [1, 0, 2]]))],
    "multilabel_soft_margin_loss": [(F.multilabel_soft_margin_loss, X, V, U)],
    "cosine_similarity": [(F.cosine_similarity, X, Y), (lambda x, y: F.cosine_similarity(x, y, 0), CUBE, X)],
    "pairwise_distance": [(F.pairwise_distance, X, Y), (lambda x, y: F.pairwise_distance(x, y, 3.0), X, ROW)],
    "dist": [(F.dist, X, Y), (lambda x, y: F.dist(x, y, float("inf")), X, Y)],
    "pdist": [(F.pdist, Y.T), (lambda x: F.pdist(x, 0.5), Y.T)],
    "cdist": [(F.cdist, X, Y), (lambda x, y: F.cdist(x, y, 1.5), CUBE, Y),
              (lambda x, y: F.cdist(x, y, 2.0, "use_mm_for_euclid_dist"), X, Y)],
    "normalize": [(F.normalize, X), (lambda x: F.normalize(x, 3.0, (0, 1)), X)],
    "bilinear": [(F.bilinear, X, Y[:, :2], CUBE.transpose(0, 2, 1), ROW[:2])],
    "cosine_embedding_loss": [(lambda x, y, t: F.cosine_embedding_loss(x, y, t, -0.9), X, Y, SIGN[:, 0])],
    "triplet_margin_loss": [(lambda a, p, n: F.triplet_margin_loss(a, p, n, 5.0, swap=True), X, Y, Z)],
    "triplet_margin_with_distance_loss": [(
        lambda a, p, n: F.triplet_margin_with_distance_loss(a, p, n, margin=5.0, distance_function=F.cosine_similarity),
        X, Y, Z)],
    "dropout": [(seeded(lambda x: F.dropout(x, 0.4)), X)],
    "dropout_": [(seeded(lambda x: F.dropout_(x * 1, 0.4, True)), X)],
    "native_dropout": [(seeded(lambda x: F.native_dropout(x, 0.4, True)[0]), X)],
    "native_dropout_backward": [(lambda x, m: F.native_dropout_backward(x, m, 2.0), X, SIGN > 0)],
    "feature_dropout": [(seeded(lambda x: F.feature_dropout(x, 0.4, True)), CUBE)],
    "feature_dropout_": [(seeded(lambda x: F.feature_dropout_(x * 1, 0.4, True)), CUBE)],
    "alpha_dropout": [(seeded(lambda x: F.alpha_dropout(x, 0.4, True)), X)],
    "alpha_dropout_": [(seeded(lambda x: F.alpha_dropout_(x * 1, 0.4, True)), X)],
    "feature_alpha_dropout": [(seeded(lambda x: F.feature_alpha_dropout(x, 0.4, True)), CUBE)],
    "feature_alpha_dropout_": [(seeded(lambda x: F.feature_alpha_dropout_(x * 1, 0.4, True)), CUBE)],
    "gumbel_softmax": [(seeded(lambda x: F.gumbel_softmax(x, 0.7)), X)],
    "embedding": [(F.embedding, X, INDEX)],
    "embedding_gradient": [
        (lambda g, i: call(COMPOSITES["embedding_gradient"], g, i, (3, 2), -1, False, False), X, np.array([0, 2, 0])),
        (lambda g, i: call(COMPOSITES["embedding_gradient"], g, i, (3, 2), 2, True, False), X, np.array([0, 2, 0]))],
    "embedding_renorm_": [(lambda w, i: F.embedding_renorm_(w * 1, i, 1.0, 2.0), X, np.array([0]))],
    "embedding_bag": [
        (lambda w, f, i: F.embedding_bag(i, w, torch.tensor([0, 2, 2]), mode="sum",
                                         per_sample_weights=f), X, U.reshape(-1)[:5], INDEX),
        (lambda w, i: F.embedding_bag(i.reshape(1, 5), w, padding_idx=0), X, INDEX),
        (lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 2, 5]), mode="max",
                                      include_last_offset=True), X, INDEX)],
    "layer_norm": [(lambda x, w: F.layer_norm(x, (2, 3), w), CUBE, X)],
    "rms_norm": [(lambda x, w: F.rms_norm(x, (3,), w, 0.1), CUBE, ROW)],
    "native_layer_norm": [(lambda x, w, b: F.native_layer_norm(x, (3,), w, b, 0.1)[0], X, ROW, X[1])],
    "group_norm": [(lambda x, w, b: F.group_norm(x, 1, w, b, 0.1), CUBE, ROW[:2], X[0, :2])],
    "native_group_norm": [(lambda x, w: sum(F.native_group_norm(x, w, None, 2, 2, 3, 2, 0.1)[k].sum() * (k + 1)
                                            for k in range(3)), CUBE, ROW[:2])],
    "batch_norm": [(lambda x, w, b: F.batch_norm(x, w, b, None, None, True, 0.1, 0.1, False), CUBE, ROW[:2], X[0, :2]),
                   (lambda x, w: F.batch_norm(x, w, None, w.detach() * 0, w.detach() * 0 + 1, False, 0.1, 0.1, False),
                    CUBE, ROW[:2])],
    "native_batch_norm": [(lambda x, w: F.native_batch_norm(x, w, None, None, None, True, 0.1, 0.1)[0], X, ROW)],
    "score_loss": [(lambda x, t: call(COMPOSITES["score_loss"], x, t, None, -100, "mean")[0], X, CLASSES),
                   (lambda x, t: call(COMPOSITES["score_loss"], x, t, torch.ones(3), 2, "none")[0], X, CLASSES)],
    "instance_norm": [(lambda x, w: F.instance_norm(x, w, None, None, None, True, 0.1, 0.1, False), CUBE, ROW[:2])],
    "local_response_norm": [(lambda x: F.local_response_norm(x, 2, 0.5), CUBE)],
    "scaled_dot_product_attention": [(attention, CUBE, CUBE[::-1].copy(), CUBE * 0.5), (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, scale=0.3, enable_gqa=True), CUBE, X.reshape(1, 2, 3))],
    "attend": [(lambda q, k, v: call(COMPOSITES["attend"], q, k, v, None, True, 0.3)[0],
                np.stack([CUBE, -CUBE], 1), CUBE[:, None], np.stack([U, V])[:, None])],
    "ctc_loss": [(lambda x, t: F.ctc_loss(x.log_softmax(2), t, (4, 3), (2, 1)),
                  np.sin(np.arange(24)).reshape(4, 2, 3), np.array([[1, 1], [2, 0]]))],
    "lstm_cell": cell("lstm", 4), "gru_cell": cell("gru", 3), "rnn_tanh_cell": cell("rnn_tanh", 1),
    "rnn_relu_cell": cell("rnn_relu", 1), "lstm": layers("lstm", 4), "gru": layers("gru", 3),
    "rnn_tanh": layers("rnn_tanh", 1), "rnn_relu": layers("rnn_relu", 1),
    "lstm_layer": one_way("lstm", 4), "gru_layer": one_way("gru", 3), "rnn_tanh_layer": one_way("rnn_tanh", 1),
    "rnn_relu_layer": one_way("rnn_relu", 1),
}
COMPOSED["normalize_known"] = [(lambda x, w, b, m, v: call(COMPOSITES["normalize_known"], x, w, b, m, v * v, 0.1),
                               CUBE, ROW[:2], X[0, :2], Y[0, :2], Y[1, :2]),
                              (lambda x, m: call(COMPOSITES["normalize_known"], x, None, None, m, m * m, 0.1), X, ROW)]
COMPOSED["normalize_backward_columns"] = [(
    lambda g, x, w, k=k: call(COMPOSITES["normalize_backward_columns"], g, x, w, *rows_statistics(x, True), 0.1, (-1,),
                              (-2,))[k], X, Y, ROW) for k in range(3)]
COMPOSED["normalize_gradients"] = [(
    lambda g, x, w, k=k: call(COMPOSITES["normalize_gradients"], g, x, w, None, *rows_statistics(x, True), 0.1, (-1,),
                              (True, True, False))[k], X, Y, ROW) for k in range(2)]
COMPOSED["normalize_parts"] = [(lambda x, w, b, k=k: call(COMPOSITES["normalize_parts"], x, w, b, 0.1, (
    (2, 3, 1, 2), (-2, -1), (3, 1, 1)))[k], np.stack([X, Y], 1).reshape(2, 3, 2), X[0], Y[0]) for k in range(3)]
COMPOSED["normalize_parts_gradients"] = [(
    lambda g, x, w, b, k=k: call(COMPOSITES["normalize_parts_gradients"], g, x, w, b, *rows_statistics(x, True), 0.1, (
        None, (-1,), None), (True, True, True))[k], X, Y, ROW, ROW) for k in range(3)]
COMPOSED["ctc_scores"] = [(lambda x: call(COMPOSITES["ctc_scores"], x, torch.tensor(
    [[0, 0, 0, 0, -1e30]], dtype=torch.float64)).narrow(2, 2, 5)[2:, :, :3], np.sin(np.arange(15)).reshape(3, 1, 5))]
COMPOSED["ctc_flows"] = [(lambda x, g: call(COMPOSITES["ctc_flows"], x, g), np.sin(np.arange(12)).reshape(2, 3, 1, 2),
                          np.cos(np.arange(6)).reshape(3, 1, 2))]
COMPOSED["bag_sums"] = [(lambda w, f, i, padding=padding: call(
    COMPOSITES["bag_sums"], w, i, torch.tensor([0, 2, 2, 5]), f, False, padding, False, False),
    X, U.reshape(-1)[:5], INDEX) for padding in (-1, 0)]
COMPOSED["bag_sums"].append((lambda w, i: call(
    COMPOSITES["bag_sums"], w, i, torch.tensor([0, 2, 5]), None, True, 0, False, False), X, INDEX))
NO_GRADIENT = {"one_hot"}
COMPOSED["batch_norm_update_stats"] = [(lambda x: F.batch_norm_update_stats(x, None, None, 0.1), X)]
#: Gradients of others, whose own gradients are the second derivatives of these.
OF_OTHERS = {"attend_gradients", *(f"{name}_layer_gradients" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))}
#: Second derivatives are compared of what has a derivative of its own, and of a few compositions.
#: The operators that the second derivatives below call.
ELSEWHERE = {f"{name}_gradients" for name in ("attend", "lstm_layer", "gru_layer", "rnn_tanh_layer", "rnn_relu_layer")}
TWICE = ["attend", "bag_sums", "ctc_loss", "batch_norm", "score_loss", "group_norm", "embedding",
         "scaled_dot_product_attention", "gru_cell", "cdist", "normalize_known", "normalize_backward_columns",
         "normalize_gradients", "normalize_parts", "normalize_parts_gradients", "lstm_layer", "gru_layer",
         "rnn_tanh_layer", "rnn_relu_layer"]


def placed(args: Case) -> tuple[list[Any], list[int]]:
    """Arguments as tensors, and the positions of those that are differentiated."""
    wanted = [k for k, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype == np.float64]
    tensors = [torch.tensor(x, requires_grad=k in wanted) if isinstance(x, np.ndarray) else x
               for k, x in enumerate(args)]
    return tensors, wanted


def verify(function: Callable[..., Any], args: Case, twice: bool) -> None:
    tensors, wanted = placed(args)

    def run(*inputs: Any) -> Any:
        given = list(tensors)
        for k, x in zip(wanted, inputs, strict=True):
            given[k] = x
        return function(*given)

    assert gradcheck(run, [tensors[k] for k in wanted], fast_mode=True)
    if twice:
        assert gradgradcheck(run, [tensors[k] for k in wanted], fast_mode=True)


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, cases in RECORDS.items() for k in range(len(cases))])
def test_derivatives_of_records(name: str, k: int) -> None:
    run = WITH_STATISTICS.get(name, lambda *args: call(OPERATORS[name], *args))
    verify(run, RECORDS[name][k], twice=True)


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, cases in COMPOSED.items() for k in range(len(cases))])
def test_derivatives_of_composites(name: str, k: int) -> None:
    function, *args = COMPOSED[name][k]
    verify(function, tuple(args), twice=name in TWICE and k == 0)


def test_every_operator_of_these_families_has_a_case(nn_families: tuple[set[str], set[str]]) -> None:
    records, composites = nn_families
    assert set(RECORDS) == records
    assert set(COMPOSED) | NO_GRADIENT | OF_OTHERS == composites
