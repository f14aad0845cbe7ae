"""Every derivative against central differences in float64. A new record without a case fails here.

Families have modules of their own, ``test_gradients_*.py``, with tables of the same names; tests here join them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import functions as F
from tensocket_operators.kinds.inplace import FORMS

# Distinct values, away from zero, integers and each other, where nothing has a kink.
X = np.array([[0.7, -1.3, 1.6], [-0.4, 2.3, -2.6]])
Y = np.array([[1.2, 0.45, -0.85], [2.4, -1.7, 0.55]])
Z = np.array([[-0.65, 1.45, 2.2], [0.3, -1.1, 1.75]])
P = np.abs(X) + 0.25  # positive
ROW, COLUMN, ONE = Y[0], Y[:, 1:2], np.array(1.35)
MASK = np.array([[True, False, True], [False, False, True]])
INDEX = np.array([[1, 0, 1], [0, 0, 1]])
CUBE = np.linspace(-1.9, 2.1, 12).reshape(2, 2, 3)
CLASSES = np.array([2, 0])

Case = tuple[Any, ...]
Check = Callable[..., Any]
#: Arguments by position; every float64 array among them is differentiated.
UNARY: dict[str, list[Case]] = {
    name: [(X,)]
    for name in ("abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "neg", "reciprocal", "relu", "round", "sigmoid",
                 "sign", "silu", "sin", "square", "tanh", "tanhshrink", "trunc", "clone", "alias")}
POSITIVE: dict[str, list[Case]] = {name: [(P,)] for name in ("log", "log1p", "rsqrt", "sqrt")}
BINARY: dict[str, list[Case]] = {
    name: [(X, Y), (X, ROW), (X, COLUMN), (X, ONE), (X, 1.5)]
    for name in ("add", "sub", "mul", "div", "fmod", "remainder", "clamp_min", "clamp_max",
                 "floored_divide", "truncated_divide")
} | {name: [(X, Y), (X, ROW), (X, COLUMN), (X, ONE)] for name in ("maximum", "minimum")}
REDUCED: dict[str, list[Case]] = {
    name: [(X, None, False), (X, (1,), False), (X, (0,), True), (CUBE, (0, 2), False)]
    for name in ("amax", "amin", "length", "square_sum")
} | {
    name: [(X, None, False, 1.0), (X, (1,), False, 0.0), (X, (0,), True, 0.5), (CUBE, (0, 2), False, 1.0)]
    for name in ("variance", "deviation")
} | {
    name: [(X, None, False, None), (X, (1,), False, None), (CUBE, (0, 2), True, None)]
    for name in ("mean", "prod", "sum")}
RECORDS: dict[str, list[Case]] = UNARY | POSITIVE | BINARY | REDUCED | {
    "pow": [(P, Y), (P, ROW), (X, 3), (X, 2), (X, 0), (P, -1.5), (X, -2)],
    "addcmul": [(X, Y, Z, 2.0), (X, ROW, COLUMN, 1)],
    "addcdiv": [(X, Y, Z, 2.0), (X, ROW, COLUMN, 1)],
    "lerp": [(X, Y, 0.3), (X, Y, P), (X, ROW, ONE)],
    "clamp": [(X, -1.0, 1.0), (X, -P, P), (X, P, -P), (X, ROW - 1, ONE)],
    "where": [(MASK, X, Y), (MASK, ROW, COLUMN), (MASK, X, 2.0), (MASK, 1.0, X)],
    "vector_product": [(X, Y, -1), (X, Y[:1], -1)],
    "reverse": [(X, (0,)), (CUBE, (0, 2))],
    "rolled": [(X, (1,), (-1,)), (CUBE, (1, -2, 1), (-2, -1, -2))],
    "repeated_whole": [(X, (2, 3)), (CUBE, (2, 1))],
    "repeated_each": [(X, 2, -1), (CUBE, 3, -2)],
    "on_diagonal": [(X, 3, 5, 1, -2, -1), (X, 5, 4, -2, -1, -3), (ROW, 3, 3, 0, -2, -1)],
    "with_part": [(X, ROW, "select", (-2, 1)), (X, Y[:, :2], "slice", (-1, 0, 3, 2)),
                  (CUBE, X[:, :2], "diagonal", (1, -3, -1))],
    "blocks_on_diagonal": [([X, COLUMN],)],
    "times_number": [(X, -1.5)],
    "mean_of_total": [(X, INDEX)],
    "triangle": [(X, 0, True), (CUBE, 1, False), (X, -1, True)],
    "gelu": [(X, "none"), (X, "tanh")],
    "relu_backward": [(X, Y - 1)],
    "leaky_relu_backward": [(X, Y - 1, 0.1)],
    "gelu_backward": [(X, Y, "none"), (X, Y, "tanh")],
    "leaky_relu": [(X, 0.1)],
    "as_strided": [(X, (2, 2), (1, 2), 1, ((2, 3), (3, 1))), (X, (2, 3), (1, 1), 0, ((2, 3), (3, 1)))],
    "basic_index": [(X, (0,)), (X, (slice(None), 1)), (X, (slice(0, 2, 2), None, ...))],
    "expand": [(COLUMN, (4, 2, 3)), (ONE, (2, 2))],
    "permute": [(CUBE, (2, 0, 1))],
    "squeeze": [(COLUMN, None), (COLUMN, 1)],
    "t": [(X,), (ROW,)],
    "transpose": [(CUBE, 0, 2)],
    "unsqueeze": [(X, 1)],
    "view": [(X, (3, 2)), (X, (-1,))],
    "cat": [([X, Y], 0), ([X, COLUMN], 1)],
    "convert": [(X, "ref:1", torch.float64)],
    "embed_index": [(X, (4, 4), (slice(1, 3), slice(0, 3)))],
    "gather_valid": [(X, 0, INDEX), (X, 1, INDEX)],
    "scatter_valid": [(X, 1, np.array([[2, 0], [1, 2]]), Y[:, :2], False), (X, 0, INDEX, Y, True)],
    "matmul": [(X, Y.T), (CUBE, Y.T), (CUBE, CUBE.transpose(0, 2, 1))],
    "softmax_rows": [(X, 1), (CUBE, 0)],
    "log_softmax_rows": [(X, 1), (CUBE, 0)],
    "softmax_backward": [(X, Y, 1)],
    "log_softmax_backward": [(X, Y, 1)],
    "basic_put_": [(X, (0,), ROW), (X, (slice(None), 1), COLUMN[:, 0])],
    "copy_": [(X, Y, False), (X, ROW, False)],
    "fill_": [(X, 2.0)],
}
#: Matrices: square and well conditioned, symmetric, tall, wide, singular; all singular values differ.
SQUARE = np.array([[2.1, 0.3, -0.7], [0.4, -1.8, 0.6], [-0.2, 0.9, 1.3]])
SYMMETRIC = SQUARE + SQUARE.T
POSITIVE_DEFINITE = SQUARE @ SQUARE.T
SINGULAR = np.outer([1.0, 2.0, -1.0], [0.5, 1.5, 1.0]) + np.outer([0.3, -1.0, 0.7], [1.0, -0.2, 0.4])
ZEROS = np.array([[0.7, 0.0, 1.6], [0.0, 2.3, 0.0]])
SMALL = np.array([[0.3, -0.45, 0.8], [-0.7, 0.12, 0.55]])
RECORDS |= {name: [(X,)] for name in ("atan", "asinh", "cosh", "exp2", "sinh")}
RECORDS |= {name: [(SMALL,)] for name in ("acos", "asin", "atanh", "tan")}
RECORDS |= {name: [(X, Y), (X, COLUMN)] for name in ("atan2", "copysign", "hypot", "logaddexp", "logaddexp2")}
RECORDS |= {
    "acosh": [(P + 1,)],
    "log2": [(P,)],
    "log10": [(P,)],
    "diagonal": [(X, 0, 0, 1), (X, 1, 0, 1), (X, -1, 1, 0), (CUBE, 1, 0, 2), (X, 5, 0, 1), (X, -1, 0, 1)],
    "cumsum": [(X, 1), (CUBE, 0), (ONE, 0)],
    "cumprod": [(X, 1), (CUBE, 0), (ZEROS, 1), (ONE, 0)],
    "qr": [(SQUARE, "reduced"), (X.T, "reduced"), (X, "reduced"), (SQUARE, "complete"), (X, "complete")],
    "svd": [(SQUARE, False), (X, False), (X.T, False)],
    "svdvals": [(SQUARE,), (X,)],
    "inv": [(SQUARE,), (CUBE[:, :, :2],)],
    "solve": [(SQUARE, Y.T), (np.stack([SQUARE, SQUARE.T]), Y.T)],
    "lu_triangles": [(SQUARE,), (X,), (X.T,)],
    "solve_triangular": [(SQUARE, Y.T, True, False), (SQUARE, Y.T, False, True)],
    "pinv": [(SQUARE, 0.0, 1e-10, False), (X, 0.0, 1e-10, False), (X.T, 0.0, 1e-10, False)],
    "det": [(SQUARE,), (SINGULAR,), (np.stack([SQUARE, SYMMETRIC]),)],
    "slogdet": [(SQUARE,)],
}
RECORDS |= {"unfold": [(X, 1, 2, 1), (CUBE, 2, 2, 1), (CUBE, 0, 1, 1), (ONE, 0, 1, 1)]}
RECORDS |= {form.name: RECORDS[name] for name, form in FORMS.items() if name in RECORDS}


def seeded_dropout(x: Any) -> Any:
    torch.manual_seed(5)
    return F.dropout(x, 0.4)


def symmetric(x: Any) -> Any:
    return (x + x.mT) * 0.5


#: Function and its arguments.
COMPOSED: dict[str, list[tuple[Callable[..., Any], *Case]]] = {
    "addmm": [(lambda b, x, y: F.addmm(b, x, y, beta=0.5, alpha=2), ROW[:2], X, Y.T)],
    "as_strided": [(lambda x: x.t().as_strided((3,), (2,), 1), X)],
    "bmm": [(F.bmm, CUBE, CUBE.transpose(0, 2, 1))],
    "broadcast_tensors": [(lambda x, y: F.broadcast_tensors(x, y)[0] * 2 + F.broadcast_tensors(x, y)[1], ROW, COLUMN)],
    "broadcast_to": [(lambda x: F.broadcast_to(x, (2, 2, 3)), ROW)],
    "chunk": [(lambda x: F.chunk(x, 2, 1)[0] * 3, X)],
    "clamp": [(lambda x: F.clamp(x, -1, 1), X), (lambda x, y: F.clamp(x, max=y), X, Y)],
    "clamp_": [(lambda x: (x * 1).clamp_(-1, 1), X), (lambda x, y: (x * 1).clamp_(min=y), X, Y)],
    "contiguous": [(lambda x: x.t().contiguous(), X)],
    "class_loss": [
        (lambda x, t: call(COMPOSITES["class_loss"], x, t, None, True, -100, "mean"), X, CLASSES),
        (lambda x, t: call(COMPOSITES["class_loss"], x, t, torch.ones(3), False, 2, "none"), X, CLASSES)],
    "class_loss_backward": [
        (lambda g, x, t: call(COMPOSITES["class_loss_backward"], g, x, t, None, True, -100, "none"), P[0][:2], X,
         CLASSES)],
    "cross_entropy": [
        (F.cross_entropy, X, CLASSES),
        (lambda x, w, t: F.cross_entropy(x, t, w, label_smoothing=0.2), X, P[0], CLASSES),
        (lambda x, p: F.cross_entropy(x, p, reduction="sum"), X, P),
        (lambda x, t: F.cross_entropy(x, t, ignore_index=0), X, CLASSES)],
    "dot": [(F.dot, ROW, X[1])],
    "double": [(lambda x: x.double(), X)],
    "dropout": [(seeded_dropout, X)],
    "embedding": [(lambda w, i: F.embedding(w, i), X, INDEX)],
    "expand_as": [(lambda x, y: x.expand_as(y) * y, COLUMN, X)],
    "flatten": [(F.flatten, CUBE), (lambda x: F.flatten(x, 1), CUBE)],
    "flip": [(lambda x: F.flip(x, (0, 1)), X)],
    "gather": [(lambda x, i: F.gather(x, 1, i), X, INDEX)],
    "index_put": [(lambda x, v, i: x.index_put((i,), v), X, Y, np.array([1, 0])),
                  (lambda x, v, i: x.index_put((i,), v, accumulate=True), X, Y, np.array([1, 1]))],
    "fill_diagonal_": [(lambda x: (x * 1).fill_diagonal_(2.0), X)],
    "index_put_": [(lambda x, v, i: (x * 1).index_put_((None, i), v), X, Y[:, :2], np.array([2, 0]))],
    "index_select": [(lambda x, i: F.index_select(x, 1, i), X, np.array([2, 0, 2]))],
    "l1_loss": [(F.l1_loss, X, Y), (lambda x, y: F.l1_loss(x, y, reduction="none"), X, Y)],
    "layer_norm": [(lambda x, w, b: F.layer_norm(x, (3,), w, b), X, ROW, X[1]),
                   (lambda x: F.layer_norm(x, (2, 3)), CUBE)],
    "linear": [(F.linear, X, Y, ROW[:2]), (F.linear, CUBE, Y)],
    "log_softmax": [(lambda x: F.log_softmax(x, 1), X)],
    "logsumexp": [(lambda x: F.logsumexp(x, 1), X), (lambda x: F.logsumexp(x, (0, 1), True), X)],
    "masked_fill": [(lambda x, m: x.masked_fill(m, 2.0), X, MASK), (lambda x, v, m: x.masked_fill(m, v), X, ONE, MASK)],
    "masked_fill_": [(lambda x, m: (x * 1).masked_fill_(m, 2.0), X, MASK)],
    "matmul": [(F.matmul, X, ROW), (F.matmul, COLUMN[:, 0], X), (F.matmul, ROW, X[1]),
               (F.matmul, CUBE, ROW), (F.matmul, X, Y.T)],
    "max": [(lambda x: F.max(x, 1).values, X), (F.max, X), (F.max, X, Y)],
    "min": [(lambda x: F.min(x, 0, True).values, X), (F.min, X), (F.min, X, Y)],
    "mm": [(F.mm, X, Y.T)],
    "movedim": [(lambda x: F.movedim(x, 0, -1), CUBE)],
    "mse_loss": [(F.mse_loss, X, Y), (lambda x, y: F.mse_loss(x, y, reduction="sum"), X, Y)],
    "mv": [(F.mv, X, ROW)],
    "narrow": [(lambda x: F.narrow(x, 1, 1, 2), X)],
    "nll_loss": [(F.nll_loss, X, CLASSES), (lambda x, w, t: F.nll_loss(x, t, w, reduction="none"), X, P[0], CLASSES)],
    "repeat": [(lambda x: x.repeat(2, 1, 3), X)],
    "reshape": [(lambda x: x.t().reshape(6), X)],
    "scatter": [(lambda x, s, i: x.scatter(1, i, s), X, Y[:, :2], np.array([[2, 0], [1, 2]]))],
    "scatter_": [(lambda x, s, i: (x * 1).scatter_(1, i, s), X, Y[:, :2], np.array([[2, 0], [1, 2]]))],
    "scatter_add": [(lambda x, s, i: x.scatter_add(0, i, s), X, Y, INDEX)],
    "scatter_add_": [(lambda x, s, i: (x * 1).scatter_add_(0, i, s), X, Y, INDEX)],
    "select": [(lambda x: x.select(1, -1), X)],
    "softmax": [(lambda x: F.softmax(x, 0), X)],
    "split": [(lambda x: x.split([1, 2], 1)[1] * 2, X)],
    "stack": [(lambda x, y: F.stack([x, y], 1), X, Y)],
    "std": [(F.std, X), (lambda x: F.std(x, 1, correction=0), X)],
    "to": [(lambda x: x.to("ref:1"), X)],
    "type_as": [(lambda x, y: x.type_as(y), X, Y)],
    "unbind": [(lambda x: F.unbind(x, 1)[2] * 2, X)],
    "var": [(F.var, X), (lambda x: F.var(x, (0, 2), keepdim=True), CUBE)],
    "view_as": [(lambda x, y: x.view_as(y) * y, X, Y.T.copy())],
    "where": [(lambda x, y, m: F.where(m, x, y), X, ROW, MASK)],
    "where_self": [(lambda x, y, m: x.where(m, y), X, COLUMN, MASK)],
    "zero_": [(lambda x: (x * 1).zero_(), X)],
}
COMPOSED |= {
    "cross": [(lambda x, y: F.cross(x, y, 1), X, Y)],
    "cummax": [(lambda x: F.cummax(x, 1).values, X)],
    "cummin": [(lambda x: F.cummin(x, 1).values, X)],
    "cumprod": [(lambda x: F.cumprod(x, 1), X)],
    "cumsum": [(lambda x: F.cumsum(x, 0), X)],
    "det": [(F.det, SQUARE)],
    "diff": [(lambda x, y: F.diff(x, 2, 1, y), X, COLUMN)],
    "inverse": [(F.inverse, SQUARE)],
    "linalg_cholesky": [(lambda x: F.linalg_cholesky(symmetric(x), upper=True), POSITIVE_DEFINITE)],
    "linalg_cross": [(F.linalg_cross, X, Y)],
    "linalg_det": [(F.linalg_det, SQUARE)],
    "linalg_diagonal": [(F.linalg_diagonal, CUBE)],
    "linalg_eigh": [(lambda x: F.linalg_eigh(symmetric(x)).eigenvectors, SQUARE)],
    "linalg_eigvalsh": [(lambda x: F.linalg_eigvalsh(symmetric(x), "U"), SQUARE)],
    "linalg_inv": [(F.linalg_inv, SQUARE)],
    "linalg_matrix_norm": [(lambda x, p=p: F.linalg_matrix_norm(x, p), X) for p in ("fro", "nuc", 2, 1, float("inf"))],
    "linalg_matrix_power": [(lambda x, n=n: F.linalg_matrix_power(x, n), SQUARE) for n in (3, -2)],
    "linalg_norm": [(F.linalg_norm, X), (lambda x: F.linalg_norm(x, 2), X), (lambda x: F.linalg_norm(x, 3, 1), X)],
    "linalg_pinv": [(F.linalg_pinv, X)],
    "linalg_qr": [(lambda x: F.linalg_qr(x).Q, X.T)],
    "linalg_slogdet": [(lambda x: F.linalg_slogdet(x).logabsdet, SQUARE)],
    "linalg_solve": [(F.linalg_solve, SQUARE, ROW), (lambda a, b: F.linalg_solve(a, b, left=False), SQUARE, Y)],
    "linalg_solve_triangular": [(lambda a, b: F.linalg_solve_triangular(a, b, upper=True, left=False), SQUARE, Y)],
    "linalg_svd": [(lambda x: F.linalg_svd(x, False).U, X.T)],
    "linalg_svdvals": [(F.linalg_svdvals, X)],
    "linalg_vecdot": [(F.linalg_vecdot, X, Y)],
    "linalg_vector_norm": [(lambda x, p=p: F.linalg_vector_norm(x, p), X) for p in (2, 1, 3, float("inf"), -2)],
    "meshgrid": [(lambda x, y: F.meshgrid(x, y, indexing="xy")[0] * 2, ROW, X[0])],
    "outer": [(F.outer, ROW, X[0])],
    "positive": [(F.positive, X)],
    "repeat_interleave": [(lambda x: x.repeat_interleave(2, 1), X),
                          (lambda x, n: x.repeat_interleave(n, 1), X, np.array([1, 0, 2]))],
    "roll": [(lambda x: F.roll(x, (1, -1), (0, 1)), X)],
    "sort": [(lambda x: F.sort(x, 1).values, X)],
    "take": [(lambda x, i: F.take(x, i), X, INDEX)],
    "take_along_dim": [(lambda x, i: F.take_along_dim(x, i, 1), X, INDEX)],
    "tensordot": [(lambda x, y: F.tensordot(x, y, ([1], [2])), X, CUBE)],
    "tile": [(lambda x: F.tile(x, (2,)), X)],
    "topk": [(lambda x: F.topk(x, 2, 1).values, X)],
    "trace": [(F.trace, SQUARE)],
    "tril": [(lambda x: F.tril(x, -1), SQUARE)],
    "triu": [(F.triu, CUBE)],
}

PLACES = np.array([1, 0, 1])


def reduced(mode: str, include_self: bool) -> Any:
    return lambda x, y, i: F.scatter_reduce(x, 0, i, y, mode, include_self=include_self)


COMPOSED |= {
    "addmm_": [(lambda b, x, y: (b * 1).addmm_(x, y, beta=0.5, alpha=2), SQUARE[:2, :2], X, Y.T)],
    "cumprod_": [(lambda x: (x * 1).cumprod_(1), X)],
    "cumsum_": [(lambda x: (x * 1).cumsum_(1), X)],
    "narrow_copy": [(lambda x: F.narrow_copy(x, 1, 1, 2), X)],
    "tril_": [(lambda x: (x * 1).tril_(), X)],
    "triu_": [(lambda x: (x * 1).triu_(1), X)],
    "as_strided_": [(lambda x: (x * 1).as_strided_((3,), (2,), 0), X)],
    "as_strided_scatter": [(lambda x, y: F.as_strided_scatter(x, y, (3,), (2,), 0), X, ROW)],
    "column_stack": [(lambda x, y: F.column_stack([x, y]), X[0], X[1])],
    "diagonal_scatter": [(lambda x, y: F.diagonal_scatter(x, y), X, ROW[:2]),
                         (lambda x, y: F.diagonal_scatter(x, y, 1, 0, 2), CUBE, X[:, :2])],
    "dsplit": [(lambda x: F.dsplit(x, 3)[1] * 2, CUBE)],
    "dstack": [(lambda x, y: F.dstack([x, y]), X, Y)],
    "hsplit": [(lambda x: F.hsplit(x, [1])[1] * 2, X)],
    "hstack": [(lambda x, y: F.hstack([x, y]), X, Y)],
    "index_add": [(lambda x, y, i: F.index_add(x, 0, i, y, alpha=2), X, np.vstack([Y, ROW]), PLACES)],
    "index_add_": [(lambda x, y, i: (x * 1).index_add_(0, i, y), X, np.vstack([Y, ROW]), PLACES)],
    "index_copy": [(lambda x, y, i: F.index_copy(x, 1, i, y), X, Y[:, :2], PLACES[:2])],
    "index_copy_": [(lambda x, y, i: (x * 1).index_copy_(1, i, y), X, Y[:, :2], PLACES[:2])],
    "index_fill": [(lambda x, i: F.index_fill(x, 1, i, 2.5), X, PLACES),
                   (lambda x, v, i: F.index_fill(x, 1, i, v.sum()), X, ROW, PLACES)],
    "index_fill_": [(lambda x, i: (x * 1).index_fill_(0, i, 2.5), X, PLACES[:1])],
    "index_reduce": [(lambda x, y, i: F.index_reduce(x, 0, i, y, "mean"), X, np.vstack([Y, ROW]), PLACES)],
    "index_reduce_": [(lambda x, y, i: (x * 1).index_reduce_(0, i, y, "prod"), X, np.vstack([Y, ROW]), PLACES)],
    "masked_scatter": [(lambda x, y, m: F.masked_scatter(x, m, y), X, Y, MASK)],
    "masked_scatter_": [(lambda x, y, m: (x * 1).masked_scatter_(m, y), X, Y, MASK)],
    "masked_select": [(F.masked_select, X, MASK)],
    "put": [(lambda x, y, i: F.put(x, i, y), X, ROW[:2], PLACES[:2]),
            (lambda x, y, i: F.put(x, i, y, accumulate=True), X, ROW, PLACES)],
    "put_": [(lambda x, y, i: (x * 1).put_(i, y), X, ROW[:2], PLACES[:2])],
    "ravel": [(lambda x: F.ravel(x.t()), X)],
    "reshape_as": [(lambda x, y: x.reshape_as(y) * y, X, Y.T)],
    "scatter_reduce": [(reduced(mode, kept), X, Y, INDEX) for mode in ("sum", "mean", "prod", "amax", "amin")
                       for kept in (True, False)] + [(reduced("prod", True), ZEROS, Y, INDEX),
                       (reduced("prod", True), X, ZEROS, INDEX)],
    "scatter_reduce_": [(lambda x, y, i: (x * 1).scatter_reduce_(0, i, y, "amax"), X, Y, INDEX)],
    "segment_reduce": [(lambda x: F.segment_reduce(x, "mean", lengths=torch.tensor([x.shape[0] - 1, 1])), X)],
    "scatter_tensor": [(lambda x, y, i: F.scatter(x, 0, i, y), X, Y[:1], INDEX[:1])],
    "scatter_number": [(lambda x, i: F.scatter(x, 0, i, 2.5), X, INDEX)],
    "fill_number": [(lambda x: F.fill(x, 2.5) * x, X)],
    "index_fill_number": [(lambda x, i: F.index_fill(x, 0, i, -1.5), X, INDEX[0])],
    "index_fill_tensor": [(lambda x, v, i: F.index_fill(x, 1, i, v.sum()), X, ROW, PLACES)],
    "index_by_position": [(lambda x, i, j: x[:, i, j], CUBE, INDEX[0], PLACES)],
    "put_by_position": [(lambda x, y, i: F.index_put(x, (None, i), y, accumulate=True), X, Y, PLACES)],
    "put_elements": [(lambda x, y, i: F.put(x, i, y), X, ROW[:2], PLACES[:2])],
    "gather_gradient": [(lambda g, i: call(COMPOSITES["gather_gradient"], g, (3, 3), 0, i), X, INDEX)],
    "index_select_gradient": [
        (lambda g, i: call(COMPOSITES["index_select_gradient"], g, (4, 3), 0, i), X, INDEX[0][:2])],
    "take_gradient": [(lambda g, i: call(COMPOSITES["take_gradient"], g, (2, 2), i), X, INDEX)],
    "index_gradient": [
        (lambda g, i: call(COMPOSITES["index_gradient"], g, (2, 3), 2, i, None, None, None), X, PLACES)],
    "found_extremes": [(lambda x: F.cummax(x, 1)[0], X), (lambda x: F.cummin(x, 0)[0], X)],
    "found_in_order": [(lambda x: F.topk(x, 2, 0)[0], X)],
    "found_of_rank": [(lambda x: F.kthvalue(x, 2, 1, True)[0], X)],
    "found_mode": [(lambda x: F.mode(x, 1)[0], X)],
    "middle": [(F.median, X)],
    "scatter_reduce_valid": [(lambda x, y, i: F.scatter_reduce(x, 0, i, y, "prod"), X, Y, INDEX)],
    "select_scatter": [(lambda x, y: F.select_scatter(x, y, 0, 1), X, ROW)],
    "slice_scatter": [(lambda x, y: F.slice_scatter(x, y, 1, 0, 3, 2), X, Y[:, :2])],
    "split_with_sizes": [(lambda x: F.split_with_sizes(x, [1, 2], 1)[1] * 2, X)],
    "squeeze_": [(lambda x: (x * 1).squeeze_(1), COLUMN)],
    "sum_to_size": [(lambda x: x.sum_to_size(2, 1), CUBE)],
    "t_": [(lambda x: (x * 1).t_(), X)],
    "tensor_split": [(lambda x: F.tensor_split(x, 2, 1)[1] * 2, X)],
    "transpose_": [(lambda x: (x * 1).transpose_(0, 2), CUBE)],
    "unflatten": [(lambda x: F.unflatten(x, 1, (3, -1)), X)],
    "unsqueeze_": [(lambda x: (x * 1).unsqueeze_(1), X)],
    "vsplit": [(lambda x: F.vsplit(x, 2)[1] * 2, X)],
    "vstack": [(lambda x, y: F.vstack([x, y]), X, ROW)],
}

#: No gradient, or one that central differences in float64 do not see.
NO_GRADIENT = {"allclose", "apply_", "argsort", "argwhere", "bool", "bucketize", "byte", "char", "count_nonzero",
               "equal", "first_to_come", "int", "isclose", "isin", "linalg_matrix_rank", "long", "map2_", "map_",
               "nonzero", "one_hot", "resize_", "resize_as_", "searchsorted", "short", "unique", "unique_consecutive"}
# Composites of symmetric matrices; tests of Fourier transforms and of eigenvalues, whose results are complex.
ELSEWHERE_RECORDS = {"cholesky", "eigh", "eigvalsh", "eig", "eigvals", "fft_c2c", "fft_c2r", "fft_r2c"}
ROUNDED = {"bfloat16", "float", "half"}
# A backend that is not installed everywhere, the same as to; tests of indexing.
ELSEWHERE = {"cpu", "cuda", "getitem", "setitem"}
#: A step by one unit in the last place, which differences do not see; in pointwise/test_elementary.py.
ELSEWHERE_RECORDS |= {"nextafter", "nextafter_"}
#: Refused, in test_underivable.
ELSEWHERE_RECORDS |= {"floor_divide", "floor_divide_"}
#: Those about complex numbers, in test_complex.
ELSEWHERE_RECORDS |= {
    "conj", "_neg_view", "real_part", "imag_part", "view_as_real", "view_as_complex", "conj_physical", "conj_physical_",
    "angle", "sgn",
    "sgn_", "complex"}
ELSEWHERE |= {
    "_conj", "real", "imag", "view_as_real", "view_as_complex", "conj", "conj_physical", "complex", "polar", "adjoint",
    "vdot", "cfloat", "chalf", "cdouble", "resolve_conj", "resolve_neg", "is_conj", "is_neg", "isreal", "is_complex"}

FLAT = [(name, k) for name, cases in RECORDS.items() for k in range(len(cases))]
FLAT_COMPOSED = [(name, k) for name, cases in COMPOSED.items() for k in range(len(cases))]
#: Records whose second derivative is checked: all whose formula is their own.
TWICE = [(name, k) for name, k in FLAT if not name.endswith("_")]


@pytest.mark.parametrize(("name", "k"), FLAT)
def test_derivatives_of_records(check: Check, record_function: Check, name: str, k: int) -> None:
    check(record_function(name), RECORDS[name][k])


@pytest.mark.parametrize(("name", "k"), FLAT_COMPOSED)
def test_derivatives_of_composites(check: Check, name: str, k: int) -> None:
    function, *args = COMPOSED[name][k]
    check(function, args)


@pytest.mark.parametrize(("name", "k"), TWICE)
def test_second_derivatives(check_twice: Check, record_function: Check, name: str, k: int) -> None:
    check_twice(record_function(name), RECORDS[name][k])


@pytest.mark.parametrize("name", ["layer_norm", "cross_entropy", "var", "std", "logsumexp", "linear", "embedding"])
def test_second_derivatives_of_composites(check_twice: Check, name: str) -> None:
    function, *args = COMPOSED[name][0]
    check_twice(function, args)


def test_every_record_with_a_derivative_has_a_case(gradient_tables: dict[str, set[str]]) -> None:
    derived = {name for name, operator in OPERATORS.items() if operator.derivative is not None and "::" not in name}
    assert sorted(gradient_tables["RECORDS"] | gradient_tables["ELSEWHERE_RECORDS"]) == sorted(derived)


def test_every_composite_has_a_case(gradient_tables: dict[str, set[str]]) -> None:
    checked, without = gradient_tables["COMPOSED"], gradient_tables["NO_GRADIENT"]
    elsewhere = gradient_tables["ELSEWHERE"] | ROUNDED
    complex_ones = {name for name in COMPOSITES if name.startswith(("fft_", "linalg_eig"))} - checked
    assert sorted(checked | without | elsewhere | complex_ones) == sorted(COMPOSITES)
    assert not checked & (without | elsewhere)


@pytest.mark.parametrize("name", sorted(ROUNDED))
def test_rounding_conversions_pass_gradients_on(name: str) -> None:
    x = torch.tensor(X, requires_grad=True, dtype=torch.float64)
    (getattr(x, name)() * 2).sum().backward()
    assert x.grad.dtype is torch.float64
    assert x.grad.tolist() == np.full_like(X, 2).tolist()


@pytest.mark.parametrize("name", ["bool", "byte", "char", "int", "long", "short", "nonzero"])
def test_integer_results_have_no_gradient(name: str) -> None:
    x = torch.tensor(P, requires_grad=True, dtype=torch.float64)
    assert not getattr(x, name)().requires_grad


@pytest.mark.parametrize(("function", "args"), [
    (lambda x: 1.5 - x, (X,)), (lambda x: 2.0 / x, (X,)), (lambda x: 1.7**x, (X,)), (lambda x: 4.5 % x, (P,)),
    (lambda x: x.view(3, 2).t()[1:, ::2] @ x[:1, :2].t(), (X,)), (lambda x: x[[0, 1], [2, 0]], (X,)),
    (lambda x: x[x > 0], (X,)),
])
def test_python_operators_and_indexing(check: Check, function: Callable[..., Any], args: Any) -> None:
    check(function, args)


# Where a function has a kink, PyTorch's choice is a closed form.
@pytest.mark.parametrize(("function", "values", "expected"), [
    (lambda x: x.amax(), [1.0, 3.0, 3.0, 2.0], [0, 0.5, 0.5, 0]),
    (lambda x: x.amin(0), [1.0, 1.0, 1.0, 2.0], [1 / 3, 1 / 3, 1 / 3, 0]),
    (lambda x: x.relu().sum(), [-1.0, 0.0, 2.0], [0, 0, 1]),
    (lambda x: x.abs().sum(), [-1.0, 0.0, 2.0], [-1, 0, 1]),
    (lambda x: x.sign().sum(), [-1.0, 0.0, 2.0], [0, 0, 0]),
    (lambda x: x.clamp(-1, 1).sum(), [-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 1, 1, 0]),
    (lambda x: torch.maximum(x, torch.ones(3, dtype=torch.float64)).sum(), [0.0, 1.0, 2.0], [0, 0.5, 1]),
    (lambda x: torch.minimum(x, torch.ones(3, dtype=torch.float64)).sum(), [0.0, 1.0, 2.0], [1, 0.5, 0]),
    (lambda x: (x**2).sum(), [0.0, -3.0], [0, -6]),
    (lambda x: x.prod(), [0.0, 3.0, 4.0], [12, 0, 0]),
    (lambda x: x.prod(), [0.0, 3.0, 0.0], [0, 0, 0]),
    (lambda x: (0.0**x).sum(), [0.0, 2.0], [0, 0]),
])
def test_gradients_at_kinks(function: Callable[[Any], Any], values: list[float], expected: list[float]) -> None:
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    function(x).backward()
    np.testing.assert_allclose(x.grad.tolist(), expected, rtol=1e-15)
