"""Questions about sizes, strides and dtypes that libraries take from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import tensocket as torch
from tensocket.errors import ArgumentError, DimensionError

ShapeType = torch.Size | list[int] | tuple[int, ...]
StrideType = list[int] | tuple[int, ...]
DeviceLikeType = str | torch.device | int
Number = bool | int | float | complex
NumberType = Number
DimsType = int | list[int] | tuple[int, ...]
TensorLike = torch.Tensor
TensorLikeType = torch.Tensor

#: Dimensions from the innermost to the outermost, of images and of volumes with the channels last.
_CHANNELS_LAST: Final = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor, or of a batch of matrices that are contiguous by columns."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        if size < 0:
            raise ArgumentError("make_contiguous_strides_for", f"the size {size}", "sizes are at least 0",
                                "pass a tensor's shape")
        strides.insert(0, step)
        step *= max(size, 1)
    if not row_major and len(shape) >= 2:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)


def suggest_memory_format(x: torch.Tensor) -> Any:
    """Return the memory format that the strides of a tensor show."""
    order = _CHANNELS_LAST.get(x.ndim)
    if order is None or x.layout is not torch.strided or not x.stride()[1]:
        return torch.contiguous_format
    least = 0
    for d in order:
        # Equal strides of the channels and the batch show nothing: all sizes between them are 1.
        if not x.shape[d] or x.stride()[d] < least or (d == 0 and least == x.stride()[1]):
            return torch.contiguous_format
        least = x.stride()[d] * max(x.shape[d], 1)
    return torch.channels_last if x.ndim == 4 else torch.channels_last_3d


def is_contiguous_or_false(a: torch.Tensor) -> bool:
    """Whether a tensor is contiguous: all sizes are known, so there is always an answer."""
    return a.is_contiguous()


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """Return a dimension counted from the front.

    Args:
        rank: Number of dimensions.
        idx: The dimension; negative ones count from the end.
        wrap_scalar: Whether a tensor without dimensions has one.

    Raises:
        DimensionError: There is no such dimension.
    """
    size = 1 if rank == 0 and wrap_scalar else rank
    if not -size <= idx < size:
        raise DimensionError("canonicalize_dim", f"dimension {idx} of {rank}", f"dimensions are from {-size} to "
                             f"{size - 1}", "pass one of these")
    return idx % size


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """Return a dimension, or a tuple of dimensions, counted from the front."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, index, wrap_scalar) for index in indices)


def is_float_dtype(dtype: Any) -> bool:
    """Whether a dtype has real numbers."""
    return bool(dtype.is_floating_point)


def is_complex_dtype(dtype: Any) -> bool:
    """Whether a dtype has complex numbers."""
    return bool(dtype.is_complex)


def is_boolean_dtype(dtype: Any) -> bool:
    """Whether a dtype has truth values."""
    return dtype is torch.bool


def is_integer_dtype(dtype: Any) -> bool:
    """Whether a dtype has integers; truth values are none."""
    return not (dtype.is_floating_point or dtype.is_complex or is_boolean_dtype(dtype))
