"""Factories: tensors from sizes, values and host data."""

from __future__ import annotations

from tensocket_core.launch.fill import fill_array, finish, from_values
from tensocket_core.launch.numbers import check_range

from .base import options, shape_of
from .data import tensor
from .legacy import make_legacy
from .likes import (
    empty_like,
    full_like,
    new_arange,
    new_empty,
    new_full,
    new_ones,
    new_tensor,
    new_zeros,
    ones_like,
    zeros_like,
)
from .ranges import arange, linspace, logspace
from .sizes import empty, eye, full, ones, zeros
from .strided import empty_permuted, empty_strided, new_empty_strided, scalar_tensor

__all__ = [
    "arange",
    "check_range",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "fill_array",
    "finish",
    "from_values",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "make_legacy",
    "new_arange",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "ones",
    "ones_like",
    "options",
    "scalar_tensor",
    "shape_of",
    "tensor",
    "zeros",
    "zeros_like",
]
