"""Version counters: the number of changes of a tensor's memory, and whether it may change at all."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ..geometry import contiguous, element_strides
from .lazy import plain_handle


def bump(target: Any) -> None:
    """Count a change, for all views of the memory."""
    counter = target._version_counter
    if counter is None:
        target._version_counter = [1]
    else:
        counter[-1] += 1


def check_writable(operator: str, target: Any, repeated: bool = False) -> None:
    """Raise for tensors whose elements share memory, unless writing an element ``repeated``ly makes no difference.

    Raises:
        ShapeError: A dimension of more than one element has stride 0.
        AutogradError: The tensor is an inference tensor, outside of inference mode.
        ArgumentError: The memory belongs to another library, which shares it read-only.
    """
    if target._version_counter is not None:
        target._version_counter[-1]  # raises
    array = plain_handle(target._array)
    if not (repeated or contiguous(array)) and array.size and any(
            s == 0 and n > 1 for s, n in zip(element_strides(array), array.shape, strict=True)):
        raise ShapeError(operator, f"an expanded tensor of shape {list(array.shape)}",
                         "elements that are written have memory of their own", "clone() it first")
    if type(array) is np.ndarray and not array.flags.writeable:
        raise ArgumentError(operator, f"a tensor of shape {list(array.shape)} on read-only memory",
                            "the owner of the memory does not allow writing", "clone() it first")
