"""Dropout, with PyTorch's signatures."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import warnings

from tensocket.errors import ShapeError
from tensocket_operators import Tensor
from tensocket_operators import functions as ops


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability ``p`` while training, and divide the others by ``1 - p``.

    Raises:
        ArgumentError: ``p`` is not a probability.
    """
    return (ops.dropout_ if inplace else ops.dropout)(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Apply dropout that keeps mean 0 and variance 1, for networks of ``selu``.

    Raises:
        ArgumentError: ``p`` is not a probability.
    """
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Apply ``alpha_dropout`` to whole channels of (N, C, ...).

    Raises:
        ArgumentError: ``p`` is not a probability.
    """
    return (ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout)(input, p, training)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Apply dropout to whole channels of (N, C, L) or (C, L).

    Raises:
        ArgumentError: ``p`` is not a probability.
        ShapeError: The input has another number of dimensions.
    """
    if input.dim() not in (2, 3):
        raise ShapeError("dropout1d", f"input {list(input.shape)}", "the input is (N, C, L) or (C, L)", "reshape it")
    return _features(input, p, training, inplace, batched=input.dim() == 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Apply dropout to whole channels of (N, C, H, W); three dimensions are (N, C, L), with a warning.

    Raises:
        ArgumentError: ``p`` is not a probability.
    """
    if input.dim() != 4:
        warnings.warn(f"dropout2d of an input with {input.dim()} dimensions drops along the second one; "
                      "use dropout1d or dropout3d, or pass (N, C, H, W)", UserWarning, stacklevel=2)
    return _features(input, p, training, inplace, batched=True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Apply dropout to whole channels of (N, C, D, H, W) or (C, D, H, W).

    Raises:
        ArgumentError: ``p`` is not a probability.
    """
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d of an input with {input.dim()} dimensions; pass (N, C, D, H, W) or (C, D, H, W)",
                      UserWarning, stacklevel=2)
    return _features(input, p, training, inplace, batched=input.dim() == 5)


def _features(input: Tensor, p: float, training: bool, inplace: bool, *, batched: bool) -> Tensor:
    """Apply dropout to channels; an input without a batch is one example."""
    run = ops.feature_dropout_ if inplace else ops.feature_dropout
    return run(input, p, training) if batched else run(input.unsqueeze(0), p, training).squeeze(0)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draw samples of a relaxed categorical distribution.

    Args:
        logits: Unnormalised log probabilities.
        tau: Temperature.
        hard: Whether the result is one-hot, with the gradient of the relaxed one.
        eps: Without effect, warns if given.
        dim: Dimension of the classes.
    """
    if eps != 1e-10:
        warnings.warn("eps is deprecated and has no effect", UserWarning, stacklevel=2)
    return ops.gumbel_softmax(logits, tau, hard, dim)
