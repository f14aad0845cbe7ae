"""The reduction of the terms of a loss, and the two arguments that ``reduction`` replaced."""

from __future__ import annotations

import warnings
from typing import Any, Literal

from tensocket_operators import Tensor

from .._reduction import get_enum

Reduction = Literal["mean", "sum", "none"]


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: Any) -> Any:
    """Return the reduction; if one of the two older arguments is given, it decides, with a warning.

    Raises:
        ArgumentError: The reduction is not a name.
    """
    if size_average is None and reduce is None:
        if not isinstance(reduction, str):  # PyTorch's own functions take numbers, too
            get_enum(reduction)
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce are deprecated; pass reduction={chosen!r}", UserWarning, stacklevel=3)
    return chosen


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """Warn that input and target have different shapes, which is rarely intended."""
    if input.shape != target.shape:
        warnings.warn(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
                      "This will likely lead to incorrect results due to broadcasting. "
                      "Please ensure they have the same size.",
                      UserWarning, stacklevel=3)
