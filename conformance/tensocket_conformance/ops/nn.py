"""Operators of neural networks: softmax and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, kinds, same

_F = ts.nn.functional
_ROW = Tolerance(ulp=4.0, factor=16.0, flush=True)


def _row(shape: tuple[int, ...], dim: int, layout: str = "plain", low: float = -8.0, high: float = 8.0) -> Maker:
    return lambda draw: Sample((draw.given(shape, layout, low, high), dim))


def _masked(draw: Draw) -> Sample:
    array = draw.values((5, 7)).astype(draw.form.numpy)
    array[0, 2:], array[1, 0], array[2, 3] = -np.inf, -np.inf, 80.0
    return Sample((Given(array, draw.form.short), 1))


_ROWS = {
    "prime#0": _row((7, 13), 1), "dim#0": _row((7, 13), 0), "dim#1": _row((3, 5, 7), -2), "one#0": _row((4, 1), 1),
    "scalar#0": _row((), 0), "empty#0": _row((0, 5), 1), "transposed#0": _row((17, 5), 1, "transposed"),
    "offset#0": _row((8, 6), 1, "offset"), "step#0": _row((5, 31), 1, "step"), "wide#0": _row((3, 4099), 1),
    "tall#0": _row((4099, 3), 1), "large#0": _row((257, 256), 0), "grid#0": _masked,
}


def _shifted(x: HostArray, dim: int) -> HostArray:
    return x - np.max(x, axis=dim, keepdims=True) if x.size else x


def _logsumexp(x: HostArray, dim: int) -> Any:
    if not x.size:
        return np.log(np.sum(np.exp(x), axis=dim))
    top = np.max(x, axis=dim, keepdims=True)
    return np.squeeze(top + np.log(np.sum(np.exp(x - top), axis=dim, keepdims=True)), dim if x.ndim else None)


def _softmax(x: HostArray, dim: int) -> Any:
    powers = np.exp(_shifted(x, dim))
    return powers / np.sum(powers, axis=dim, keepdims=True)


def _log_softmax(x: HostArray, dim: int) -> Any:
    shifted = _shifted(x, dim)
    return shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True))


def _softmax_scale(x: HostArray, dim: int) -> Any:
    return _softmax(x, dim) * (1 + np.abs(_shifted(x, dim)))


def _log_scale(x: HostArray, dim: int) -> Any:
    return 1 + np.abs(_log_softmax(x, dim)) + np.abs(_shifted(x, dim))


def _top_scale(x: HostArray, dim: int) -> Any:
    return 1 + np.abs(_logsumexp(x, dim)) + (np.max(np.abs(x), axis=dim) if x.size else 0)


_REDUCTIONS: dict[str, Callable[[HostArray], Any]] = {
    "mean": np.mean, "sum": np.sum, "none": lambda terms: terms,
}


def _labelled(rows: int, classes: int, reduction: str, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given((rows, classes), layout), draw.index((rows,), classes), reduction))


def _nll_terms(x: HostArray, target: HostArray) -> HostArray:
    return np.asarray(-x[np.arange(len(target)), target])


def _nll(x: HostArray, target: HostArray, reduction: str) -> Any:
    return _REDUCTIONS[reduction](_nll_terms(x, target))


def _nll_scale(x: HostArray, target: HostArray, reduction: str) -> Any:
    return _REDUCTIONS[reduction](np.abs(_nll_terms(x, target)))


def _cross_entropy(x: HostArray, target: HostArray, reduction: str) -> Any:
    return _nll(_log_softmax(x, 1), target, reduction)


def _cross_entropy_scale(x: HostArray, target: HostArray, reduction: str) -> Any:
    return _nll_scale(_log_scale(x, 1), target, reduction)


def _paired(shape: tuple[int, ...], reduction: str, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), draw.given(shape), reduction))


_LABELLED = {
    "prime#0": _labelled(7, 13, "mean"), "prime#1": _labelled(7, 13, "sum"), "prime#2": _labelled(7, 13, "none"),
    "one#0": _labelled(1, 1, "mean"), "transposed#0": _labelled(17, 5, "mean", "transposed"),
    "large#0": _labelled(501, 300, "mean"),
}
_PAIRED = {
    "prime#0": _paired((7, 13), "mean"), "prime#1": _paired((7, 13), "sum"), "prime#2": _paired((7, 13), "none"),
    "transposed#0": _paired((17, 5), "mean", "transposed"), "large#0": _paired((65536 + 19,), "mean"),
}
_LOSS = Tolerance(ulp=1.0, factor=24.0)


def _mse(x: HostArray, y: HostArray, reduction: str) -> Any:
    return _REDUCTIONS[reduction]((x - y) ** 2)


#: The records of this family.
OPERATORS = [
    Operator("softmax", lambda x, dim: _F.softmax(x, dim), _softmax, _ROWS, kinds("f"), same, _ROW, _softmax_scale),
    Operator("log_softmax", lambda x, dim: _F.log_softmax(x, dim), _log_softmax, _ROWS, kinds("f"), same, _ROW,
             _log_scale),
    Operator("logsumexp", lambda x, dim: ts.logsumexp(x, dim), _logsumexp, _ROWS, kinds("f"), same, _ROW, _top_scale),
    Operator("nll_loss", lambda x, target, reduction: _F.nll_loss(x, target, reduction=reduction), _nll, _LABELLED,
             ("f32", "f64"), same, _LOSS, _nll_scale),
    Operator("cross_entropy", lambda x, target, reduction: _F.cross_entropy(x, target, reduction=reduction),
             _cross_entropy, _LABELLED, ("f32", "f64"), same, _LOSS, _cross_entropy_scale),
    Operator("mse_loss", lambda x, y, reduction: _F.mse_loss(x, y, reduction=reduction), _mse, _PAIRED,
             ("f32", "f64"), same, _LOSS, _mse),
]
