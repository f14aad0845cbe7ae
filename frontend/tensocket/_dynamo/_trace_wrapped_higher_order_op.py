"""Modes under which functions of one example are mapped over batches."""

from __future__ import annotations

from typing import Any

from tensocket.overrides import TorchFunctionMode
from tensocket.utils._pytree import tree_leaves
from tensocket_operators import Tensor, bool_, int64, tensor
from tensocket_operators.indexing.advanced_indexing import index_tensors


class TransformGetItemToIndex(TorchFunctionMode):
    """A mode in which integers and integer tensors without dimensions index as tensors do: ``x[i]`` is a copy.

    Elsewhere such an index is a number, and ``x[i]`` is a view. Subscripts with slices, None or masks do not change.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, or gather the elements at index tensors."""
        if func is Tensor.__getitem__:
            input, index = args
            places = tree_leaves(index)
            if places and all(map(_is_place, places)):
                return index_tensors(input, [x if isinstance(x, Tensor) else tensor(x, dtype=int64, device=input.device)
                                             for x in places])
        return func(*args, **(kwargs or {}))


def _is_place(index: Any) -> bool:
    return type(index) is int or (isinstance(index, Tensor) and index.dtype is not bool_)


__all__ = ["TransformGetItemToIndex"]
