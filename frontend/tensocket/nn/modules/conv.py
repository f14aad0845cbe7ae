"""Convolutions and transposed convolutions of signals, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.parameter import Parameter, UninitializedParameter
from tensocket_operators import Tensor, empty

from .lazy import LazyModuleMixin
from .module import Module
from .utils import _ntuple, _reverse_repeat_tuple
from .utils import _pair as _pair
from .utils import _single as _single
from .utils import _triple as _triple

Numbers = int | Sequence[int]
_MODES: Final = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The base of all convolutions: a kernel for each pair of channels in a group, and a bias for each output channel.

    Sizes are tuples here, one entry for each dimension of space.
    """

    bias: Parameter | None
    #: Number of dimensions of space, and the function that convolves.
    _dims: ClassVar[int]
    _convolve: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...],
        padding: str | tuple[int, ...], dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...],
        groups: int, bias: bool, padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(type(self).__name__, in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._both_sides()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(empty(first, second // groups, *kernel_size, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _both_sides(self) -> Sequence[int]:
        """Return the padding as ``pad`` takes it: before and after each dimension, the last one first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        if self.padding == "valid":
            return [0] * (2 * len(self.kernel_size))
        sides: list[int] = []
        for dilation, size in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = dilation * (size - 1)
            sides += [total // 2, total - total // 2]
        return sides

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ±1/sqrt(number of elements that contribute to one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.calculate_fans(self.weight)
            if fan_in != 0:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        """Return the channels, the sizes and the options that differ from their defaults."""
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        optional = [("padding", self.padding, zeros), ("dilation", self.dilation, ones),
                    ("output_padding", self.output_padding, zeros), ("groups", self.groups, 1),
                    ("bias", self.bias is not None, True), ("padding_mode", self.padding_mode, "zeros")]
        shown = [f"{name}={value}" for name, value, default in optional if value != default]
        return ", ".join([f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                          f"stride={self.stride}", *shown])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _check_arguments(name: str, in_channels: int, out_channels: int, stride: tuple[int, ...],
                     padding: str | tuple[int, ...], groups: int, padding_mode: str) -> None:
    """Refuse invalid arguments.

    Raises:
        ArgumentError: An argument is invalid.
    """
    if groups <= 0:
        raise ArgumentError(name, f"groups={groups}", "groups must be a positive integer", "pass 1 for one group")
    for kind, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise ArgumentError(name, f"{kind}={channels} in {groups} groups", f"{kind} must be divisible by groups",
                                "pass a number of groups that divides both numbers of channels")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ArgumentError(name, f"padding={padding!r}", "a padding string is 'valid' or 'same'",
                                "pass one of the two, or sizes")
        if padding == "same" and any(step != 1 for step in stride):
            raise ArgumentError(name, f"padding='same' with stride {stride}", "padding='same' is not supported for "
                                "strided convolutions", "pass sizes as padding")
    if padding_mode not in _MODES:
        raise ArgumentError(name, f"padding_mode={padding_mode!r}", f"padding_mode must be one of {', '.join(_MODES)}",
                            "pass one of these")


class _PlainConv(_ConvNd):
    """A convolution that is not transposed."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Numbers, stride: Numbers = 1,
        padding: str | Numbers = 0, dilation: Numbers = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        each = _ntuple(self._dims)
        super().__init__(in_channels, out_channels, each(kernel_size), each(stride),
                         padding if isinstance(padding, str) else each(padding), each(dilation), False, each(0),
                         groups, bias, padding_mode, device, dtype)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the convolution with the given parameters; subclasses override this to change them."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._dims
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, in_channels, *space) to (N, out_channels, *new space); or both without N."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_PlainConv):
    """The sum of each window of a signal (N, C, L), weighted by a kernel for each pair of channels (cross-correlation).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of a window; one number for all dimensions, or one for each.
        stride: Steps between windows.
        padding: Number of elements to add on both sides of the input; ``valid`` adds none, ``same`` keeps the size.
        dilation: Steps between elements of a window.
        groups: Number of groups of channels; an output depends only on the inputs of its group.
        bias: Whether a bias is added.
        padding_mode: Kind of the added elements: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        device: Device of the parameters.
        dtype: Their dtype.

    The weight is (out_channels, in_channels / groups, *kernel_size).

    Raises:
        ArgumentError: The arguments contradict each other.
    """

    _dims = 1
    _convolve = staticmethod(F.conv1d)


class Conv2d(_PlainConv):
    """The weighted sum of each window of an image (N, C, H, W); arguments as for ``Conv1d``."""

    _dims = 2
    _convolve = staticmethod(F.conv2d)


class Conv3d(_PlainConv):
    """The weighted sum of each window of a volume (N, C, D, H, W); arguments as for ``Conv1d``."""

    _dims = 3
    _convolve = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution with respect to its input, as a layer."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Numbers, stride: Numbers = 1, padding: Numbers = 0,
        output_padding: Numbers = 0, groups: int = 1, bias: bool = True, dilation: Numbers = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            name = type(self).__name__
            raise ArgumentError(name, f"padding_mode={padding_mode!r}", f'Only "zeros" padding mode is supported for '
                                f"{name}", "pass 'zeros'")
        each = _ntuple(self._dims)
        super().__init__(in_channels, out_channels, each(kernel_size), each(stride), each(padding), each(dilation),
                         True, each(output_padding), groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Map (N, in_channels, *space) to (N, out_channels, *new space); or both without N.

        Args:
            input: The input.
            output_size: Size of the output's space, one of those that fit; if not given, ``output_padding`` decides.

        Raises:
            ShapeError: A convolution of that output size does not give the input's size.
        """
        extra = self.output_padding if output_size is None else self._output_padding(input, output_size)
        return self._convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                              self.dilation)

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """Return the number of elements to add on one side for an output of the given size."""
        name, dims = type(self).__name__, self._dims
        space = input.shape[-dims:]
        wanted = list(output_size)[-dims:] if len(output_size) == input.dim() else list(output_size)
        if len(wanted) != dims:
            raise ShapeError(name, f"output_size {list(output_size)} for an input of shape {list(input.shape)}",
                             "output_size has a number for each dimension of space", f"pass {dims} numbers")
        assert not isinstance(self.padding, str)
        smallest = [(space[d] - 1) * self.stride[d] - 2 * self.padding[d] + self.dilation[d] * (self.kernel_size[d] - 1)
                    + 1 for d in range(dims)]
        largest = [smallest[d] + self.stride[d] - 1 for d in range(dims)]
        if not all(low <= size <= high for low, size, high in zip(smallest, wanted, largest, strict=True)):
            raise ShapeError(name, f"output_size {wanted}", f"valid sizes range from {smallest} to {largest}",
                             "pass a size in this range")
        return [size - low for size, low in zip(wanted, smallest, strict=True)]


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of ``Conv1d``: every element adds a multiple of the kernel to the output.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of a kernel; one number for all dimensions, or one for each.
        stride: Steps in the output between elements of the input.
        padding: Number of elements to remove on both sides of the output.
        output_padding: Number of elements to add on one side of the output.
        groups: Number of groups of channels; an output depends only on the inputs of its group.
        bias: Whether a bias is added.
        dilation: Steps between elements of a kernel.
        padding_mode: ``zeros``.
        device: Device of the parameters.
        dtype: Their dtype.

    The weight is (in_channels, out_channels / groups, *kernel_size).

    Raises:
        ArgumentError: The arguments contradict each other.
    """

    _dims = 1
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of ``Conv2d``; arguments as for ``ConvTranspose1d``."""

    _dims = 2
    _convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of ``Conv3d``; arguments as for ``ConvTranspose1d``."""

    _dims = 3
    _convolve = staticmethod(F.conv_transpose3d)


# ---- modules that infer the number of their input's channels


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose ``in_channels`` is the number of channels of its first input."""

    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    transposed: bool
    weight: Any
    bias: Any
    _dims: ClassVar[int]

    def _without_shapes(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Replace the parameters, which have no channels, by parameters without values."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values if the parameters have shapes already."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes and initial values.

        Raises:
            ShapeError: The input has too few or too many dimensions.
            ArgumentError: The groups do not divide its channels.
        """
        if not self.has_uninitialized_params():
            return
        name = self.cls_to_become.__name__ if self.cls_to_become else type(self).__name__
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise ShapeError(name, f"input of shape {list(input.shape)}", f"an input has {self._dims + 1} or "
                             f"{self._dims + 2} dimensions", "pass (N, C, ...) or (C, ...)")
        self.in_channels = input.shape[-self._dims - 1]
        _check_arguments(name, self.in_channels, self.out_channels, (), (), self.groups, "zeros")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyPlainConv(_LazyConvXdMixin):
    """A lazy convolution that is not transposed."""

    def __init__(
        self, out_channels: int, kernel_size: Numbers, stride: Numbers = 1, padding: Numbers = 0,
        dilation: Numbers = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:
        # The parameters without channels are replaced immediately.
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._without_shapes(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    """A lazy transposed convolution."""

    def __init__(
        self, out_channels: int, kernel_size: Numbers, stride: Numbers = 1, padding: Numbers = 0,
        output_padding: Numbers = 0, groups: int = 1, bias: bool = True, dilation: Numbers = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode,
                         device, dtype)
        self._without_shapes(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlainConv, Conv1d):
    """A ``Conv1d`` whose ``in_channels`` is the number of channels of its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):
    """A ``Conv2d`` whose ``in_channels`` is the number of channels of its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):
    """A ``Conv3d`` whose ``in_channels`` is the number of channels of its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ``ConvTranspose1d`` whose ``in_channels`` is the number of channels of its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ``ConvTranspose2d`` whose ``in_channels`` is the number of channels of its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ``ConvTranspose3d`` whose ``in_channels`` is the number of channels of its first input."""

    cls_to_become = ConvTranspose3d


__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]
