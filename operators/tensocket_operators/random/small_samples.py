"""Samples for few parameters in the host's memory: the numbers of the general path, by a few NumPy calls.

NumPy's products, sums and comparisons have the bits of kernels. Every function returns None for calls that it does not
serve, and for wrong ones: the general path serves those, and raises the errors.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.keys import DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.kit.bounded import BoundedCache
from tensocket_plugins.kit.host_kernels_quiet import quiet

from .ahead import FEW, small_draw
from .distributions import INT_RANGE, NORMAL, NORMAL_SCALED, UNIFORM, integers64
from .generator import Generator

_FLOAT32: Final = dtype_bit(dtypes.float32)


def _small(input: Any) -> tuple[DeviceState, DType] | None:
    """Return device and dtype of a small dense tensor of float32 or float64 in the host's memory; None for others."""
    key, array = getattr(input, "_key", 0), getattr(input, "_array", None)
    dtype, state = DTYPE_OF.get(key & DTYPE_MASK), BY_KEY.get(key & ~(DTYPE_MASK | DIM0))
    if state is None or type(array) is not np.ndarray or not 0 < array.size <= FEW or not array.flags.c_contiguous:
        return None
    return (state, dtype) if dtype is dtypes.float32 or dtype is dtypes.float64 else None


def small_normal(mean: Any, std: Any, generator: Generator | None) -> Any:
    """Return ``normal`` of two small tensors of one shape and dtype; None for other calls, and for wrong ones."""
    found = _small(mean)
    if found is None or mean._key != getattr(std, "_key", 0) or _small(std) is None:
        return None
    (state, dtype), centre, spread = found, mean._array, std._array
    if centre.shape != spread.shape or any(x < 0 for x in spread.reshape(-1).tolist()):
        return None
    wide = dtype is dtypes.float64
    drawn = small_draw(state, NORMAL[wide], dtype, 1 + wide, centre.shape, generator)
    return None if drawn is None else wrap(np.asarray(_scaled(drawn, spread, centre)), mean._key & ~DIM0)


def small_scaled(mean: float, std: float, shape: tuple[int, ...], state: DeviceState, generator: Generator | None
                 ) -> Any:
    """Return few normal numbers of float32 with a mean and a standard deviation; None for other calls."""
    count = math.prod(shape)
    if not 0 < count <= FEW or not std >= 0:
        return None
    drawn = small_draw(state, NORMAL_SCALED[0], dtypes.float32, 1, shape, generator, (std, mean))
    return None if drawn is None else wrap(drawn, state.key | _FLOAT32)


@quiet
def _scaled(drawn: Any, spread: Any, centre: Any) -> Any:
    return drawn * spread + centre


def small_bernoulli(input: Any, generator: Generator | None) -> Any:
    """Return ``bernoulli`` of a small dense array in the host's memory; None for other calls, and for wrong ones."""
    found = _small(input)
    if found is None:
        return None
    (state, dtype), key, array = found, input._key, input._array
    values = array.reshape(-1).tolist()  # few numbers take less time than NumPy; NaN shows in the sum alone
    if min(values) < 0 or max(values) > 1 or not sum(values) >= 0:
        return None
    wide = dtype is dtypes.float64
    drawn = small_draw(state, UNIFORM[wide], dtype, 1 + wide, array.shape, generator)
    return None if drawn is None else wrap(np.asarray((drawn < array).astype(array.dtype)), key & ~DIM0)


#: Ranges that a dtype represents, by their bounds and the dtype; emptied when it is full.
_RANGES: Final[BoundedCache[tuple[int, int, DType], None]] = BoundedCache(256)


def note_range(low: int, high: int, dtype: DType) -> None:
    """Note that a range is not empty, and that a dtype represents its bounds."""
    if (dtype is dtypes.int64 or dtype is dtypes.float32 or dtype is dtypes.float64) and high - low < INT_RANGE:
        _RANGES[low, high, dtype] = None


def small_integers(state: DeviceState, shape: tuple[int, ...], dtype: DType, low: int, high: int,
                   generator: Generator | None) -> Any:
    """Return few whole numbers in [low, high), a range that ``note_range`` knows; None for other calls."""
    count = math.prod(shape)
    if not 0 < count <= FEW or (low, high, dtype) not in _RANGES:
        return None
    target = state.runtime.target
    if target is None or not target.float64:
        return None
    drawn = small_draw(state, integers64, dtypes.int64, 2, shape, generator, (high - low, low),
                       None if dtype is dtypes.int64 else dtype.numpy)
    return None if drawn is None else wrap(drawn, state.key | dtype_bit(dtype))
