"""Attention, with PyTorch's signatures."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tensocket.errors import ArgumentCombinationError, ArgumentError, AttentionShapeError
from tensocket_operators import Tensor
from tensocket_operators import bool_ as BOOL
from tensocket_operators import functions as ops

scaled_dot_product_attention: Callable[..., Tensor] = ops.scaled_dot_product_attention

_NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return multi-head attention, with projections before and after (Vaswani et al., 2017).

    Args:
        query, key, value: (L, N, E), (S, N, K) and (S, N, V), or without the batch N.
        embed_dim_to_check: E.
        num_heads: Number of heads, which divides E.
        in_proj_weight, in_proj_bias: (3 E, E) for query, key and value, unless there are separate ones, and (3 E).
        bias_k, bias_v: (1, 1, E), one more key and value.
        add_zero_attn: Whether a key and a value of zeros are added.
        dropout_p: Probability with which a weight is dropped while ``training``.
        out_proj_weight, out_proj_bias: (E, E) and (E).
        training: Whether the call is part of training.
        key_padding_mask: (N, S): keys to ignore (bool), or numbers to add to their scores.
        need_weights: Whether the weights are returned, too.
        attn_mask: (L, S) or (N * num_heads, L, S): keys that a query ignores (bool), or numbers to add to scores.
        use_separate_proj_weight: Whether the next three are used.
        q_proj_weight, k_proj_weight, v_proj_weight: (E, E), (E, K) and (E, V).
        static_k, static_v: Projected keys and values of all heads, (N * num_heads, S, E / num_heads), used instead of
        those of ``key`` and ``value``.
        average_attn_weights: Whether weights are averaged over heads.
        is_causal: Whether ``attn_mask`` is the causal mask.

    Returns:
        The output, shaped like ``query``, and weights (N, L, S) or (N, num_heads, L, S), or None.

    Raises:
        AttentionShapeError: The shapes do not fit.
        ArgumentCombinationError: Additional and static keys are both given.
        ArgumentError: ``is_causal`` is given without a mask.
    """
    if is_causal and attn_mask is None:
        raise ArgumentError(_NAME, "is_causal=True without attn_mask", "is_causal says what attn_mask is",
                            "pass the mask, too")
    batched = query.dim() == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads)
    _check_static((bias_k, bias_v), (static_k, static_v))
    length, count, width = query.shape
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else _thirds(in_proj_weight)
    projected = _projected((query, key, value), weights, _thirds(in_proj_bias))
    q, k, v = _heads(projected, bias_k, bias_v, num_heads)
    k, v = (_extended(x, static, add_zero_attn) for x, static in ((k, static_k), (v, static_v)))
    mask = _joined(attn_mask, key_padding_mask, q, k.shape[1], num_heads, (bias_k is not None) + add_zero_attn)
    output, seen = _attend(q, k, v, mask, dropout_p if training else 0.0, need_weights)
    rows = output.transpose(0, 1).reshape(length, count, width)
    result = ops.linear(rows if batched else rows.squeeze(1), out_proj_weight, out_proj_bias)
    if seen is None:
        return result, None
    seen = seen.reshape(count, num_heads, length, k.shape[1])
    seen = seen.mean(1) if average_attn_weights else seen
    return result, seen if batched else seen.squeeze(0)


def _check_static(biases: Sequence[Tensor | None], static: Sequence[Tensor | None]) -> None:
    """Refuse an additional key (or value) together with static ones.

    Raises:
        ArgumentCombinationError: Both are given.
    """
    if any(bias is not None and given is not None for bias, given in zip(biases, static, strict=True)):
        raise ArgumentCombinationError(_NAME, "bias_k and static_k, or bias_v and static_v",
                                       "bias cannot be added to static keys or values", "leave one of both out")


def _extended(projected: Tensor, static: Tensor | None, zero: bool) -> Tensor:
    """Return the keys or values of all heads, or the static ones, with one more row of zeros on request."""
    values = projected if static is None else static
    return ops.cat([values, values.new_zeros((values.shape[0], 1, values.shape[2]))], 1) if zero else values


