"""Instance normalisation of signals, images and volumes."""

from __future__ import annotations

import warnings
from typing import Any

from tensocket.errors import ShapeError
from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    """Normalisation of each channel of each example by its own statistics."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        """Return the number of dimensions of a single example."""
        return self._dimensions[0]

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, ...) or (C, ...) to the same shape.

        Raises:
            ShapeError: The input has another number of dimensions or, with learned values, of channels.
        """
        self._check_input_dim(input)
        single = input.dim() == self._get_no_batch_dim()
        self._check_channels(input, 0 if single else 1)
        result = F.instance_norm(input.unsqueeze(0) if single else input, self.running_mean, self.running_var,
                                 self.weight, self.bias, self.training or not self.track_running_stats,
                                 0.0 if self.momentum is None else self.momentum, self.eps)
        return result.squeeze(0) if single else result

    def _check_channels(self, input: Tensor, dim: int) -> None:
        channels = input.shape[dim]
        if channels == self.num_features:
            return
        if self.affine:
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}", "expected input's size at "
                             f"dim={dim} to match num_features", f"pass {self.num_features} channels")
        warnings.warn(f"input's size at dim={dim} does not match num_features. You can silence this warning by not "
                      "passing in num_features, which is not used because affine=False", UserWarning, stacklevel=3)


class _LazyInstanceNorm(_LazyNormBase):
    """A lazy normalisation that also takes single examples."""

    def _channels(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return int(input.shape[0 if input.dim() == self._get_no_batch_dim() else 1])


class InstanceNorm1d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each signal (N, C, L) or (C, L) (Ulyanov et al., 2016).

    Args:
        num_features: C.
        eps: Added to the variance.
        momentum: Weight of a batch in the running statistics, which evaluation uses.
        affine: Whether values are scaled and shifted by learned values.
        track_running_stats: Whether running statistics are tracked for evaluation, which uses the input's own
            otherwise.
        device: Device of parameters and statistics.
        dtype: Their dtype.
        bias: Whether values are shifted.
    """

    _dimensions = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """``InstanceNorm1d`` of images (N, C, H, W) or (C, H, W)."""

    _dimensions = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """``InstanceNorm1d`` of volumes (N, C, D, H, W) or (C, D, H, W)."""

    _dimensions = (4, 5)


class LazyInstanceNorm1d(_LazyInstanceNorm, _InstanceNorm):
    """An ``InstanceNorm1d`` whose ``num_features`` is the number of channels of its first input."""

    cls_to_become = InstanceNorm1d
    _dimensions = InstanceNorm1d._dimensions


class LazyInstanceNorm2d(_LazyInstanceNorm, _InstanceNorm):
    """An ``InstanceNorm2d`` whose ``num_features`` is the number of channels of its first input."""

    cls_to_become = InstanceNorm2d
    _dimensions = InstanceNorm2d._dimensions


class LazyInstanceNorm3d(_LazyInstanceNorm, _InstanceNorm):
    """An ``InstanceNorm3d`` whose ``num_features`` is the number of channels of its first input."""

    cls_to_become = InstanceNorm3d
    _dimensions = InstanceNorm3d._dimensions


__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]
