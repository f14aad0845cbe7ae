"""The class of layout jagged, and related functions that programs use."""

from __future__ import annotations

from typing import Any

from tensocket_operators import Tensor

from ..construction import nested_tensor_from_jagged, ragged_from_list
from ..sizes import NestedInt, size_of
from ..tensors import NestedTensor


def buffer_from_jagged(jagged: NestedTensor) -> Any:
    """Return the dense tensor that concatenates the components."""
    return jagged.values()


def get_tensor_symint(tensor: Tensor, *, coeff: int = 1) -> NestedInt:
    """Return the symbol of the ragged size that offsets or lengths describe."""
    return size_of(tensor) * coeff


def jagged_from_list(tensors: list[Tensor], offsets: Tensor | None, dtype: Any = None,
                     device: Any = None) -> tuple[Any, Tensor]:
    """Return a nested tensor of components, and its offsets: the given ones if any, so that structures are shared."""
    parts = [x.to(dtype=dtype or x.dtype, device=device if device is not None else x.device) for x in tensors]
    made = ragged_from_list("jagged_from_list", parts, offsets)
    return made, made.offsets()


def nested_view_from_values_offsets(values: Tensor, offsets: Tensor, ragged_idx: int = 1,
                                    min_seqlen: int | None = None, max_seqlen: int | None = None) -> Any:
    """Return a view of a dense tensor that concatenates the components."""
    return nested_tensor_from_jagged(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(values: Tensor, offsets: Tensor, lengths: Tensor, ragged_idx: int = 1,
                                            min_seqlen: int | None = None, max_seqlen: int | None = None) -> Any:
    """Return such a view with gaps between the components."""
    return nested_tensor_from_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


class ViewNestedFromBuffer:
    """The former API for views: ``apply(values, offsets, metadata)``."""

    @staticmethod
    def apply(values: Tensor, offsets: Tensor, metadata: dict[str, int] | None = None) -> Any:
        """Return a view of a dense tensor that concatenates the components."""
        known = metadata or {}
        return nested_tensor_from_jagged(values, offsets, None, 1, known.get("min_seqlen"), known.get("max_seqlen"))


__all__ = ["NestedTensor", "ViewNestedFromBuffer", "buffer_from_jagged", "get_tensor_symint", "jagged_from_list",
           "nested_view_from_values_offsets", "nested_view_from_values_offsets_lengths"]
