"""Layers that drop random values while training."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor


class _DropoutNd(Module):
    """Base class: drop with probability ``p`` while training; evaluation returns the input unchanged."""

    _drop: ClassVar[Callable[..., Tensor]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError(type(self).__name__, f"p={p!r}", "p is a probability", "pass a number from 0 to 1")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape; the values of ``input`` in evaluation."""
        return self._drop(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """A layer that sets elements to zero with probability ``p`` while training and scales others by ``1 / (1 - p)``.

    Raises:
        ArgumentError: ``p`` is not a probability.
    """

    _drop = staticmethod(F.dropout)


class Dropout1d(_DropoutNd):
    """``Dropout`` of whole channels of signals (N, C, L) or (C, L)."""

    _drop = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """``Dropout`` of whole channels of images (N, C, H, W) or (C, H, W)."""

    _drop = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """``Dropout`` of whole channels of volumes (N, C, D, H, W) or (C, D, H, W)."""

    _drop = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """A layer that sets elements to the saturation value of ``SELU`` while training, and preserves mean and variance
    (Klambauer et al., 2017).
    """

    _drop = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels."""

    _drop = staticmethod(F.feature_alpha_dropout)


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
