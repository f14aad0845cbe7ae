"""Conversion of padded tensors to nested ones: functions for encoders, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensocket_operators as core
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ShapeError

from .padding import joined
from .structures import Pieces
from .tensors import described, nested


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether the true entries of each row of a mask come before the false ones."""
    return bool((mask.long().diff(dim=1) <= 0).all()) if mask.shape[1] > 1 else True


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Any:
    """Return the entries of a padded tensor for which a mask is true, as a nested tensor of layout strided.

    Args:
        t: Of shape (batch, length, width).
        mask: Of shape (batch, length).
        mask_check: Whether the true entries must come first.

    Raises:
        ShapeError: Shapes do not fit, or true entries do not come first.
    """
    if mask.dtype is not core.bool_:
        raise ShapeError("_nested_tensor_from_mask", f"a mask of dtype {mask.dtype.name}",
                         "Expected mask to be of ScalarType Bool", "convert it to bool")
    if mask.dim() != 2 or t.dim() != 3 or tuple(mask.shape) != tuple(t.shape[:2]):
        raise ShapeError("_nested_tensor_from_mask", f"shapes {list(t.shape)} and {list(mask.shape)}",
                         "Padding mask has to be 2D, the data 3D, and both have one batch size and length",
                         "pass such tensors")
    if mask_check and not _nested_tensor_from_mask_left_aligned(t, mask):
        raise ShapeError("_nested_tensor_from_mask", "a mask with true places behind false ones",
                         "Mask must be left-aligned without gaps", "move the padding to the end")
    counts = mask.sum(1).tolist()
    return joined([row[:n] for row, n in zip(t.unbind(0), counts, strict=True)]) if counts else nested(
        t.reshape(-1).clone(), Pieces([], ndim=t.dim()))


def _nested_from_padded(padded: Tensor, cpu_nested_shape_example: Tensor,
                        fuse_transform_0213: bool = False) -> Any:
    """Remove the padding of the entries of a tensor; return a nested tensor of layout strided.

    Args:
        padded: The padded tensor.
        cpu_nested_shape_example: Shape of each component, one per row.
        fuse_transform_0213: Whether ``padded`` has shape (batch, heads, length, width) and components join the heads,
            shape (length, heads * width).
    """
    rows = [tuple(row) for row in np.asarray(cpu_nested_shape_example.tolist(), np.int64).tolist()]
    if fuse_transform_0213:
        padded = padded.transpose(1, 2).flatten(2)
    return joined(_corners(padded, rows))


def _nested_from_padded_and_nested_example(padded: Tensor, nt_example: Any) -> Any:
    """Remove the padding of the entries of a tensor, by the shapes of the components of a nested one."""
    shapes = [tuple(x.shape) for x in described(nt_example)]
    if padded.dim() == 4 and nt_example.dim() == 3:
        padded = padded.transpose(1, 2).flatten(2)
    return joined(_corners(padded, shapes))


def _corners(padded: Tensor, shapes: list[tuple[int, ...]]) -> list[Any]:
    return [entry[tuple([slice(n) for n in shape])] for entry, shape in zip(padded.unbind(0), shapes, strict=True)]


__all__ = ["_nested_from_padded", "_nested_from_padded_and_nested_example", "_nested_tensor_from_mask",
           "_nested_tensor_from_mask_left_aligned"]
