"""What losses do with their terms, and the two arguments that ``reduction`` replaced."""

from __future__ import annotations

import warnings
from typing import Literal

from tensocket_core import Tensor

Reduction = Literal["mean", "sum", "none"]


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction; the two older arguments decide, with a warning, where one of them is given."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce are deprecated; pass reduction={chosen!r}", UserWarning, stacklevel=3)
    return chosen


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """Say that input and target have different shapes, which is rarely meant."""
    if input.shape != target.shape:
        warnings.warn(f"a target of shape {tuple(target.shape)} is broadcast with an input of shape "
                      f"{tuple(input.shape)}; give both the same shape", UserWarning, stacklevel=3)
