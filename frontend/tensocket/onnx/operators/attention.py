"""Attention, and embeddings of positions."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .table import operator, results
from .values import DTYPES


def _heads(x: Any, count: int | None) -> Any:
    """Return [B, T, heads * size] as [B, heads, T, size]; four dimensions stay."""
    return x if x.dim() == 4 else x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _allowed(queries: int, keys: int, offset: Any, left: int, right: int, device: Any) -> Any:
    """Return which keys a query may see: at most ``left`` before its own place and ``right`` after, -1 for all."""
    ahead = torch.arange(keys, device=device) - torch.arange(queries, device=device).reshape(-1, 1) - offset
    seen = torch.ones_like(ahead, dtype=torch.bool)
    if left >= 0:
        seen = seen & (ahead >= -left)
    return seen & (ahead <= right) if right >= 0 else seen


def _added(mask: Any, like: Any) -> Any:
    """Return a mask as numbers to add: 0 where True, minus infinity where False."""
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
        return mask
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    return torch.where(mask, zero, zero - float("inf"))


@operator("Attention", counts=True)
def attention(q: Any, k: Any, v: Any, attn_mask: Any = None, past_key: Any = None, past_value: Any = None,
              nonpad_kv_seqlen: Any = None, is_causal: int = 0, kv_num_heads: int | None = None,
              q_num_heads: int | None = None, qk_matmul_output_mode: int = 0, scale: float | None = None,
              softcap: float = 0.0, softmax_precision: int | None = None, left_window_size: int = -1,
              right_window_size: int = -1, outputs: int = 1) -> Any:
    """Return softmax(scale q k^T + mask) v for each head, the keys and values so far, and the scores."""
    flat = q.dim() == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    k = k if past_key is None else torch.cat([past_key, k], 2)
    v = v if past_value is None else torch.cat([past_value, v], 2)
    present = (k, v)
    root = (q.shape[3] ** -0.5 if scale is None else scale) ** 0.5
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    bias = _bias(q, k, attn_mask, past_key, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size)
    scores = (q * root) @ (k * root).transpose(2, 3)
    shown = scores
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    if qk_matmul_output_mode == 1:
        shown = scores
    scores = scores if bias is None else scores + bias
    if qk_matmul_output_mode == 2:
        shown = scores
    wide = scores if softmax_precision is None else scores.to(DTYPES[softmax_precision])
    shares = torch.softmax(wide, -1)
    if bias is not None:  # a query that sees no key gets zeros
        blind = (bias == -float("inf")).all(-1, keepdim=True)
        shares = torch.where(blind, torch.zeros_like(shares), shares)
    shares = shares.to(q.dtype)
    y = shares @ v
    y = y.transpose(1, 2).flatten(2) if flat else y
    return results([y, *present, (shares if qk_matmul_output_mode == 3 else shown).to(q.dtype)], outputs)


def _bias(q: Any, k: Any, mask: Any, past_key: Any, lengths: Any, causal: int, left: int, right: int) -> Any:
    """Return the numbers to add to scores; None if all keys are seen."""
    queries, keys = q.shape[2], k.shape[2]
    bias = mask
    if mask is not None:
        if mask.shape[-1] < keys:
            fill = False if mask.dtype is torch.bool else -float("inf")
            rest = torch.full([*mask.shape[:-1], keys - mask.shape[-1]], fill, dtype=mask.dtype, device=mask.device)
            mask = torch.cat([mask, rest], -1)
        bias = _added(mask, q)
    offset: Any = 0 if past_key is None else past_key.shape[2]
    if past_key is None and lengths is not None:
        offset = lengths.to(torch.int64).reshape(-1, 1, 1, 1) - queries
    limits = [(-1, 0)] if causal else []
    limits += [(left, right)] if left >= 0 or right >= 0 else []
    for before, after in limits:
        seen = _added(_allowed(queries, keys, offset, before, after, q.device), q)
        bias = seen if bias is None else bias + seen
    if lengths is not None:
        real = torch.arange(keys, device=q.device) < lengths.to(torch.int64).reshape(-1, 1, 1, 1)
        bias = _added(real, q) if bias is None else bias + _added(real, q)
    return bias


@operator("RotaryEmbedding")
def rotary_embedding(x: Any, cos_cache: Any, sin_cache: Any, position_ids: Any = None, interleaved: int = 0,
                     num_heads: int | None = None, rotary_embedding_dim: int = 0) -> Any:
    """Return pairs of elements of each head, rotated by angles of their position (Su et al., 2021)."""
    flat = x.dim() == 3
    y = x.reshape(x.shape[0], x.shape[1], num_heads, -1) if flat else x.transpose(1, 2)
    size = rotary_embedding_dim or y.shape[3]
    turning, rest = y[..., :size], y[..., size:]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids.to(torch.int64)], sin_cache[position_ids.to(torch.int64)]
    cos, sin = (c[..., :size // 2].unsqueeze(2) for c in (cos_cache, sin_cache))
    if interleaved:
        first, second = turning[..., 0::2], turning[..., 1::2]
    else:
        first, second = turning.split(size // 2, -1)
    turned = (cos * first - sin * second, sin * first + cos * second)
    made = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    made = torch.cat([made, rest], -1)
    return made.reshape(x.shape) if flat else made.transpose(1, 2)


@operator("CausalConvWithState", counts=True)
def causal_conv(x: Any, w: Any, bias: Any = None, past_state: Any = None, activation: Any = "none",
                outputs: int = 1) -> Any:
    """Return a convolution of each channel that sees only earlier elements, and the elements for the next call."""
    before = w.shape[2] - 1
    past = torch.zeros(*x.shape[:2], before, dtype=x.dtype, device=x.device) if past_state is None else past_state
    padded = torch.cat([past, x], 2)
    y = F.conv1d(padded, w, bias, groups=x.shape[1])
    word = activation.decode() if isinstance(activation, bytes) else activation
    y = F.silu(y.to(torch.float32)).to(x.dtype) if word in ("silu", "swish") else y
    return results([y, padded.narrow(2, padded.shape[2] - before, before)], outputs)


@operator("LinearAttention", counts=True)
def linear_attention(q: Any, k: Any, v: Any, past_state: Any = None, decay: Any = None, beta: Any = None,
                     chunk_size: int = 0, kv_num_heads: int = 1, q_num_heads: int = 1, scale: float = 0.0,
                     update_rule: Any = "gated_delta", outputs: int = 1) -> Any:
    """Return attention through a state that each step decays, corrects and reads, and the last state.

    Source: Yang et al., Gated Delta Networks, 2024.
    """
    rule = update_rule.decode() if isinstance(update_rule, bytes) else update_rule
    batch, steps, _ = q.shape
    heads = [_heads(x, n).to(torch.float32) for x, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))]
    size = q.shape[2] // q_num_heads
    state = torch.zeros(batch, kv_num_heads, size, heads[2].shape[3], device=q.device) if past_state is None else (
        past_state.to(torch.float32))
    fade: Any = None if decay is None else decay.reshape(batch, steps, kv_num_heads, -1).transpose(1, 2)
    rate: Any = None if beta is None else beta.reshape(batch, steps, -1, 1).transpose(1, 2).to(torch.float32)
    factor = scale or size ** -0.5
    found = []
    for t in range(steps):
        query, key, value = (x[:, :, t] for x in heads)
        if "gated" in rule:
            state = state * torch.exp(fade[:, :, t].to(torch.float32)).unsqueeze(-1)
        if "delta" in rule:
            value = rate[:, :, t] * (value - (key.unsqueeze(-2) @ state).squeeze(-2))
        state = state + key.unsqueeze(-1) * value.unsqueeze(-2)
        read = state.repeat_interleave(q_num_heads // kv_num_heads, 1)
        found.append(factor * (query.unsqueeze(-2) @ read).squeeze(-2))
    y = torch.stack(found, 2).transpose(1, 2).flatten(2).to(q.dtype)
    return results([y, state.to(q.dtype if past_state is None else past_state.dtype)], outputs)
