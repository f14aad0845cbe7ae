"""Host kernels: NumPy functions without warnings, and Python numbers as their operands.

Kernels run without NumPy's floating-point warnings, whatever the program's settings: a warning filter alone would not
do, because filters that the program adds later take precedence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.kit.bounded import BoundedCache
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ..keys import dtype_bit
from .host_convert import to_dtype
from .numbers import Convert

if TYPE_CHECKING:
    from .entries import ArrayEntry

_new = object.__new__
_Array = np.ndarray
Closure = Callable[..., Any]

#: The error that NumPy raises for shapes that do not match; the general closure then decides.
REFUSED: Final = ValueError
# The second line of defence, for NumPy calls off the hot paths; it covers these modules only, not the user's own code.
warnings.filterwarnings("ignore", r"(divide by zero|invalid value|overflow|underflow) encountered", RuntimeWarning,
                        r"tensocket_(core|operators|cpu|plugins)\.")

#: Cached 0-d arrays of Python numbers, by dtype; this halves the cost of ``a * 2.0``. Zeros (0.0 == -0.0), NaN and
#: numbers of complex dtypes (1 == 1 - 0j) are not cached. Operators that refuse numbers have separate caches
#: (``number_cache``).
NUMBERS: Final[dict[DType, dict[Any, Any]]] = {dtype: BoundedCache(4096) for dtype in dtypes.ALL}
_CACHES: Final[dict[Convert, dict[Any, Any]]] = {}
_BOOL: Final = dtype_bit(dtypes.bool_)
_QUIET: Final[dict[Kernel, Closure]] = {}


def number_array(value: Any, dtype: DType) -> Any:
    """Return a Python number as a 0-d array of a NumPy dtype."""
    return _kept_number(value, dtype, None, NUMBERS[dtype])


def number_cache(dtype: DType, convert: Convert) -> tuple[dict[Any, Any], Closure]:
    """Return the cache of 0-d arrays of converted numbers, and a function that makes the array of a missing number.

    Args:
        dtype: Dtype of the operands.
        convert: Converts a number to the dtype that kernels calculate in; see ``numbers.converter``.
    """
    work, cache = arithmetic_dtype(dtype), _CACHES.setdefault(convert, BoundedCache(4096))
    return cache, lambda value: _kept_number(value, work, convert, cache)


def _kept_number(value: Any, dtype: DType, convert: Convert | None, cache: dict[Any, Any]) -> Any:
    try:
        return cache[value]
    except KeyError:
        array = to_dtype(np.asarray(value if convert is None else convert(value)), dtype)
        if value == value and value != 0 and dtype.kind != "complex":
            cache[value] = array
        return array


def rounding(kernel: Kernel, dtype: DType) -> Kernel:
    """Return a kernel of two operands that rounds its result to a NumPy dtype."""
    run, kind = kernel.run, dtype.numpy
    return Kernel(lambda x, y: np.asarray(run(x, y)).astype(kind, copy=False), True, kernel.limit)


def quietly(kernel: Kernel) -> Closure:
    """Return a direct kernel that runs without NumPy's warnings."""
    run = _QUIET.get(kernel)
    if run is None:
        run = _QUIET[kernel] = quiet(kernel.run)
    return run


def size_limit(kernel: Kernel | ArrayEntry) -> float:
    """Return the number of elements up to which a kernel is used."""
    return float("inf") if kernel.limit is None else kernel.limit
