"""Nested tensors: batches of tensors of different shapes."""

from __future__ import annotations

from typing import Any

from tensocket_operators import Tensor

from . import attention as attention
from . import encoder as encoder
from . import jagged as jagged
from . import jagged_products as jagged_products
from . import shared as shared
from . import strided as strided
from . import strided_products as strided_products
from .construction import as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged
from .padding import padded


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Tensor | None = None) -> Tensor:
    """Pad the components to a dense tensor, each at the start of its dimensions.

    Args:
        input: A nested tensor.
        padding: Value of the padding.
        output_size: Shape of the result, with the size of the batch; that of the largest component if not given.
        out: Tensor for the result.

    Raises:
        ArgumentError: ``input`` is not nested.
        ShapeError: A component does not fit into ``output_size``, or layout strided has gaps.
    """
    result: Tensor = padded(input, padding, output_size)
    return result if out is None else out.resize_(result.shape).copy_(result)


__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
           "to_padded_tensor"]
