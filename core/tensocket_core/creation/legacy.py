"""Arguments of the old constructors, ``Tensor(2, 3)`` and ``FloatTensor([1, 2])``: sizes or values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_plugins.contract.errors import ArgumentTypeError

from .. import tensors


def legacy_arguments(operator: str, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Positional arguments, or the one that is named ``size`` or ``data``.

    Raises:
        ArgumentTypeError: There are others, or both kinds.
    """
    if not named:
        return given
    if given or len(named) > 1 or not named.keys() <= {"size", "data"}:
        raise ArgumentTypeError(operator, f"arguments named {', '.join(named)}", "old constructors take sizes or data",
                                "use tensocket.tensor, empty or zeros")
    return (tensors.Size(named["size"]),) if "size" in named else (named["data"],)


def is_size(operator: str, value: Any) -> bool:
    """Whether the only argument of an old constructor is a size, or several, rather than values.

    Raises:
        ArgumentTypeError: It is a number that is no integer.
    """
    if isinstance(value, (float, complex, np.inexact)):
        raise ArgumentTypeError(operator, f"the number {value}", "a single number is a size, which is an integer",
                                f"use tensocket.tensor({value}), or a list of one number")
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, (int, np.integer, tensors.Size))
