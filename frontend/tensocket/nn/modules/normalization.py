"""Layers that normalise values within each example, to zero mean and unit variance or to unit length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor, arange, empty


def _shape(given: int | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes over which a layer normalizes; a single size may be an integer of another library."""
    return tuple(given) if isinstance(given, Iterable) else (int(given),)


class _Scaled(Module):
    """Base class for a learned scale, and optionally a learned shift, of a normalised result."""

    weight: Parameter | None
    bias: Parameter | None

    def _add_parameters(self, shape: tuple[int, ...], wanted: dict[str, bool], device: Any, dtype: Any) -> None:
        for name, present in wanted.items():
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if present else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                init.constant_(parameter, float(name == "weight"))


class LayerNorm(_Scaled):
    """Normalisation over the last dimensions, followed by a learned scale and shift.

    Args:
        normalized_shape: Sizes of the last dimensions; an int for one.
        eps: Added to the variance.
        elementwise_affine: Whether values are scaled and shifted.
        bias: Whether they are shifted.
        device: Device of the parameters.
        dtype: Their dtype.
    """

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
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add_parameters(self.normalized_shape,
                             {"weight": elementwise_affine, "bias": elementwise_affine and bias}, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        bias = f", bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}{bias}"


class RMSNorm(_Scaled):
    """Division by the root of the mean square over the last dimensions, followed by a learned scale
    (Zhang and Sennrich, 2019).

    Args:
        normalized_shape: Sizes of the last dimensions; an int for one.
        eps: Added to the mean square; the dtype's machine epsilon if not given.
        elementwise_affine: Whether values are scaled.
        device: Device of the parameter.
        dtype: Its dtype.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add_parameters(self.normalized_shape, {"weight": elementwise_affine}, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Scaled):
    """Normalisation of each group of channels of an example, followed by a learned scale and shift of each channel
    (Wu and He, 2018).

    Args:
        num_groups: Number of groups, which divides the number of channels.
        num_channels: Number of channels.
        eps: Added to the variance.
        affine: Whether values are scaled and shifted.
        device: Device of the parameters.
        dtype: Their dtype.
        bias: Whether values are shifted.

    Raises:
        ArgumentError: The groups do not divide the channels.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ArgumentError("GroupNorm", f"{num_channels} channels in {num_groups} groups", "num_channels must be "
                                "divisible by num_groups", "pass a number of groups that divides the channels")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_parameters((num_channels,), {"weight": affine, "bias": affine and bias}, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, ...) to the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


class LocalResponseNorm(Module):
    """Division by ``(k + alpha * mean square of neighbouring channels) ** beta`` (Krizhevsky et al., 2012).

    Args:
        size: Number of neighbouring channels in the mean.
        alpha: As above.
        beta: As above.
        k: As above.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, ...) to the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` for images (N, C, H, W), as PyTorch defines it under this name.

    A channel has as many neighbours before it as after it. An even ``size`` is therefore one too many, but still
    divides the sum. The first channel counts as a neighbour of all channels after it.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to the same shape."""
        reach = (self.size - 1) // 2
        channels = input.shape[1]
        square = input * input
        wide = F.pad(square, (0, 0, 0, 0, reach, reach))
        after = arange(channels, device=input.device).reshape(-1, 1, 1) > reach
        total = square[:, :1] * after
        for shift in range(2 * reach + 1):
            total = total + wide.narrow(1, shift, channels)
        result: Tensor = input / (self.k + self.alpha / self.size * total) ** self.beta
        return result


__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
