"""Normalisation, embeddings, distances and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Maker, Operator, Sample, kinds, same

_F = ts.nn.functional
_FLOATS = ("f32", "f64")
_ROWS = Tolerance(ulp=4.0, factor=64.0, flush=True)
_EPS = 0.1


def _standard(x: HostArray, axes: tuple[int, ...]) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + _EPS)


def _row_scale(x: HostArray, *rest: Any) -> HostArray:
    """Return the largest magnitudes of inputs and factors, because the operator subtracts a mean."""
    top = 1 + np.abs(x).max(initial=0.0)
    factors = [1 + np.abs(w).max(initial=0.0) for w in rest if isinstance(w, np.ndarray)]
    return np.full(x.shape, top * math.prod(factors) * 2)


def _affine(shape: tuple[int, ...], channels: int, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), draw.given((channels,)), draw.given((channels,))))


def _layer(x: HostArray, weight: HostArray, bias: HostArray) -> Any:
    return _standard(x, (-1,)) * weight + bias


def _rms(x: HostArray, weight: HostArray, bias: HostArray) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + _EPS) * weight


def _channels(values: HostArray, rank: int) -> Any:
    return values.reshape(-1, *(1 for _ in range(rank - 2)))


def _batch(x: HostArray, weight: HostArray, bias: HostArray) -> Any:
    return _standard(x, (0, *range(2, x.ndim))) * _channels(weight, x.ndim) + _channels(bias, x.ndim)


def _instance(x: HostArray, weight: HostArray, bias: HostArray) -> Any:
    return _standard(x, tuple(range(2, x.ndim))) * _channels(weight, x.ndim) + _channels(bias, x.ndim)


def _group(x: HostArray, weight: HostArray, bias: HostArray) -> Any:
    rows = x.reshape(x.shape[0], 2, -1)
    return _standard(rows, (2,)).reshape(x.shape) * _channels(weight, x.ndim) + _channels(bias, x.ndim)


_LAYERS = {
    "prime#0": _affine((7, 13), 13), "transposed#0": _affine((17, 5), 5, "transposed"), "one#0": _affine((3, 1), 1),
    "step#0": _affine((5, 31), 31, "step"), "wide#0": _affine((3, 4099), 4099), "tall#0": _affine((1031, 3), 3),
}
_IMAGES = {
    "prime#0": _affine((3, 4, 5, 7), 4), "transposed#0": _affine((7, 4, 5), 4, "transposed"),
    "large#0": _affine((2, 6, 33, 31), 6),
}


def _vectors(rows: int, others: int, width: int, p: float) -> Maker:
    return lambda draw: Sample((draw.given((rows, width)), draw.given((others, width)), p))


def _powers(differences: HostArray, p: float) -> Any:
    size = np.abs(differences)
    return size.max(-1) if math.isinf(p) else (size**p).sum(-1) ** (1 / p)


def _cdist(x: HostArray, y: HostArray, p: float) -> Any:
    return _powers(x[:, None] - y, p)


def _cdist_scale(x: HostArray, y: HostArray, p: float) -> Any:
    return 8 + _cdist(x, y, p)


def _cosine(x: HostArray, y: HostArray, dim: int) -> Any:
    return (x * y).sum(dim) / np.sqrt((x * x).sum(dim) * (y * y).sum(dim))


def _bags(mode: str) -> Maker:
    return lambda draw: Sample((draw.index((4, 6), 11), draw.given((11, 5)), mode))


def _bag(index: HostArray, table: HostArray, mode: str) -> Any:
    return getattr(table[index], mode)(axis=1)


def _attention(draw: Draw, causal: bool, heads: int, rows: int, keys: int) -> Sample:
    return Sample((draw.given((2, heads, rows, 8)), draw.given((2, heads, keys, 8)), draw.given((2, heads, keys, 5)),
                   causal))


def _attend(query: HostArray, key: HostArray, value: HostArray, causal: bool) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ value


def _attention_scale(query: HostArray, key: HostArray, value: HostArray, causal: bool) -> Any:
    scores = np.abs(query) @ np.swapaxes(np.abs(key), -1, -2)
    return np.full((*query.shape[:-1], value.shape[-1]), (1 + scores.max()) * (1 + np.abs(value).max()))


_ATTENTION = {
    "prime#0": lambda draw: _attention(draw, False, 3, 7, 5), "prime#1": lambda draw: _attention(draw, True, 3, 7, 7),
    "large#0": lambda draw: _attention(draw, True, 2, 65, 65),
}
_DISTANCES = {
    "prime#0": _vectors(7, 5, 3, 2.0), "prime#1": _vectors(7, 5, 3, 1.0), "prime#2": _vectors(7, 5, 3, math.inf),
    "large#0": _vectors(40, 31, 9, 3.0),
}
_SIMILAR = {"prime#0": lambda draw: Sample((draw.given((7, 13)), draw.given((7, 13)), 1)),
            "dim#0": lambda draw: Sample((draw.given((7, 13)), draw.given((7, 13)), 0))}

#: The records of this family.
OPERATORS = [
    Operator("layer_norm", lambda x, w, b: _F.layer_norm(x, (x.shape[-1],), w, b, _EPS), _layer, _LAYERS, kinds("f"),
             same, _ROWS, _row_scale),
    Operator("rms_norm", lambda x, w, b: _F.rms_norm(x, (x.shape[-1],), w, _EPS), _rms, _LAYERS, kinds("f"), same,
             _ROWS, _row_scale),
    Operator("batch_norm", lambda x, w, b: _F.batch_norm(x, None, None, w, b, True, eps=_EPS), _batch, _IMAGES, _FLOATS,
             same, _ROWS, _row_scale),
    Operator("instance_norm", lambda x, w, b: _F.instance_norm(x, None, None, w, b, eps=_EPS), _instance, _IMAGES,
             _FLOATS, same, _ROWS, _row_scale),
    Operator("group_norm", lambda x, w, b: _F.group_norm(x, 2, w, b, _EPS), _group, _IMAGES, _FLOATS, same, _ROWS,
             _row_scale),
    Operator("cdist", lambda x, y, p: ts.cdist(x, y, p), _cdist, _DISTANCES, _FLOATS, same, _ROWS, _cdist_scale),
    Operator("cosine_similarity", lambda x, y, dim: _F.cosine_similarity(x, y, dim), _cosine, _SIMILAR, _FLOATS, same,
             _ROWS, lambda x, y, dim: np.ones_like(_cosine(x, y, dim))),
    Operator("embedding_bag", lambda index, table, mode: _F.embedding_bag(index, table, mode=mode), _bag,
             {"prime#0": _bags("sum"), "prime#1": _bags("mean"), "prime#2": _bags("max")}, _FLOATS, same, _ROWS,
             lambda index, table, mode: np.sum(np.abs(table[index]), 1)),
    Operator("scaled_dot_product_attention", lambda q, k, v, causal: _F.scaled_dot_product_attention(
        q, k, v, is_causal=causal), _attend, _ATTENTION, _FLOATS, same, _ROWS, _attention_scale),
]
