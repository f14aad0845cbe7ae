"""Attention for nested tensors."""

from __future__ import annotations

from typing import Any

from tensocket_operators import functions
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from .padding import joined
from .rules import rule
from .structures import Ragged
from .tensors import Nested, components, nested, plain


@rule(Nested, "scaled_dot_product_attention")
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, *, scale: float | None = None,
                                 enable_gqa: bool = False) -> Any:
    """Return the attention of each component to its own keys.

    Raises:
        ArgumentError: A mask is given, or, for layout strided, ``is_causal`` is set.
        ShapeError: Batches or numbers of dimensions differ, or a tensor is dense.
    """
    given = (query, key, value)
    if not all(isinstance(x, Nested) for x in given):
        raise ArgumentError("scaled_dot_product_attention", "nested and dense tensors",
                            "query, key and value are all nested", "make all of them nested")
    if attn_mask is not None:
        raise ArgumentError("scaled_dot_product_attention", "attn_mask", "not supported when an explicit attn_mask is "
                            "set for nested tensors", "leave the mask out")
    ragged = isinstance(query._structure, Ragged)
    if is_causal and not ragged:
        raise ArgumentError("scaled_dot_product_attention", "is_causal=True", "not supported when is_causal=True for "
                            "nested tensors of layout strided", "use layout jagged")
    if len({len(x) for x in given}) > 1 or len({x.ndim for x in given}) > 1 or query.ndim not in (3, 4):
        raise ShapeError("scaled_dot_product_attention", "nested tensors of other batches or dimensions",
                         "query, key and value have the same batch size and 3 or 4 dimensions", "pass such tensors")
    options: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    if ragged and query.ndim == 4 and all(x._structure.lies_like(query._structure) and x._structure.axis == 1
                                          for x in given):
        dense = functions.scaled_dot_product_attention(*[plain(x) for x in given], **options)
        return nested(dense, query._structure)
    parts = [functions.scaled_dot_product_attention(*[x.unsqueeze(0) for x in each], **options).squeeze(0)
             for each in zip(*map(components, given), strict=True)]
    return joined(parts, query)
