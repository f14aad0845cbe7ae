"""Errors of losses, normalisation, dropout, embeddings, distances, attention and recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import (
    ArgumentError,
    DtypeError,
    IndexDtypeError,
    IndexOutOfRange,
    ShapeError,
    TensocketError,
    UnsupportedOperator,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape, device="ref")


def i(*values: int) -> Any:
    return torch.tensor(list(values), device="ref")


def bag(*args: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: F.embedding_bag(*args, **keywords)


def ctc(scores: Any = None, targets: Any = None, ends: Any = (3, 3), sizes: Any = (1, 1), **keywords: Any) -> Any:
    """A valid call with 3 times, 2 examples and 4 classes, with what is given instead."""
    scores = f(3, 2, 4) if scores is None else scores
    return lambda: F.ctc_loss(scores, i(1, 2).reshape(2, 1) if targets is None else targets, ends, sizes, **keywords)


def attend(*shapes: tuple[int, ...], **keywords: Any) -> Callable[[], Any]:
    return lambda: F.scaled_dot_product_attention(*(f(*shape) for shape in shapes), **keywords)


def sparse_gradient() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    F.embedding(weight, i(0), -1, True, True).sum().backward()


ATTENTION, TRIPLET = "scaled_dot_product_attention", "triplet_margin_with_distance_loss"
SAME = ((2, 3), (2, 3), (2, 3))
BATCH = (None, None, None, None)
Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # losses of elements
    (lambda: F.mse_loss(f(2), f(2), reduction=3), ArgumentError, ValueError, "mse_loss",
     "the reduction is 'none', 'mean' or 'sum'"),
    (lambda: F.l1_loss(f(2), f(2), weight=f(3)), ShapeError, ValueError, "l1_loss",
     "there is one weight for each element"),
    (lambda: F.huber_loss(f(2), f(2), delta=0.0), ArgumentError, RuntimeError, "huber_loss", "delta is positive"),
    (lambda: F.smooth_l1_loss(f(2), f(2), beta=-1.0), ArgumentError, RuntimeError, "smooth_l1_loss",
     "beta is not negative"),
    (lambda: F.binary_cross_entropy(f(2), f(1)), ShapeError, ValueError, "binary_cross_entropy",
     "the target has the input's shape"),
    (lambda: F.binary_cross_entropy_with_logits(f(2), f(1)), ShapeError, ValueError,
     "binary_cross_entropy_with_logits", "the target has the input's shape"),
    (lambda: F.gaussian_nll_loss(f(2), f(2), -f(2)), ArgumentError, ValueError, "gaussian_nll_loss",
     "variances are not negative"),
    (lambda: F.gaussian_nll_loss(f(2, 3), f(2, 3), f(3)), ShapeError, ValueError, "gaussian_nll_loss",
     "there is a variance for each element or for each row"),
    # losses of classes
    (lambda: F.linear_cross_entropy(f(2, 3), f(4, 2), i(0, 1)), ShapeError, RuntimeError, "linear_cross_entropy",
     "an input [N, D] goes with a weight [C, ..., D] and a bias [C, ...]"),
    (lambda: F.linear_cross_entropy(f(2, 3), f(4, 3), f(2, 4), ignore_index=1), ArgumentError, RuntimeError,
     "linear_cross_entropy", "an index is ignored among class indices only"),
    (lambda: F.multi_margin_loss(f(2, 3), i(0, 1), 3), ArgumentError, RuntimeError, "multi_margin_loss",
     "the exponent is 1 or 2"),
    (lambda: F.multi_margin_loss(f(2, 3), i(0)), ShapeError, RuntimeError, "multi_margin_loss",
     "there is one class for each example and one weight for each class"),
    (lambda: F.multi_margin_loss(f(2, 2, 2), i(0, 1)), ShapeError, RuntimeError, "multi_margin_loss",
     "the input is [N, C] or [C] with at least one class"),
    (lambda: F.multilabel_margin_loss(f(3), i(0, 1)), ShapeError, RuntimeError, "multilabel_margin_loss",
     "the target has the input's shape"),
    (lambda: F.multilabel_margin_loss(f(2), f(2)), DtypeError, RuntimeError, "multilabel_margin_loss",
     "classes are int64"),
    (lambda: F.multilabel_margin_loss(f(2), i(2, -1)), IndexOutOfRange, RuntimeError, "multilabel_margin_loss",
     "targets are classes, or -1 at the end"),
    # distances
    (lambda: F.cosine_similarity(i(1), i(1), 0), DtypeError, RuntimeError, "cosine_similarity",
     "cosine_similarity is defined for floats"),
    (lambda: F.dist(i(1), i(1)), DtypeError, RuntimeError, "dist", "dist is defined for floats"),
    (lambda: F.pdist(f(2)), ShapeError, RuntimeError, "pdist", "the input is a matrix"),
    (lambda: F.pdist(f(2, 2), -1.0), ArgumentError, RuntimeError, "pdist", "the exponent of a norm is not negative"),
    (lambda: F.cdist(f(2, 2), f(2, 3)), ShapeError, RuntimeError, "cdist",
     "both are matrices with the same number of columns"),
    (lambda: F.cdist(f(2, 2), f(2, 2), compute_mode="x"), ArgumentError, ValueError, "cdist",
     "the mode is one of three"),
    (lambda: F.bilinear(f(2, 3), f(2, 3), f(1, 3, 4)), ShapeError, RuntimeError, "bilinear",
     "inputs [..., I] and [..., J] go with a weight [K, I, J] and a bias [K]"),
    (lambda: F.cosine_embedding_loss(f(2, 3), f(3), f(2)), ShapeError, RuntimeError, "cosine_embedding_loss",
     "inputs have one dimension more than the target, which has at most one"),
    (lambda: F.triplet_margin_loss(f(2), f(2), f(2), -1.0), ArgumentError, ValueError, "triplet_margin_loss",
     "the margin is positive"),
    (lambda: F.triplet_margin_with_distance_loss(f(2), f(2), f(1, 2)), ShapeError, RuntimeError, TRIPLET,
     "all three have the same number of dimensions"),
    # dropout
    (lambda: F.feature_dropout(f(2), 0.5, True), ShapeError, RuntimeError, "feature_dropout",
     "channels are dropped of at least two dimensions"),
    (lambda: F.native_dropout(i(1), 0.5, True), DtypeError, RuntimeError, "native_dropout",
     "floats and complex numbers are scaled"),
    (lambda: F.alpha_dropout(f(2), -1.0, True), ArgumentError, RuntimeError, "alpha_dropout",
     "a probability lies between 0 and 1"),
    # embeddings
    (lambda: F.embedding(f(2, 2), f(1)), IndexDtypeError, RuntimeError, "embedding", "indices are int32 or int64"),
    (sparse_gradient, UnsupportedOperator, NotImplementedError, "embedding",
     "sparse gradients are not scaled by frequency"),
    (bag(i(0).reshape(1, 1, 1), f(2, 2)), ShapeError, ValueError, "embedding_bag",
     "indices have one or two dimensions"),
    (bag(i(0), f(2, 2)), ArgumentError, ValueError, "embedding_bag",
     "flat indices have offsets in one dimension, rows of indices none"),
    (bag(i(0), f(2, 2), i(1)), ArgumentError, ValueError, "embedding_bag",
     "the first offset is 0, and the last one is at most the number of indices"),
    (bag(i(0), f(2, 2), i(0, 2)), ArgumentError, RuntimeError, "embedding_bag",
     "the first offset is 0, and the last one is at most the number of indices"),
    (bag(i(0), f(2, 2), i(0), mode="max", sparse=True), ArgumentError, ValueError, "embedding_bag",
     "gradients of largest elements are dense"),
    (bag(i(0), f(2, 2), i(0), padding_idx=2), ArgumentError, RuntimeError, "embedding_bag",
     "padding_idx is one of the rows"),
    (bag(i(0), i(0, 1).reshape(2, 1), i(0)), DtypeError, RuntimeError, "embedding_bag", "the table holds floats"),
    (bag(i(0), f(2, 2), i(0), mode="sum", per_sample_weights=f(1).double()), DtypeError, RuntimeError, "embedding_bag",
     "weights and the table have the same type"),
    (bag(i(0), f(2, 2), i(0), mode="x"), ArgumentError, ValueError, "embedding_bag",
     "the mode is 'sum', 'mean' or 'max'"),
    (bag(i(0), f(2, 2), i(0), True, "max"), ArgumentError, ValueError, "embedding_bag",
     "gradients of largest elements are not scaled"),
    (bag(i(0), f(2, 2), i(0), mode="sum", per_sample_weights=f(2)), ShapeError, ValueError, "embedding_bag",
     "there is one weight for each index"),
    (bag(i(0), f(2, 2), i(0), per_sample_weights=f(1)), UnsupportedOperator, NotImplementedError, "embedding_bag",
     "only sums are weighted"),
    # normalisation
    (lambda: F.layer_norm(f(2, 3), (3,), f(2)), ShapeError, RuntimeError, "layer_norm",
     "weight and bias have the normalized shape"),
    (lambda: F.group_norm(f(2, 3), 2), ShapeError, RuntimeError, "group_norm",
     "the input is [N, C, ...] and the groups divide its channels"),
    (lambda: F.native_group_norm(f(2, 3), None, None, 2, 3, 2, 1, 0.1), ShapeError, RuntimeError, "native_group_norm",
     "the input has N * C * HxW elements"),
    (lambda: F.batch_norm(f(2), *BATCH, True, 0.1, 0.1, False), ShapeError, RuntimeError, "batch_norm",
     "channels are the second dimension"),
    (lambda: F.batch_norm(f(2, 3), f(2), None, None, None, True, 0.1, 0.1, False), ShapeError, RuntimeError,
     "batch_norm", "weights and statistics have one value for each channel"),
    (lambda: F.instance_norm(f(2, 3, 4), *BATCH, False, 0.1, 0.1, False), ArgumentError, RuntimeError,
     "instance_norm", "statistics are given where the batch's are not used"),
    (lambda: F.local_response_norm(f(2, 3), 2), ShapeError, ValueError, "local_response_norm",
     "the input has at least three dimensions"),
    # attention
    (attend((2, 3), (2, 4), (2, 3)), ShapeError, RuntimeError, ATTENTION,
     "they are [..., L, E], [..., S, E] and [..., S, V]"),
    (lambda: F.scaled_dot_product_attention(f(2, 3), f(2, 3).double(), f(2, 3)), DtypeError, RuntimeError, ATTENTION,
     "query, key and value have one dtype"),
    (attend(*SAME, attn_mask=f(2, 2), is_causal=True), ArgumentError, RuntimeError, ATTENTION,
     "attention is causal or has a mask of its own"),
    (attend(*SAME, attn_mask=i(1, 0)), DtypeError, RuntimeError, ATTENTION, "a mask is of bools or floats"),
    (attend((3, 2, 3), (2, 2, 3), (2, 2, 3), enable_gqa=True), ShapeError, RuntimeError, ATTENTION,
     "the query's heads are a multiple of those of key and value"),
    # recurrent networks and alignments
    (lambda: F.gru_cell(f(2, 3), f(2, 2), f(6, 4), f(6, 2)), ShapeError, RuntimeError, "gru_cell",
     "a state [N, H] goes with an input [N, I] and weights of I and H columns"),
    (lambda: F.gru(f(2, 3), f(1, 2, 2), [f(6, 3), f(6, 2)], False, 1, 0.0, False, False, False), ShapeError,
     RuntimeError, "gru", "an input [T, N, I] goes with states [layers * directions, N, H] and parameters for each"),
    (ctc(blank=4), ArgumentError, RuntimeError, "ctc_loss", "the blank is a class"),
    (ctc(f(3, 2, 4).half()), DtypeError, RuntimeError, "ctc_loss", "log probabilities are float32 or float64"),
    (ctc(f(3, 1, 4)), ShapeError, RuntimeError, "ctc_loss",
     "log probabilities are [T, N, C] and targets [N, S], or flat"),
    (ctc(targets=i(1, 2, 3)), ShapeError, RuntimeError, "ctc_loss", "the lengths sum to the number of labels"),
    (ctc(ends=(4, 3)), ArgumentError, RuntimeError, "ctc_loss", "lengths lie between 0 and the longest possible, 3"),
    (ctc(sizes=(1,)), ShapeError, RuntimeError, "ctc_loss", "there is one length for each example"),
]


@pytest.mark.parametrize("case", CASES)
def test_errors(case: Case, check_error: Callable[[Any], None]) -> None:
    check_error(case)
