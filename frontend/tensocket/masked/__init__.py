"""Reductions and normalisations of the elements that a mask holds, and tensors with a mask."""

from __future__ import annotations

from . import _ops as _ops
from . import maskedtensor as maskedtensor
from ._ops import _canonical_dim as _canonical_dim
from ._ops import _combine_input_and_mask as _combine_input_and_mask
from ._ops import _input_mask as _input_mask
from ._ops import _output_mask as _output_mask
from ._ops import _reduction_identity as _reduction_identity
from ._ops import _where as _where
from ._ops import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from .maskedtensor.core import MaskedTensor, is_masked_tensor
from .maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
