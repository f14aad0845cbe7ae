"""Batch normalisation of vectors, signals, images and volumes."""

from __future__ import annotations

from typing import Any, ClassVar

from tensocket.errors import ShapeError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from tensocket_operators import Tensor, empty, int64, ones, tensor, zeros

from .lazy import LazyModuleMixin
from .module import Module


class _NormBase(Module):
    """Statistics and learned values per channel."""

    _version = 2
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    #: Numbers of dimensions that an input may have; if empty, inputs are not checked.
    _dimensions: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, values)
        tracked = (None, None, None)
        if track_running_stats:
            tracked = (zeros(num_features, device=device, dtype=dtype), ones(num_features, device=device, dtype=dtype),
                       tensor(0, dtype=int64, device=device))
        for name, buffer in zip(("running_mean", "running_var", "num_batches_tracked"), tracked, strict=True):
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics: mean 0 and variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics; set the scale to one and the shift to zero."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        """Refuse inputs with another number of dimensions.

        Raises:
            ShapeError: The input has another number of dimensions.
        """
        if self._dimensions and input.dim() not in self._dimensions:
            allowed = " or ".join(f"{count}D" for count in self._dimensions)
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}", f"expected {allowed} input",
                             "use the layer for this number of dimensions")

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")

    def _upgrade_state(self, state_dict: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
        """Add the number of batches, which the first version did not save."""
        key = f"{prefix}num_batches_tracked"
        if self.track_running_stats and (metadata.get("version") or 1) < 2 and key not in state_dict:
            known = self.num_batches_tracked
            state_dict[key] = known if known is not None and not known.is_meta else tensor(0, dtype=int64)


class _BatchNorm(_NormBase):
    """Normalisation by the statistics of a batch, or in evaluation by the running statistics."""

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, ...) to the same shape.

        Raises:
            ShapeError: The input has another number of dimensions or channels.
            ArgumentError: There is a single value per channel while training.
        """
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        training = self.training
        batches = self.num_batches_tracked if training and self.track_running_stats else None
        if batches is not None:
            batches.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(batches)
        mean, var = self.running_mean, self.running_var
        own = training or (mean is None and var is None)
        tracked = not training or self.track_running_stats
        return F.batch_norm(input, mean if tracked else None, var if tracked else None, self.weight,
                            self.bias, own, factor, self.eps)


class _LazyNormBase(LazyModuleMixin):
    """A normalisation whose ``num_features`` is the number of channels of its first input."""

    num_features: int
    affine: bool
    track_running_stats: bool
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Set the initial values if the parameters have shapes already."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give parameters and statistics their shapes and initial values."""
        if not self.has_uninitialized_params():
            return
        self.num_features = self._channels(input)
        for values in (self.weight, self.bias, self.running_mean, self.running_var):
            if values is not None:
                values.materialize((self.num_features,))
        self.reset_parameters()

    def _channels(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return int(input.shape[1])


class BatchNorm1d(_BatchNorm):
    """Zero mean and unit variance per channel of vectors (N, C) or signals (N, C, L), then a learned scale and shift
    (Ioffe and Szegedy, 2015).

    Args:
        num_features: C.
        eps: Added to the variance.
        momentum: Weight of a batch in the running statistics, which evaluation uses; None for the mean of all batches.
        affine: Whether values are scaled and shifted.
        track_running_stats: Whether running statistics are tracked; without them, evaluation uses the batch's own.
        device: Device of parameters and statistics.
        dtype: Their dtype.
        bias: Whether values are shifted.
    """

    _dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """``BatchNorm1d`` for images (N, C, H, W)."""

    _dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """``BatchNorm1d`` for volumes (N, C, D, H, W)."""

    _dimensions = (5,)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm1d`` whose ``num_features`` is the number of channels of its first input."""

    cls_to_become = BatchNorm1d
    _dimensions = BatchNorm1d._dimensions


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm2d`` whose ``num_features`` is the number of channels of its first input."""

    cls_to_become = BatchNorm2d
    _dimensions = BatchNorm2d._dimensions


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A ``BatchNorm3d`` whose ``num_features`` is the number of channels of its first input."""

    cls_to_become = BatchNorm3d
    _dimensions = BatchNorm3d._dimensions


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over all processes of a group; in a single process, the same as ``BatchNorm1d`` to ``3d``.

    Args:
        num_features: C.
        eps: Added to the variance.
        momentum: Weight of a batch in the running statistics, which evaluation uses; None for the mean of all batches.
        affine: Whether values are scaled and shifted.
        track_running_stats: Whether running statistics are tracked.
        process_group: The processes; stored and otherwise ignored.
        device: Device of parameters and statistics.
        dtype: Their dtype.
        bias: Whether values are shifted.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ShapeError("SyncBatchNorm", f"input of shape {list(input.shape)}", "expected at least 2D input",
                             "pass (N, C, ...)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return ``module`` with all batch normalisations in it, itself included, replaced by synchronised ones.

        The new ones have the same parameters and statistics.
        """
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                         process_group, bias=module.bias is not None)
            for table in ("_parameters", "_buffers"):
                result.__dict__[table].update(module.__dict__[table])
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]
