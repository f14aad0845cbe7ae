"""Scaled dot product attention: one record, which a backend may replace by a kernel that never stores all scores."""

from __future__ import annotations

import math
from typing import Any

from tensocket_plugins.contract.dtypes import bool_
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .._generated import functions
from ..dispatch.blame import blame
from ..dispatch.composite import composite

_NAME = "scaled_dot_product_attention"


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    method=False, namespace="nn.functional",
)
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, *, scale: float | None = None,
                                 enable_gqa: bool = False) -> Any:
    """softmax(query @ key.mT * scale + mask) @ value; zeros where a query may look at nothing.

    Args:
        query: [..., L, E].
        key: [..., S, E].
        value: [..., S, V].
        attn_mask: Where a query may look at a key (bool), or what is added to the scores; broadcasts to [..., L, S].
        dropout_p: Probability with which a weight is dropped.
        is_causal: Whether query i looks at keys up to i only; not together with a mask.
        scale: 1 / sqrt(E) by default.
        enable_gqa: Whether several heads (dimension -3) of the query share one of key and value.

    Raises:
        ShapeError: The shapes do not fit.
        DtypeError: The dtypes differ.
        ArgumentError: There is a mask, and ``is_causal`` is set.
    """
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = _shared_heads(query, key, value)
    width = query.shape[-1]
    factor = 1 / math.sqrt(width) if scale is None and width else 1.0 if scale is None else scale
    if is_causal:
        rows, columns = query.new_arange(0, query.shape[-2], 1), query.new_arange(0, key.shape[-2], 1)
        attn_mask = columns.unsqueeze(0) <= rows.unsqueeze(1)
    with blame(_NAME):
        weights = _weights((query * factor).matmul(key.transpose(-2, -1)), attn_mask, is_causal)
        return functions.dropout(weights, dropout_p, True).matmul(value)


def _weights(scores: Any, mask: Any, alive: bool) -> Any:
    """The softmax of masked scores; zeros in rows where all is masked, unless there are none."""
    if mask is None:
        return scores.softmax(-1)
    never = -math.inf
    scores = scores.masked_fill(~mask, never) if mask.dtype is bool_ else scores + mask.to(scores.dtype)
    if alive or scores.shape[-1] == 0:
        return scores.softmax(-1)
    dead = scores.detach().amax(-1, True) == never
    return scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)


def _check(query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> None:
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2 or (
            query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]):
        raise ShapeError(_NAME, shapes, "they are [..., L, E], [..., S, E] and [..., S, V]",
                         "check the last dimensions")
    if not query.dtype is key.dtype is value.dtype:
        raise DtypeError(_NAME, f"dtypes {query.dtype.name}, {key.dtype.name} and {value.dtype.name}",
                         "query, key and value have one dtype", "convert with .to(dtype)")
    if mask is None:
        return
    if is_causal:
        raise ArgumentError(_NAME, "attn_mask and is_causal=True", "attention is causal or has a mask of its own",
                            "put the causal part into the mask")
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise DtypeError(_NAME, f"attn_mask of dtype {mask.dtype.name}", "a mask is of bools or floats",
                         "compare first, as in mask != 0")


def _shared_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Key and value with as many heads as the query: each is used by several."""
    if min(query.ndim, key.ndim, value.ndim) < 3 or query.shape[-3] % max(key.shape[-3], 1) or (
            query.shape[-3] % max(value.shape[-3], 1)):
        raise ShapeError(_NAME, f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}",
                         "the query's heads are a multiple of those of key and value", "check dimension -3")
    heads = query.shape[-3]
    return tuple(_repeated(x, heads // max(x.shape[-3], 1)) for x in (key, value))


def _repeated(x: Any, times: int) -> Any:
    """Each head ``times`` times, one after the other."""
    *lead, heads, rows, width = x.shape
    return x.unsqueeze(-3).expand(*lead, heads, times, rows, width).reshape(*lead, heads * times, rows, width)
