"""Conversion of images to columns of their windows, and back."""

from __future__ import annotations

from collections.abc import Sequence

from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .module import Module

Numbers = int | Sequence[int]


class Fold(Module):
    """A layer that adds up columns (N, C * kernel, windows) to images (N, C, *output_size).

    Args:
        output_size: Height and width of an image.
        kernel_size: Size of a window; one number for both dimensions, or one for each.
        dilation: Steps between elements of a window.
        padding: Zeros on both sides.
        stride: Steps between windows.
    """

    def __init__(self, output_size: Numbers, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0,
                 stride: Numbers = 1) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C * kernel, windows) to (N, C, *output_size); or both without N."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
                f"padding={self.padding}, stride={self.stride}")


class Unfold(Module):
    """A layer that returns the windows of images as columns; arguments as for ``Fold``."""

    def __init__(self, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0, stride: Numbers = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C * kernel, windows); or both without N."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
                f"stride={self.stride}")


__all__ = ["Fold", "Unfold"]
