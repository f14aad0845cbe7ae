"""Layers that change the size of images by interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .module import Module


class Upsample(Module):
    """Interpolation of signals, images or volumes to another size.

    Args:
        size: The new size of space; one number for all dimensions, or one for each.
        scale_factor: The new size as a multiple, instead of ``size``.
        mode: ``nearest``, ``linear``, ``bilinear``, ``bicubic``, ``trilinear``, ``area`` or ``nearest-exact``.
        align_corners: Whether the centres of the corner elements, instead of their outer edges, keep their positions.
        recompute_scale_factor: Whether the factor is recomputed from the rounded size.
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: Any = None
        if isinstance(scale_factor, Sequence):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        elif scale_factor:
            self.scale_factor = float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, *space) to (N, C, *new space)."""
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             recompute_scale_factor=self.recompute_scale_factor)

    def extra_repr(self) -> str:
        """Return the factor or the size, and the mode."""
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """``Upsample`` by repeating the nearest element."""

    def __init__(self, size: int | Sequence[int] | None = None,
                 scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear ``Upsample`` that keeps the positions of the corners."""

    def __init__(self, size: int | Sequence[int] | None = None,
                 scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
