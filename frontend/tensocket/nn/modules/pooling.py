"""Pooling: reduction of every window of (N, C, *space) or (C, *space) to its largest element or a mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .module import Module
from .utils import _ntuple

Numbers = int | Sequence[int]
Ratios = float | Sequence[float]


class _Pooling(Module):
    """Pooling by a function of ``nn.functional`` for a number of dimensions of space."""

    _pool: ClassVar[Callable[..., Any]]
    _dims: ClassVar[int]


class _MaxPoolNd(_Pooling):
    """The largest element of every window."""

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                 dilation: Numbers = 1, return_indices: bool = False, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Map (N, C, *space) to (N, C, *windows), with positions on request."""
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                          self.return_indices)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPoolNd):
    """The largest element of every window of a signal (N, C, L).

    Args:
        kernel_size: Size of a window; one number for all dimensions, or one for each.
        stride: Steps between windows; the kernel's size if not given.
        padding: Elements of -inf on both sides.
        dilation: Steps between elements of a window.
        return_indices: Whether positions are also returned, for ``MaxUnpool1d``.
        ceil_mode: Whether windows may extend beyond the end.
    """

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of every window of an image (N, C, H, W); arguments as for ``MaxPool1d``."""

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of every window of a volume (N, C, D, H, W); arguments as for ``MaxPool1d``."""

    _pool = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pooling):
    """Elements at the positions from which pooling took them, and zeros elsewhere."""

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0) -> None:
        super().__init__()
        each = _ntuple(self._dims)
        self.kernel_size = each(kernel_size)
        self.stride = each(kernel_size if stride is None else stride)
        self.padding = each(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Map (N, C, *windows) with positions to (N, C, *space), of the given ``output_size`` if several fit."""
        result: Tensor = self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return result

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """A partial inverse of ``MaxPool1d`` by its positions; sizes are those of the pooling."""

    _dims = 1
    _pool = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """A partial inverse of ``MaxPool2d`` by its positions; sizes are those of the pooling."""

    _dims = 2
    _pool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """A partial inverse of ``MaxPool3d`` by its positions; sizes are those of the pooling."""

    _dims = 3
    _pool = staticmethod(F.max_unpool3d)


class _AvgPoolNd(_Pooling):
    """The mean of every window."""

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of every window of a signal (N, C, L).

    Args:
        kernel_size: Size of a window; one number for all dimensions, or one for each.
        stride: Steps between windows; the kernel's size if not given.
        padding: Zeros on both sides.
        ceil_mode: Whether windows may extend beyond the end.
        count_include_pad: Whether these zeros count.
    """

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        super().__init__()
        each = _ntuple(1)
        self.kernel_size = each(kernel_size)
        self.stride = each(kernel_size if stride is None else stride)
        self.padding = each(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, L) to (N, C, windows)."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolDivided(_AvgPoolNd):
    """Means of windows of more than one dimension, with an optional divisor."""

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, *space) to (N, C, *windows)."""
        result: Tensor = self._pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                                    self.count_include_pad, self.divisor_override)
        return result


class AvgPool2d(_AvgPoolDivided):
    """The mean of every window of an image (N, C, H, W), or its sum divided by ``divisor_override``.

    Arguments as for ``AvgPool1d``.
    """

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolDivided):
    """The mean of every window of a volume (N, C, D, H, W), or its sum divided by ``divisor_override``.

    Arguments as for ``AvgPool1d``.
    """

    _pool = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pooling):
    """The p-norm of every window."""

    def __init__(self, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None,
                 ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, *space) to (N, C, *windows)."""
        result: Tensor = self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return result

    def extra_repr(self) -> str:
        """Return the norm and the sizes."""
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")


class LPPool1d(_LPPoolNd):
    """``(sum of x ** norm_type) ** (1 / norm_type)`` of every window of a signal (N, C, L)."""

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """``(sum of x ** norm_type) ** (1 / norm_type)`` of every window of an image (N, C, H, W)."""

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """``(sum of x ** norm_type) ** (1 / norm_type)`` of every window of a volume (N, C, D, H, W)."""

    _pool = staticmethod(F.lp_pool3d)


class _FractionalMaxPoolNd(_Pooling):
    """The largest elements of windows at random positions (Graham, 2014)."""

    def __init__(self, kernel_size: Numbers, output_size: Numbers | None = None, output_ratio: Ratios | None = None,
                 return_indices: bool = False, _random_samples: Tensor | None = None) -> None:
        super().__init__()
        name, each = type(self).__name__, _ntuple(self._dims)
        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else each(output_size)
        self.output_ratio = None if output_ratio is None else each(output_ratio)
        if self.output_size is None and self.output_ratio is None:
            raise ArgumentError(name, "neither output_size nor output_ratio", f"{name} requires specifying either an "
                                "output size, or a pooling ratio", "pass one of the two")
        if self.output_size is not None and self.output_ratio is not None:
            raise ArgumentError(name, f"output_size={output_size} and output_ratio={output_ratio}", "only one of "
                                "output_size and output_ratio may be specified", "leave one out")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ArgumentError(name, f"output_ratio={self.output_ratio}", "output_ratio must be between 0 and 1",
                                "pass for example 0.5")

    def forward(self, input: Tensor) -> Any:
        """Map (N, C, *space) to (N, C, *output_size), with positions on request."""
        return self._pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                          _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest elements of windows of an image (N, C, H, W) at random positions.

    Args:
        kernel_size: Size of a window; one number for all dimensions, or one for each.
        output_size: Number of windows.
        output_ratio: Number of windows as a fraction of the image's size.
        return_indices: Whether positions are also returned.
        _random_samples: Uniform numbers (N, C, 2), which determine the positions of windows.

    Raises:
        ArgumentError: Both or neither of size and ratio are given, or the ratio is not between 0 and 1.
    """

    _dims = 2
    _pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest elements of windows of a volume at random positions; arguments as for ``FractionalMaxPool2d``."""

    _dims = 3
    _pool = staticmethod(F.fractional_max_pool3d)


class _AdaptiveAvgPoolNd(_Pooling):
    """Means of windows that divide the input evenly."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, *space) to (N, C, *output_size)."""
        result: Tensor = self._pool(input, self.output_size)
        return result

    def extra_repr(self) -> str:
        """Return the number of windows."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of ``output_size`` windows of a signal."""

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of windows of an image; ``output_size`` is one number or two, None for the input's size."""

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of windows of a volume; ``output_size`` is one number or three, None for the input's size."""

    _pool = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(_Pooling):
    """The largest elements of windows that divide the input evenly."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Map (N, C, *space) to (N, C, *output_size), with positions on request."""
        return self._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Return the number of windows."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of ``output_size`` windows of a signal."""

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of windows of an image; ``output_size`` is a number or one for each dimension."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of windows of a volume; ``output_size`` is a number or one for each dimension."""

    _pool = staticmethod(F.adaptive_max_pool3d)


__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]
