"""Identity of non-tensor arguments, for caches that are keyed by arguments; ``==`` is too coarse for them.

``0.0 == -0.0`` and ``1 == 1.0 == True``, but operators distinguish them; NaN is the same argument as NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any, Final

import numpy as np

_DOUBLES: Final = struct.Struct("=dd").pack
#: Immutable types, beside the project's own (dtypes, devices, maps of indices) and numbers.
_PLAIN: Final = frozenset({type(None), bool, int, str, bytes})


def identical(x: Any, y: Any) -> bool:
    """Whether no operator can tell two arguments apart, for sure: equal types, and numbers of the same bits."""
    kind = type(x)
    if x is y or kind is not type(y):
        return x is y
    if kind is slice:
        return identical((x.start, x.stop, x.step), (y.start, y.stop, y.step))
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(identical, x, y))
    try:
        return (kind in (int, float) and x == y != 0) or frozen(x) == frozen(y)
    except TypeError:
        return False


def frozen(value: Any) -> Hashable:
    """Return a key that is equal only to keys of identical arguments.

    Raises:
        TypeError: The value is of a type that is not known to be immutable: a list, a tensor, an object of a program.
    """
    if isinstance(value, tuple):
        return (type(value), *map(frozen, value))
    if isinstance(value, np.generic):
        return type(value), value.dtype.char, value.tobytes()
    if isinstance(value, (float, complex)):
        return type(value), _DOUBLES(value.real, value.imag)
    kind = type(value)
    if kind is slice:
        return kind, frozen(value.start), frozen(value.stop), frozen(value.step)
    if kind in _PLAIN or (kind.__module__.startswith("tensocket_") and not hasattr(value, "_key")):
        return kind, value
    raise TypeError(f"{kind.__name__} may change while it is the same object")
