"""Attention whose scores a function changes, and whose mask is a function of positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedOperator
from tensocket_operators import Tensor

from .block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE,
)
from .block_mask import (
    BlockMask,
    and_masks,
    chosen_blocks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_positions,
)

#: ``score_mod(score, batch, head, query, key)`` returns another score; all five are tensors without dimensions.
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Any]


class AuxRequest(NamedTuple):
    """Requests for results beside that of ``flex_attention``: logarithms of the sums of exponentials, or maxima."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The results that ``AuxRequest`` asked for, of shape ``(B, H, L)``; None for the rest."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Sizes of PyTorch's kernels; accepted and not used."""

    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ArgumentError("flex_attention", f"{name} of {x.dim()} dimensions", "Expected query, key, and value "
                                "to be 4D tensors", "add dimensions for batches and heads")
    if not query.dtype == key.dtype == value.dtype:
        raise ArgumentTypeError("flex_attention", f"dtypes {query.dtype}, {key.dtype} and {value.dtype}", "Expected "
                                "query, key, and value to have the same dtype", "convert them")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError("flex_attention", f"query of {query.shape[-1]} and key of {key.shape[-1]} features",
                         "Expect query and key to have the same embedding dimension", "project them to one size")
    if key.shape[:-1] != value.shape[:-1]:
        raise ShapeError("flex_attention", f"key {list(key.shape)} and value {list(value.shape)}", "there is a value "
                         "for each key", "pass as many of both")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ShapeError("flex_attention", f"{query.shape[1]} heads of queries and {key.shape[1]} of keys", "Expect "
                         "query and key/value to have the same number of heads", "pass enable_gqa=True")
    if query.shape[1] % key.shape[1]:
        raise ShapeError("flex_attention", f"{query.shape[1]} heads of queries and {key.shape[1]} of keys", "Expect "
                         "number of query heads to be a multiple of kv heads", "repeat the keys")
    if block_mask is not None and (query.shape[-2] > block_mask.shape[-2] or key.shape[-2] > block_mask.shape[-1]):
        raise ShapeError("flex_attention", f"{query.shape[-2]} queries and {key.shape[-2]} keys for a mask of "
                         f"{block_mask.shape[-2]} and {block_mask.shape[-1]}", "block_mask was created for at least as "
                         "many", "make a mask of this size")


def _visible(mask: BlockMask, positions: list[Tensor]) -> Tensor:
    """Return which pairs are seen: those of ``mask_mod`` in blocks that are listed, and all of full blocks."""
    rows, columns = (positions[k] // mask.BLOCK_SIZE[k - 2] for k in (2, 3))
    batch, head = (positions[k] % mask.kv_indices.shape[k] for k in (0, 1))
    places = (batch[:, None, None, None], head[:, None, None], rows[:, None], columns)
    listed = chosen_blocks(mask.kv_num_blocks, mask.kv_indices, mask.kv_indices.shape[-1])
    seen = over_positions(mask.mask_mod)(*positions) & listed[places].to(torch.bool)
    if mask.full_kv_num_blocks is None or mask.full_kv_indices is None:
        return seen  # type: ignore[no-any-return]
    full = chosen_blocks(mask.full_kv_num_blocks, mask.full_kv_indices, mask.full_kv_indices.shape[-1])
    return seen | full[places].to(torch.bool)  # type: ignore[no-any-return]


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None
                   ) -> Any:
    """Return ``softmax(score_mod(scale Q K^T)) V``, over the keys that each query sees.

    A query that sees no key gets zeros. Scores are computed in float32, or in float64 if the operands are.

    Args:
        query: Shape ``(B, H, L, E)``.
        key: Shape ``(B, G, S, E)``; G is H, or with ``enable_gqa`` a divisor of it.
        value: Shape ``(B, G, S, V)``.
        score_mod: Changes each score, from its batch, head, query and key.
        block_mask: Which keys each query sees; all if not given.
        scale: The factor of the scores; ``1 / sqrt(E)`` by default.
        enable_gqa: Whether several heads of queries share a head of keys.
        return_lse: Deprecated form of ``return_aux=AuxRequest(lse=True)``.
        kernel_options: Accepted as in PyTorch.
        return_aux: Requests for more results.

    Returns:
        Shape ``(B, H, L, V)``; with ``return_aux``, that and an ``AuxOutput``; with ``return_lse``, that and a tensor.

    Raises:
        ArgumentError, ArgumentTypeError, ShapeError: The operands don't fit each other or the mask.
        UnsupportedOperator: ``return_lse`` and ``return_aux`` are both given.

    >>> import tensocket as torch
    >>> q = torch.ones(1, 1, 2, 4)
    >>> v = torch.tensor([[[[1.0], [3.0]]]])
    >>> flex_attention(q, q, v, lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf"))).flatten().tolist()
    [1.0, 2.0]
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise UnsupportedOperator("flex_attention", "return_lse and return_aux", "one of them says what is returned",
                                  "pass return_aux=AuxRequest(lse=True)")
    batch, heads, queries, features = query.shape
    groups = heads // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    factor = 1 / math.sqrt(features) if scale is None else scale
    precise = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query @ key.transpose(-2, -1)).to(precise) * factor
    positions = [torch.arange(n, device=query.device) for n in (batch, heads, queries, key.shape[-2])]
    if score_mod is not None:
        scores = over_positions(score_mod, leading=(0,))(scores, *positions).to(precise)
    if block_mask is not None:
        scores = torch.where(_visible(block_mask, positions), scores, -math.inf)
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(blind, 0), -1).masked_fill(blind, 0)
    result = weights.to(query.dtype) @ value
    if return_aux is not None:
        return result, AuxOutput(torch.logsumexp(scores, -1) if return_aux.lse else None,
                                 scores.amax(-1) if return_aux.max_scores else None)
    return (result, torch.logsumexp(scores, -1)) if return_lse else result


__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]
