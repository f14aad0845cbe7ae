"""Layers that pad their input, (C, *space) or (N, C, *space)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tensocket.errors import ShapeError
from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .module import Module
from .utils import _ntuple

Numbers = int | Sequence[int]


class _PadNd(Module):
    """Padding by one number for all sides, or by one before and one after each dimension, the last dimension first."""

    _dims: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: Numbers) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Padding with one value."""

    def __init__(self, padding: Numbers, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the sizes and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Padding with a given value for signals (C, W); ``padding`` is a number or (left, right)."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Padding with a given value for images (C, H, W); ``padding`` is a number or (left, right, top, bottom)."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Padding with a given value for volumes; ``padding`` is a number or six, from left to back."""

    _dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Numbers) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """``ConstantPad1d`` with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """``ConstantPad2d`` with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """``ConstantPad3d`` with zeros."""


class _ReflectionPadNd(_PadNd):
    """Padding that mirrors the input without its border."""

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Padding of signals (C, W) by their mirror image; ``padding`` is a number or (left, right)."""

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Padding of images (C, H, W) by their mirror image; ``padding`` is a number or (left, right, top, bottom)."""

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Padding of volumes by their mirror image; ``padding`` is a number or six, from left to back."""

    _dims = 3


class _ReplicationPadNd(_PadNd):
    """Padding that repeats the input's border."""

    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Padding of signals (C, W) by their ends; ``padding`` is a number or (left, right)."""

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Padding of images (C, H, W) by their border; ``padding`` is a number or (left, right, top, bottom)."""

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Padding of volumes by their border; ``padding`` is a number or six, from left to back."""

    _dims = 3


class _CircularPadNd(_PadNd):
    """Padding with the opposite side of the input."""

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input.

        Raises:
            ShapeError: The input has too few or too many dimensions.
        """
        self._check_input_dim(input)
        return super().forward(input)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}",
                             f"expected {self._dims + 1}D or {self._dims + 2}D input", "pass (N, C, ...) or (C, ...)")


class CircularPad1d(_CircularPadNd):
    """Padding of signals (C, W) as if they were periodic; ``padding`` is a number or (left, right)."""

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Padding of images (C, H, W) as if they were periodic; ``padding`` is a number or (left, right, top, bottom)."""

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Padding of volumes as if they were periodic; ``padding`` is a number or six, from left to back."""

    _dims = 3


__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]
