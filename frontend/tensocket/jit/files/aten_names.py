"""Operators that PyTorch's files call by names or with arguments that its public functions do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensocket_operators as operators
from tensocket_operators import Tensor


def cross_entropy_loss(input: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
                       label_smoothing: float = 0.0) -> Any:
    """Return the cross entropy, with the reduction as a number."""
    from tensocket.nn import functional as F

    return F.cross_entropy(input, target, weight, ignore_index=ignore_index, label_smoothing=label_smoothing,
                           reduction=("none", "mean", "sum")[reduction])


def nll_loss_nd(input: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    """Return the negative log likelihood, with the reduction as a number."""
    from tensocket.nn import functional as F

    return F.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=("none", "mean", "sum")[reduction])


def _reduced(name: str) -> Callable[..., Any]:
    def loss(input: Tensor, target: Tensor, reduction: int = 1, *rest: Any) -> Any:
        from tensocket.nn import functional as F

        return getattr(F, name)(input, target, *rest, reduction=("none", "mean", "sum")[reduction])

    loss.__name__ = name
    return loss


def upsample_nearest2d(input: Tensor, size: Any, scale_factor: Any = None) -> Any:
    """Return an image whose size is another, by its nearest elements."""
    from tensocket.nn import functional as F

    return F.interpolate(input, size, scale_factor if size is None else None, mode="nearest")


def fractional_max_pool2d(input: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
    """Return the largest elements of an image's windows, and their positions."""
    return operators.functions.fractional_max_pool2d(input, kernel_size, output_size, None, True, random_samples)


def fractional_max_pool3d(input: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
    """Return the largest elements of a volume's windows, and their positions."""
    return operators.functions.fractional_max_pool3d(input, kernel_size, output_size, None, True, random_samples)


_NAMES: Final[dict[str, Callable[..., Any]]] = {
    "cross_entropy_loss": cross_entropy_loss, "nll_loss_nd": nll_loss_nd,
    "nll_loss": nll_loss_nd, "mse_loss": _reduced("mse_loss"), "l1_loss": _reduced("l1_loss"),
    "smooth_l1_loss": _reduced("smooth_l1_loss"), "upsample_nearest2d": upsample_nearest2d,
    "adaptive_max_pool2d": operators.functions.adaptive_max_pool2d,
    "adaptive_max_pool3d": operators.functions.adaptive_max_pool3d, "fractional_max_pool2d": fractional_max_pool2d,
    "fractional_max_pool3d": fractional_max_pool3d,
    "relu6": lambda input: input.clamp(0, 6),
}


def find(name: str) -> Callable[..., Any] | None:
    """Return the function of an operator, None if there is none of this name."""
    return _NAMES.get(name)
