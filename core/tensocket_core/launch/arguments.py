"""When two arguments that are no tensors are the same: caches by arguments ask here, because ``==`` says too much.

``0.0 == -0.0``, ``1 == 1.0 == True`` and ``1 == 1 - 0j``, but operators tell them apart; NaN is not equal to itself,
but the same argument.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any, Final

import numpy as np

_DOUBLE: Final = struct.Struct("=d").pack


def identical(x: Any, y: Any) -> bool:
    """Whether no operator can tell two arguments apart: they have one type, and numbers have the same bits."""
    return x is y or (type(x) is type(y) and frozen(x) == frozen(y))


def frozen(value: Any) -> Hashable:
    """A key that equals those of identical arguments only.

    Raises:
        TypeError: The value is a list, a dict or something else that changes.
    """
    if isinstance(value, tuple):
        return (type(value), *map(frozen, value))
    if isinstance(value, np.generic):
        return type(value), value.dtype.char, value.tobytes()
    if isinstance(value, float):
        return type(value), _DOUBLE(value)
    if isinstance(value, complex):
        return type(value), _DOUBLE(value.real), _DOUBLE(value.imag)
    hash(value)
    return type(value), value
