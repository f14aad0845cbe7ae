"""Multi-head attention as a layer."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentCombinationError, ArgumentError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor, empty

from ..linear import NonDynamicallyQuantizableLinear
from ..module import Module


class MultiheadAttention(Module):
    """Multi-head attention, with projections before and after (Vaswani et al., 2017).

    Args:
        embed_dim: Size of queries and outputs.
        num_heads: Number of heads, which divides ``embed_dim``.
        dropout: Probability with which a weight is dropped while training.
        bias: Whether the projections add biases.
        add_bias_kv: Whether an additional key and value are learned.
        add_zero_attn: Whether a key and a value of zeros are added.
        kdim: Size of keys; ``embed_dim`` if not given.
        vdim: Size of values; ``embed_dim`` if not given.
        batch_first: Whether examples, instead of steps, are the first dimension of inputs and outputs.
        device: Device of the parameters.
        dtype: Their dtype.

    ``in_proj_weight`` is (3 * embed_dim, embed_dim) for query, key and value; if their sizes differ, ``q_proj_weight``,
    ``k_proj_weight`` and ``v_proj_weight`` replace it.

    Raises:
        ArgumentError: The sizes do not fit.
    """

    bias_k: Any
    bias_v: Any
    in_proj_weight: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any
    in_proj_bias: Any

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ArgumentError("MultiheadAttention", f"embed_dim={embed_dim} and num_heads={num_heads}", "embed_dim "
                                "and num_heads must be greater than 0", "pass positive numbers")
        if embed_dim % num_heads:
            raise ArgumentCombinationError("MultiheadAttention", f"embed_dim={embed_dim} in {num_heads} heads",
                                           "embed_dim must be divisible by num_heads",
                                           "pass a number of heads that divides it")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self._add_projections(bias, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            values = Parameter(empty(1, 1, embed_dim, device=device, dtype=dtype)) if add_bias_kv else None
            self.register_parameter(name, values) if add_bias_kv else setattr(self, name, None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _add_projections(self, bias: bool, device: Any, dtype: Any) -> None:
        width = self.embed_dim
        separate = {"q_proj_weight": width, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty(3 * width, width, device=device, dtype=dtype))
        for name, size in separate.items():
            values = None if self._qkv_same_embed_dim else Parameter(empty(width, size, device=device, dtype=dtype))
            self.register_parameter(name, values)
        if not self._qkv_same_embed_dim:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias",
                                Parameter(empty(3 * width, device=device, dtype=dtype)) if bias else None)

    def _reset_parameters(self) -> None:
        """Draw new initial values."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_qkv_same_embed_dim", True)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return outputs, shaped like queries, and weights (N, L, S), or (N, heads, L, S), or None.

        Args:
            query: (L, N, embed_dim), (N, L, embed_dim) with ``batch_first``, or (L, embed_dim); nested tensors
                (N, ragged, embed_dim) with ``batch_first``.
            key: (S, N, kdim), likewise.
            value: (S, N, vdim), likewise.
            key_padding_mask: (N, S): keys to ignore (bool), or numbers to add to their scores.
            need_weights: Whether weights are returned.
            attn_mask: (L, S) or (N * heads, L, S): keys that a query ignores (bool), or numbers to add to scores.
            average_attn_weights: Whether weights are averaged over heads.
            is_causal: Whether ``attn_mask`` is the causal mask.

        Raises:
            ShapeError: The shapes do not fit.
            ArgumentError: ``is_causal`` is given without a mask.
        """
        if query.is_nested:
            nested: Any = query
            result: tuple[Tensor, Tensor | None] = nested._multi_head_attention(
                self, key, value, (key_padding_mask, attn_mask), need_weights, average_attn_weights)
            return result
        batched = self.batch_first and query.dim() == 3
        if batched:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return (output.transpose(0, 1) if batched else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Merge both masks; return the result and its kind: 1 for a padding mask (N, S), 2 for both masks together or
        the other one alone, (N, heads, L, S); None without masks.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        count, size = query.shape[0], tuple(attn_mask.shape[-2:])
        wide = attn_mask.reshape(count, -1, *size) if attn_mask.dim() == 3 else attn_mask
        wide = wide.expand(count, self.num_heads, *size)
        if key_padding_mask is not None:
            wide = wide + key_padding_mask.reshape(count, 1, 1, size[1])
        return wide, 2


__all__ = ["MultiheadAttention"]
