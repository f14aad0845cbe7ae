"""Layers that bring values to zero mean and unit variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_core import Tensor, empty


class LayerNorm(Module):
    """Normalises over the last dimensions, then scales and shifts by learned values.

    Args:
        normalized_shape: Sizes of the last dimensions; an int for one.
        eps: Added to the variance.
        elementwise_affine: Whether values are scaled and shifted.
        bias: Whether they are shifted.
        device: Where the parameters live.
        dtype: Their dtype.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            values = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """A tensor of the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The arguments."""
        bias = f", bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}{bias}"
