"""Attention of encoders under PyTorch's names of its fast paths, for dense and nested tensors."""

from __future__ import annotations

import math
from typing import Any

import tensocket_operators as core
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator

from ..nn import functional as F
from .padding import joined, padded
from .rules import rule
from .tensors import Nested, described


def _lengths(tensor: Any) -> list[int]:
    return [int(x.shape[0]) for x in described(tensor)]


def _dense(tensor: Any) -> Any:
    """Return the components padded with zeros, for any strides."""
    return padded(tensor.contiguous(), 0.0)


def _padding_mask(tensor: Any, size: int) -> Any:
    """Return the mask of padding: true outside of the components."""
    lengths = core.tensor(_lengths(tensor), device=tensor.device)
    return core.arange(size, device=tensor.device).unsqueeze(0) >= lengths.unsqueeze(1)


@rule(Nested, "_multi_head_attention")
def nested_attention(query: Any, module: Any, key: Any, value: Any, masks: tuple[Any, Any], need_weights: bool,
                     average_attn_weights: bool) -> tuple[Any, Any]:
    """Compute ``nn.MultiheadAttention`` of nested tensors (batch, ragged, width); weights are padded.

    Raises:
        ArgumentError: A tensor is dense, a mask is given, or batches do not come first.
    """
    if not all(isinstance(x, Nested) for x in (query, key, value)):
        raise ArgumentError("MultiheadAttention", "nested and dense tensors",
                            "query, key and value of attention are all nested, or none is", "make all of them nested")
    if any(mask is not None for mask in masks):
        raise ArgumentError("MultiheadAttention", "a mask", "attention of nested tensors takes no masks",
                            "nested tensors have no padding: leave the mask out")
    if not module.batch_first or query.dim() != 3:
        raise ArgumentError("MultiheadAttention", "a nested tensor with batch_first=False",
                            "the batch of a nested tensor comes first", "make the layer with batch_first=True")
    keys = _dense(key)
    made, weights = F.multi_head_attention_forward(
        _dense(query).transpose(0, 1), keys.transpose(0, 1), _dense(value).transpose(0, 1), module.embed_dim,
        module.num_heads, module.in_proj_weight, module.in_proj_bias, module.bias_k, module.bias_v,
        module.add_zero_attn, module.dropout,
        module.out_proj.weight, module.out_proj.bias, module.training, _padding_mask(key, keys.shape[1]), need_weights,
        None, not module._qkv_same_embed_dim, module.q_proj_weight, module.k_proj_weight, module.v_proj_weight,
        average_attn_weights=average_attn_weights)
    return _cut(made.transpose(0, 1), query), weights


def _cut(dense: Any, example: Any) -> Any:
    """Return the rows of a padded tensor as the components of a nested one."""
    return joined([row[:n] for row, n in zip(dense.unbind(0), _lengths(example), strict=True)], example)


def _native_multi_head_attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Tensor | None]:
    """Return multi-head attention with projections, as ``nn.MultiheadAttention`` computes it, batches first.

    Args:
        query: (N, L, E), dense or nested.
        key: (N, S, E), likewise.
        value: (N, S, E), likewise.
        embed_dim: E.
        num_head: Number of heads, which divides E.
        qkv_weight: (3 E, E).
        qkv_bias: (3 E).
        proj_weight: (E, E).
        proj_bias: (E).
        mask: Positions to ignore (bool), or numbers to add to scores.
        need_weights: Whether weights are returned.
        average_attn_weights: Whether they are averaged over heads.
        mask_type: 0 for a mask (L, S), 1 for padding of keys (N, S), 2 for both together (N, heads, L, S).

    Returns:
        The result, and weights or None.

    Raises:
        ArgumentError: The kind of the mask is not given, or nested tensors have a mask.
    """
    nested = isinstance(query, Nested)
    if mask is not None and mask_type not in (0, 1, 2):
        raise ArgumentError("_native_multi_head_attention", f"mask_type={mask_type}",
                            "mask_type shouldn't be None when mask is not None", "pass 0, 1 or 2")
    if nested and mask is not None:
        raise ArgumentError("_native_multi_head_attention", "nested tensors and a mask",
                            "NestedTensor with mask is not supported yet", "leave the mask out")
    padding = mask if mask_type == 1 else None
    scores = None if mask is None or mask_type == 1 else mask.flatten(0, 1) if mask.dim() == 4 else mask
    queries, keys, values = (_dense(x) if nested else x for x in (query, key, value))
    if nested:
        padding = _padding_mask(key, keys.shape[1])
    made, weights = F.multi_head_attention_forward(
        queries.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1), embed_dim, num_head, qkv_weight,
        qkv_bias, None, None, False, 0.0,
        proj_weight, proj_bias, False, padding, need_weights, scores, average_attn_weights=average_attn_weights)
    result = made.transpose(0, 1)
    return (_cut(result, query) if nested else result), weights


def _transform_bias_rescale_qkv(qkv: Tensor, qkv_bias: Tensor, num_heads: int) -> tuple[Any, Any, Any]:
    """Add the bias to projections (N, L, 3 E) and split them into heads (N, heads, L, E / heads) of scaled queries,
    keys
    and values.

    Raises:
        UnsupportedOperator: The projections are nested.
    """
    if isinstance(qkv, Nested):
        raise UnsupportedOperator("_transform_bias_rescale_qkv", "a nested tensor",
                                  "heads of nested projections are not padded", "pass to_padded_tensor() of it")
    width = qkv.shape[-1] // (3 * num_heads)
    heads = (qkv + qkv_bias).unflatten(-1, (3, num_heads, width)).permute(2, 0, 3, 1, 4)
    query, key, value = heads.unbind(0)
    return query / math.sqrt(width), key, value


__all__ = ["_native_multi_head_attention", "_transform_bias_rescale_qkv"]
