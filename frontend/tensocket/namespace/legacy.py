"""Small functions that programs call, and old names of others."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.warned import is_warn_always_enabled, set_warn_always
from tensocket_operators import Tensor, arange, get_default_dtype, get_num_threads
from tensocket_operators.functions import linalg_norm, mm, norm
from tensocket_plugins.contract.errors import ArgumentError

#: Products of sparse and dense matrices.
spmm = dsmm = mm
_INTEROP: Final = [0]


def range(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
          device: Any = None, requires_grad: bool = False) -> Any:
    """Return numbers from ``start`` to ``end`` (included). Deprecated: use ``arange``.

    Returns:
        Shape ``(floor((end - start) / step) + 1,)``, of the default dtype unless another is given.
    """
    import tensocket

    warnings.warn("range is deprecated: use arange, which leaves out the end as Python's range does", UserWarning,
                  stacklevel=2)
    first, last = (0, start) if end is None else (start, end)
    count = math.floor((last - first) / step) + 1
    if count < 1:
        raise ArgumentError("range", f"from {first} to {last} in steps of {step}", "the step leads from start to end",
                            "change its sign")
    values: Any = arange(count, dtype=tensocket.float64, device="cpu") * step + first
    if out is not None:
        out = out if out.numel() == count else out.resize_(count)
        return out.copy_(values.view(out.shape))
    kind = get_default_dtype() if dtype is None else dtype
    return values.to(device=device, dtype=kind).requires_grad_(requires_grad)


def frobenius_norm(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Return the root of the sum of squares, over the whole tensor or some dimensions."""
    return norm(input, "fro", dim, keepdim, out=out)


def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Return the sum of singular values of matrices."""
    return linalg_norm(input, "nuc", dim, keepdim, out=out)


def _removed(name: str, instead: str) -> Callable[..., Any]:
    """Return a function for a removed name of PyTorch; it raises an error that names the successor."""
    def removed(*args: Any, **kwargs: Any) -> Any:
        raise ArgumentError(name, "a call of a removed function", "this function was deprecated and is now removed",
                            f"use {instead}")

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"Removed: use ``{instead}``."
    return removed


eig = _removed("eig", "tensocket.linalg.eig")
lstsq = _removed("lstsq", "tensocket.linalg.lstsq")
matrix_rank = _removed("matrix_rank", "tensocket.linalg.matrix_rank")
solve = _removed("solve", "tensocket.linalg.solve")
symeig = _removed("symeig", "tensocket.linalg.eigh")


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Return the norms of the slices along ``dim``, with sizes of 1 elsewhere; -1 means the whole tensor."""
    if dim == -1:
        return norm(v, pow)
    others = [axis for axis in builtins.range(v.ndim) if axis != dim]
    return norm(v, pow, others, True) if others else v.abs()


def get_num_interop_threads() -> int:
    """Return the number of threads that run operators in parallel: as set, or the number for kernels."""
    return _INTEROP[0] or get_num_threads()


def set_num_interop_threads(num: int) -> None:
    """Accept a number of threads; operators run in the program's own threads.

    Raises:
        ArgumentError: ``num`` is not positive.
    """
    if num < 1:
        raise ArgumentError("set_num_interop_threads", f"{num} threads", "there is at least one thread beside others",
                            "pass a positive integer")
    _INTEROP[0] = num


def set_flush_denormal(mode: bool) -> bool:
    """Return False: the treatment of denormal numbers cannot be changed."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True: there is no C++ ABI that could be older."""
    return True


def is_vulkan_available() -> bool:
    """Return False: no backend uses it."""
    return False


def is_distributed(input: Tensor) -> bool:
    """Return False: tensors are on one device."""
    return False


def sym_int(a: Any) -> int:
    """Return a size as an integer."""
    return int(a)


def sym_float(a: Any) -> float:
    """Return a size as a floating-point number."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether a condition does not hold."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return one of two values."""
    return t if b else f


sym_max: Final = max
sym_sum: Final = sum
sym_min: Final = min

__all__ = ["compiled_with_cxx11_abi", "dsmm", "eig", "frobenius_norm", "get_num_interop_threads", "is_distributed",
           "is_vulkan_available", "is_warn_always_enabled", "lstsq", "matrix_rank", "norm_except_dim", "nuclear_norm",
           "range", "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "solve", "spmm",
           "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum", "symeig"]
