"""Repetition of small host arrays without intermediate views."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.keys import DIM0
from tensocket_core.launch.host_kernels import Closure
from tensocket_core.tensor import Tensor

_new: Final = object.__new__


def repeated(key: int, limit: int, empty: Closure, next_path: Closure) -> Closure:
    """Return a closure of ``repeat`` for few elements; ``empty(shape)`` allocates the result."""
    key &= ~DIM0

    def direct_repeated(a: Any, *repeats: Any) -> Any:
        x, counts = a._array, repeats[0] if len(repeats) == 1 and type(repeats[0]) in (tuple, list) else repeats
        lead = len(counts) - x.ndim
        if not counts or lead < 0 or any(type(n) is not int or n < 0 for n in counts) or (
                x.size * math.prod(counts) > limit):
            return next_path(a, *repeats)
        shape = (*(1,) * lead, *x.shape)
        r = empty(tuple([n * size for n, size in zip(counts, shape, strict=True)]))
        # Split each dimension into repeats and size.
        r.reshape([n for pair in zip(counts, shape, strict=True) for n in pair])[...] = x.reshape(
            [n for size in shape for n in (1, size)])
        t = _new(Tensor)
        t._array = r
        t._key = key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    return direct_repeated
