"""Losses: terms, their sums and means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, same

_F = ts.nn.functional
_FLOATS = ("f32", "f64")
_CLOSE = Tolerance(ulp=4.0, factor=32.0, flush=True)
_REDUCTIONS: dict[str, Callable[[HostArray], Any]] = {"mean": np.mean, "sum": np.sum, "none": lambda terms: terms}
Terms = Callable[..., Any]


def _drawn(draw: Draw, shape: tuple[int, ...], kind: str, layout: str = "plain") -> Given:
    """Draw numbers, probabilities, or signs 1 and -1."""
    if kind == "numbers":
        return draw.given(shape, layout)
    if kind == "probabilities":
        return draw.given(shape, layout, 0.05, 0.95)
    signs = draw.rng.integers(0, 2, shape) * 2 - 1
    return Given(signs.astype(draw.form.numpy), draw.form.short, layout)


def _samples(first: str, second: str) -> dict[str, Maker]:
    def pair(shape: tuple[int, ...], reduction: str, layout: str = "plain") -> Maker:
        return lambda draw: Sample((_drawn(draw, shape, first, layout), _drawn(draw, shape, second), reduction))

    return {
        "prime#0": pair((7, 13), "mean"), "prime#1": pair((7, 13), "sum"), "prime#2": pair((7, 13), "none"),
        "transposed#0": pair((17, 5), "none", "transposed"), "scalar#0": pair((), "mean"),
        "large#0": pair((4096 + 19,), "mean"),
    }


def _loss(name: str, terms: Terms, first: str = "numbers", second: str = "numbers", **arguments: Any) -> Operator:
    """Return a loss of two tensors of one shape."""
    function = ts.kl_div if name == "kl_div" else getattr(_F, name)  # that of nn.functional warns about means

    def run(x: Any, y: Any, reduction: str) -> Any:
        return function(x, y, reduction=reduction, **arguments)

    def reference(x: HostArray, y: HostArray, reduction: str) -> Any:
        return _REDUCTIONS[reduction](terms(x, y))

    def scale(x: HostArray, y: HostArray, reduction: str) -> Any:
        return _REDUCTIONS[reduction](1 + np.abs(terms(x, y)) + np.abs(x) + np.abs(y))

    return Operator(name, run, reference, _samples(first, second), _FLOATS, same, _CLOSE, scale)


def _huber(x: HostArray, y: HostArray) -> Any:
    size = np.abs(x - y)
    return np.where(size < 1.5, 0.5 * size**2, 1.5 * (size - 0.75))


def _smooth(x: HostArray, y: HostArray) -> Any:
    size = np.abs(x - y)
    return np.where(size < 0.5, size**2, size - 0.25)


def _softplus(x: HostArray) -> Any:
    return np.logaddexp(0.0, x)


def _kl(x: HostArray, y: HostArray) -> Any:
    return y * (np.log(y) - x)


def _bce(x: HostArray, y: HostArray) -> Any:
    return -y * np.log(x) - (1 - y) * np.log1p(-x)


def _logits(x: HostArray, y: HostArray) -> Any:
    return y * _softplus(-x) + (1 - y) * _softplus(x)


def _classes(rows: int, classes: int, reduction: str) -> Maker:
    return lambda draw: Sample((draw.given((rows, classes)), draw.index((rows,), classes), reduction))


def _margins(x: HostArray, target: HostArray, reduction: str) -> Any:
    rows = np.arange(len(x))
    terms = np.maximum(1 - x[rows, target][:, None] + x, 0)
    terms[rows, target] = 0
    return _REDUCTIONS[reduction](terms.sum(1) / x.shape[1])


def _margins_scale(x: HostArray, target: HostArray, reduction: str) -> Any:
    return _REDUCTIONS[reduction](1 + 2 * np.abs(x).sum(1))


_CLASSES = {"prime#0": _classes(7, 13, "mean"), "prime#1": _classes(7, 13, "none"), "large#0": _classes(301, 40, "sum")}

#: The records of this family.
OPERATORS = [
    _loss("l1_loss", lambda x, y: np.abs(x - y)),
    _loss("huber_loss", _huber, delta=1.5),
    _loss("smooth_l1_loss", _smooth, beta=0.5),
    _loss("binary_cross_entropy", _bce, "probabilities", "probabilities"),
    _loss("binary_cross_entropy_with_logits", _logits, "numbers", "probabilities"),
    _loss("kl_div", _kl, "numbers", "probabilities"),
    _loss("poisson_nll_loss", lambda x, y: np.exp(x) - y * x, "numbers", "probabilities"),
    _loss("soft_margin_loss", lambda x, y: _softplus(-x * y), "numbers", "signs"),
    _loss("hinge_embedding_loss", lambda x, y: np.where(y == 1, x, np.maximum(0, 2 - x)), "numbers", "signs",
          margin=2.0),
    Operator("multi_margin_loss", lambda x, target, reduction: _F.multi_margin_loss(x, target, reduction=reduction),
             _margins, _CLASSES, _FLOATS, same, _CLOSE, _margins_scale),
]
