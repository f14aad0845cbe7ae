"""Samples for few parameters in the host's memory: the numbers of the general path, by a few NumPy calls.

NumPy's products, sums and comparisons have the bits of kernels. Every function returns None for calls that it does not
serve, and for wrong ones: the general path serves those, and raises the errors.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.keys import DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.kit.bounded import BoundedCache
from tensocket_plugins.kit.host_kernels_quiet import quiet

from .ahead import FEW, Draw, draw_of, small_draw
from .distributions import INT_RANGE, NORMAL, NORMAL_SCALED, UNIFORM, integers64
from .generator import Generator, generator_of

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


#: Uniform draws by key and shape of small tensors; emptied when it is full.
_UNIFORM: Final[BoundedCache[tuple[int, tuple[int, ...]], Draw]] = BoundedCache(64)


def _uniform(input: Any) -> Draw | None:
    """Return the uniform draw of a small tensor's shape and dtype; None for others."""
    found = _small(input)
    if found is None:
        return None
    state, dtype = found
    wide = dtype is dtypes.float64
    draw = draw_of(state, UNIFORM[wide], dtype, 1 + wide, input._array.shape)
    if draw is not None:
        _UNIFORM[input._key, input._array.shape] = draw
    return draw


def small_bernoulli(input: Any, generator: Generator | None) -> Any:
    """Return ``bernoulli`` of a small dense array in the host's memory; None for other calls, and for wrong ones."""
    key, array = getattr(input, "_key", 0), getattr(input, "_array", None)
    if type(array) is not np.ndarray or not array.flags.c_contiguous:
        return None
    draw = _UNIFORM.get((key, array.shape)) or _uniform(input)
    if draw is None:
        return None
    # Few numbers take less time than a call of NumPy.
    for value in (array if array.ndim == 1 else array.reshape(-1)).tolist():
        if not 0 <= value <= 1:
            return None
    drawn = draw.next(generator or generator_of(draw.state))
    made = (drawn < array).astype(array.dtype)
    return wrap(made if array.ndim else np.asarray(made), key & ~DIM0)


def few_are_weights(input: Any, count: int, replacement: bool) -> bool:
    """Whether a small dense array in the host's memory holds weights of which ``count`` categories can be drawn.

    A reader of values may have to learn about the weights, and False says nothing.
    """
    if ACTIVE or VALUE_OBSERVERS or RECORDERS or type(count) is not int or _small(input) is None:
        return False
    array = input._array
    if array.ndim not in (1, 2) or not count > 0 or not (replacement or count <= array.shape[-1]):
        return False
    for row in [array.tolist()] if array.ndim == 1 else array.tolist():
        if not (min(row) >= 0 and max(row) < math.inf and sum(row) > 0):  # a sum with NaN is NaN
            return False
    return True


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
