"""Causal masks that attention recognises by their class instead of their elements."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum, auto
from typing import Any

from tensocket.nn.functional import scaled_dot_product_attention
from tensocket_operators import Tensor, empty, ones, tril
from tensocket_plugins.contract.dtypes import bool_
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError


class CausalVariant(IntEnum):
    """The corner of the matrix of scores at which the triangle of a causal mask starts."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A causal mask for ``scaled_dot_product_attention``; ``causal_upper_left`` and ``causal_lower_right`` make it.

    Attributes:
        variant: The corner that the triangle starts from.
        seq_len_q: Rows, one for each query.
        seq_len_kv: Columns, one for each key.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        """Return a tensor that holds no elements.

        Raises:
            ArgumentTypeError: The variant is not a ``CausalVariant``.
        """
        if not isinstance(variant, CausalVariant):
            raise ArgumentTypeError("CausalBias", repr(variant), "the variant is a CausalVariant",
                                    "pass CausalVariant.UPPER_LEFT or LOWER_RIGHT")
        made: CausalBias = cls._make_subclass(empty(0))
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """Store the variant and the lengths; warn if rows of a lower right triangle are empty."""
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
                          stacklevel=3)

    def _materialize(self, device: Any = None) -> Tensor:
        """Return the mask as a matrix of bools on a device, by default the CPU."""
        offset = 0 if self.variant is CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q
        return tril(ones(self.seq_len_q, self.seq_len_kv, device="cpu" if device is None else device, dtype=bool_),
                    offset)

    @staticmethod
    def _dispatch(query: Any, key: Any, value: Any, attn_mask: CausalBias, dropout_p: float = 0.0,
                  is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:
        """Return attention with the mask; the triangle in the upper left corner is that of ``is_causal``.

        Raises:
            ArgumentError: ``is_causal`` is also given.
        """
        if is_causal:
            raise ArgumentError("scaled_dot_product_attention", "a CausalBias and is_causal=True",
                                "there is one mask", "leave one of both out")
        causal = attn_mask.variant is CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv
        mask = None if causal else attn_mask._materialize(query.device)
        return scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, scale=scale,
                                            enable_gqa=enable_gqa)

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (),
                           kwargs: Mapping[str, Any] | None = None) -> Any:
        """Pass the variant to attention; other functions get a tensor without elements."""
        if func is scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, dict(kwargs or {}))

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        """Show the matrix."""
        return repr(self._materialize())


def _sizes(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise ArgumentError(name, f"{len(size)} sizes", "there is one size for queries and one for keys",
                            "pass two numbers")
    return size[0], size[1]


def causal_upper_left(*size: int) -> CausalBias:
    """Return the mask ``tril(ones(size))``, which is that of ``is_causal=True``.

    Args:
        size: Numbers of queries and keys.
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_sizes("causal_upper_left", size))


def causal_lower_right(*size: int) -> CausalBias:
    """Return the mask ``tril(ones(size), size[1] - size[0])``: the last query sees all keys.

    Args:
        size: Numbers of queries and keys.
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_sizes("causal_lower_right", size))


__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
