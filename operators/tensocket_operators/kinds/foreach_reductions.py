"""Reductions of each tensor of a list to one number, in one call for the whole list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.modes import STATE
from tensocket_core.geometry import contiguous
from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.launch.programs import index_dtype, launch_list
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.ir.build.fold import Fold
from tensocket_plugins.ir.strategies import Strategy

from .foreach import kernel_kind
from .reduction import accumulation_dtype

#: Elements up to which one thread folds a tensor; the ordinary reduction divides larger tensors among threads.
_MOST: Final = 1 << 18
_key_of: Final = attrgetter("_key")


class ListReduction:
    """A fold over all elements of each tensor of a list.

    Args:
        name: Name of its kernels.
        fold: The mathematics; its result has the tensors' dtype.
    """

    def __init__(self, name: str, fold: Fold) -> None:
        self.name = name
        self.fold = fold

    def __call__(self, items: Sequence[Any]) -> Any:
        """Return a vector with the result of each tensor.

        Returns:
            None, so that the caller reduces each tensor by itself, if these are not plain, contiguous float32 or
            float64 tensors of moderate size on one device with a code generator, if autograd would record the call, or
            if a mode is active.
        """
        from tensocket_plugins.ir.build.math import ExprMath
        from tensocket_plugins.ir.build.nest import reduction_nest

        mask = STATE.mask
        if not items or mask is None or OVERRIDDEN_KERNELS:
            return None
        kind = kernel_kind(reduce(or_, map(_key_of, items)) & mask & ~DIM0)
        if kind is None or kind[1] not in (dtypes.float32, dtypes.float64):
            return None
        state, dtype = kind
        arrays = [item._array for item in items]
        sizes = [array.size for array in arrays]
        if not all(map(contiguous, arrays)) or not 0 < min(sizes) <= max(sizes) <= _MOST:
            return None
        accumulator, index = accumulation_dtype(state, dtype), index_dtype(state, (_MOST,))
        out = state.runtime.empty((len(arrays),), dtype, state.stream)
        ones = [1] * len(sizes)
        launch_list(state, (self, dtype, index), lambda: reduction_nest(
            self.name, self.fold, ExprMath, dtype, accumulator, [dtype], (1, 1), (False, True), index), Strategy.GROUP,
            [[out[k:k + 1] for k in range(len(arrays))], arrays],
            [ones, sizes, sizes, ones, [float(size) for size in sizes]])
        return wrap(out, state.key | dtype_bit(dtype))


def _sum(element: Any, finish: Any = None) -> Fold:
    return Fold(element=lambda m, x, position: (element(m, x),), identity=lambda dtype: (0,),
                combine=lambda m, a, b: (a[0] + b[0],),
                finish=lambda m, acc, count: acc if finish is None else (finish(m, acc[0]),))


#: Norms by order, for the orders whose fold is simple.
NORMS: Final = {
    1.0: ListReduction("norm1", _sum(lambda m, x: m.abs(x))),
    2.0: ListReduction("norm2", _sum(lambda m, x: x * x, lambda m, total: m.sqrt(total))),
    np.inf: ListReduction("norm_inf", Fold(
        element=lambda m, x, position: (m.abs(x),), identity=lambda dtype: (0,),
        combine=lambda m, a, b: (m.maximum(a[0], b[0]),), finish=lambda m, acc, count: acc)),
}
#: Zero if all elements are finite, else NaN.
FINITE: Final = ListReduction("finite", _sum(lambda m, x: x * 0.0))
