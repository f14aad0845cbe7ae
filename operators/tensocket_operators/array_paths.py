"""Shortcuts of composites that a host library computes: one call of it on arrays, instead of operators on tensors.

Guard: all tensors are in host memory, of the dtypes that the shortcut declares, and small unless it takes any size;
autograd records nothing; the function accepts the shapes. Work: the function over NumPy arrays, and a tensor around
each result. All other calls, and those that the library refuses, go to the composition, which computes the same bits
and raises all errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import HostPath
from tensocket_core.keys import DIM0, DTYPE_MASK, SCALAR, dtype_bit
from tensocket_core.launch.host_kernels import REFUSED
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import FROM_NUMPY, DType
from tensocket_plugins.kit.host_kernels_quiet import quiet
from tensocket_plugins.kit.host_memory import call_pooled

#: The most elements of the first array whose results need not come from the pool, which counts and reuses memory.
ELEMENTS: Final = 1 << 14
#: Key bits of numbers behind the first tensor.
_NUMBERS: Final = sum(SCALAR.values())
#: The dtypes of LAPACK's real matrices.
REAL: Final = (dtypes.float32, dtypes.float64)


def array_path(run: Callable[..., Any], results: Callable[..., Any] | None = None, *,
               accepts: tuple[DType, ...] = REAL, zero_dim: bool = False, numbers: bool = False,
               label: str | None = None) -> HostPath:
    """Return a ``host_path`` over a function of arrays.

    Args:
        run: Called with the operator's arguments, and arrays in place of tensors. It returns a new array, a tuple of
            new arrays, or NotImplemented for calls that the composition serves.
        results: Makes the operator's result from several tensors.
        accepts: Dtypes of the tensors.
        zero_dim: Whether ``run`` takes arrays without dimensions.
        label: The operator's name in errors, if ``run`` takes arrays of any size: it is what the composition calls.
            Others go to the composition.
        numbers: Whether ``run`` takes numbers in the place of other tensors than the first.
    """
    bits = sum({dtype_bit(dtype) for dtype in accepts})
    keys = {dtype.numpy: dtype_bit(dtype) for dtype in FROM_NUMPY.values()}
    # The constructor of a named result also takes fields one by one, which costs as much as two tensors.
    gathered = tuple if results is None else getattr(results, "_make", None) or (lambda tensors: results(*tensors))

    def make(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        others = key & ~(bits | DIM0 | (_NUMBERS if numbers else 0))
        if others != state.key or not key & DTYPE_MASK or (key & DIM0 and not zero_dim):
            return None
        own, quietly = state.key, quiet(run, -1)
        pooled = None if label is None else partial(call_pooled, label, quietly)

        def of_arrays(*args: Any, **named: Any) -> Any:
            arrays = [x._array if isinstance(x, Tensor) else x for x in args]
            chosen = quietly if arrays[0].size <= ELEMENTS else pooled
            if chosen is None:
                return next_path(*args, **named)
            try:
                made = chosen(*arrays, **named)
            except REFUSED:
                return next_path(*args, **named)
            if made is NotImplemented:
                return next_path(*args, **named)
            if type(made) is not tuple:
                return wrap(made, own | keys[made.dtype])
            return gathered([wrap(x, own | keys[x.dtype]) for x in made])

        return of_arrays

    return make