def _thirds(values: Tensor | None) -> Sequence[Tensor | None]:
    """Return the parts for query, key and value."""
    return (None, None, None) if values is None else values.chunk(3)


def _projected(inputs: Sequence[Tensor], weights: Sequence[Tensor | None],
               biases: Sequence[Tensor | None]) -> list[Tensor]:
    """Multiply inputs by weights and add biases.

    Raises:
        ArgumentError: A weight is missing.
    """
    result = []
    for x, w, b in zip(inputs, weights, biases, strict=True):
        if w is None:
            raise ArgumentError(_NAME, "no weight", "query, key and value are projected",
                                "pass in_proj_weight, or all three separate weights")
        result.append(ops.linear(x, w, b))
    return result


def _heads(projected: list[Tensor], bias_k: Tensor | None, bias_v: Tensor | None, heads: int) -> list[Tensor]:
    """Divide projections (L, N, E) plus one more key and value into heads: (N * heads, L, E / heads)."""
    query, *rest = projected
    _, count, width = query.shape
    pairs = zip(rest, (bias_k, bias_v), strict=True)
    rest = [x if bias is None else ops.cat([x, bias.expand(1, count, width)]) for x, bias in pairs]
    return [x.reshape(x.shape[0], count * heads, width // heads).transpose(0, 1) for x in (query, *rest)]


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float,
            need_weights: bool) -> tuple[Tensor, Tensor | None]:
    """Return the attention of all heads, and on request the weights."""
    if not need_weights:
        return ops.scaled_dot_product_attention(q, k, v, mask, dropout_p), None
    scores = (q * (1 / math.sqrt(q.shape[-1]))).matmul(k.transpose(-2, -1))
    weights = ops.softmax(scores if mask is None else scores + mask, -1)
    weights = ops.dropout(weights, dropout_p, True)
    return weights.matmul(v), weights


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int) -> None:
    fits = query.dim() == key.dim() == value.dim() == 3 and key.shape[:2] == value.shape[:2] and (
        query.shape[1] == key.shape[1])
    if not fits or query.shape[2] != width or width % heads:
        raise AttentionShapeError(
            _NAME, f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}, embed_dim {width} in "
            f"{heads} heads", "query (L, N, E), key (S, N, K) and value (S, N, V) have one batch, and the heads divide "
            "E", "check the layer's sizes")


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """Return the mask as a tensor that is added to scores."""
    if mask.dtype is BOOL:
        return like.new_zeros(tuple(mask.shape)).masked_fill(mask, -math.inf)
    return mask.to(like.dtype)


def _joined(attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, keys: int, heads: int,
            extra: int) -> Tensor | None:
    """Join both masks to one that is added to scores (N * heads, L, S); the last ``extra`` keys are never ignored."""
    total: Tensor | None = None
    if attn_mask is not None:
        total = _wider(_added(attn_mask, q), extra)
        if total.dim() not in (2, 3) or total.shape[-2:] != (q.shape[1], keys) or (
                total.dim() == 3 and total.shape[0] != q.shape[0]):
            raise AttentionShapeError(_NAME, f"attn_mask {list(attn_mask.shape)}",
                                      "a mask is (L, S) or (N * num_heads, L, S)", "check the order of dimensions")
    if padding is not None:
        count = q.shape[0] // heads
        wide = _wider(_added(padding, q), extra)
        if wide.shape != (count, keys):
            raise AttentionShapeError(_NAME, f"key_padding_mask {list(padding.shape)}", "a padding mask is (N, S)",
                                      "pass a value for each key")
        wide = wide.reshape(count, 1, 1, keys).expand(count, heads, 1, keys).reshape(count * heads, 1, keys)
        total = wide if total is None else total + wide
    return total


def _wider(mask: Tensor, extra: int) -> Tensor:
    """Pad the mask with zeros for additional keys."""
    return ops.cat([mask, mask.new_zeros((*mask.shape[:-1], extra))], -1) if extra else mask
