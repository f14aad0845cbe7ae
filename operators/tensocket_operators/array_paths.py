"""Shortcuts of composites that a host library computes: one call of it on arrays, instead of operators on tensors.

Guard: all tensors are in host memory, small, of the dtypes that the shortcut declares; autograd records nothing; the
function accepts the shapes. Work: the function over NumPy arrays, and a tensor around each result. All other calls, and
those that the library refuses, go to the composition, which computes the same bits and raises all errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import HostPath
from tensocket_core.keys import DIM0, DTYPE_MASK, SCALAR, dtype_bit
from tensocket_core.launch.host_kernels import REFUSED
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import FROM_NUMPY, DType
from tensocket_plugins.kit.host_kernels_quiet import quiet

#: The most elements of the first array; the allocator counts the memory of results of larger ones, where the time
#: between the operators matters less.
ELEMENTS: Final = 1 << 14
#: Key bits of numbers behind the first tensor.
_NUMBERS: Final = sum(SCALAR.values())
#: The dtypes of LAPACK's real matrices.
REAL: Final = (dtypes.float32, dtypes.float64)


def array_path(run: Callable[..., Any], results: Callable[..., Any] | None = None, *,
               accepts: tuple[DType, ...] = REAL, zero_dim: bool = False, numbers: bool = False) -> HostPath:
    """Return a ``host_path`` over a function of arrays.

    Args:
        run: Called with the operator's arguments, and arrays in place of tensors. It returns a new array, a tuple of
            new arrays, or NotImplemented for calls that the composition serves.
        results: Makes the operator's result from several tensors.
        accepts: Dtypes of the tensors.
        zero_dim: Whether ``run`` takes arrays without dimensions.
        numbers: Whether ``run`` takes numbers in the place of other tensors than the first.
    """
    bits = sum({dtype_bit(dtype) for dtype in accepts})
    keys = {dtype.numpy: dtype_bit(dtype) for dtype in FROM_NUMPY.values()}

    def make(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        others = key & ~(bits | DIM0 | (_NUMBERS if numbers else 0))
        if others != state.key or not key & DTYPE_MASK or (key & DIM0 and not zero_dim):
            return None
        own, quietly = state.key, quiet(run, -1)

        def of_arrays(*args: Any, **named: Any) -> Any:
            arrays = [x._array if isinstance(x, Tensor) else x for x in args]
            if arrays[0].size > ELEMENTS:
                return next_path(*args, **named)
            try:
                made = quietly(*arrays, **named)
            except REFUSED:
                return next_path(*args, **named)
            if made is NotImplemented:
                return next_path(*args, **named)
            if type(made) is not tuple:
                return wrap(made, own | keys[made.dtype])
            tensors = [wrap(x, own | keys[x.dtype]) for x in made]
            return tuple(tensors) if results is None else results(*tensors)

        return of_arrays

    return make
