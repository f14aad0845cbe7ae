"""Creation functions."""

from __future__ import annotations

from typing import Any

import tensocket_operators as core
from tensocket_plugins.contract.errors import ArgumentError

from .promotion import is_array


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """Return start, start + step, ... up to stop (excluded); empty if step leads away from stop."""
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ArgumentError("arange", "step=0", "the step leads from start to stop", "pass another step")
    if (last - first) * step < 0:
        whole = all(isinstance(x, int) for x in (first, last, step))
        default = core.int64 if whole else core.get_default_dtype()
        return core.empty((0,), dtype=dtype or default, device=device)
    return core.arange(first, last, step, dtype=dtype, device=device)


def _nested(obj: Any) -> bool:
    """Whether a sequence has arrays among its elements."""
    return isinstance(obj, (list, tuple)) and any(is_array(x) or _nested(x) for x in obj)


def _joined(obj: Any) -> Any:
    """Stack nested sequences with arrays in them."""
    parts = [x if is_array(x) else _joined(x) if isinstance(x, (list, tuple)) else core.tensor(x) for x in obj]
    return core.stack(parts)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """Return an array, a number, nested sequences, or an object of the buffer protocol as an array.

    Args:
        obj: The data.
        dtype: Dtype of the result; that of the data by default.
        device: Device of the result.
        copy: True always copies, False never, None if needed.

    Raises:
        ArgumentError: ``copy`` is False and a copy is needed, or an integer does not fit the dtype.
    """
    if _nested(obj):
        return asarray(_joined(obj), dtype=dtype, device=device)
    return core.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an uninitialised array."""
    return core.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an uninitialised array with another array's shape."""
    return core.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """Return ones on the k-th diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    wanted = dtype or core.get_default_dtype()
    rows = core.arange(n_rows, device=device).reshape(n_rows, 1)
    diagonal = max(-n_rows, min(k, columns))  # diagonals further away are empty and may exceed 64 bits
    return (core.arange(columns, device=device) - rows == diagonal).to(wanted)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return an array on the memory of an object that supports DLPack."""
    return core.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of one value."""
    return core.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return an array of one value, with another array's shape."""
    return core.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
             endpoint: bool = True) -> Any:
    """Return ``num`` evenly spaced values from start to stop, with or without stop."""
    mixed = isinstance(start, complex) or isinstance(stop, complex)
    if mixed or (dtype is not None and dtype.is_complex):
        wanted = dtype or (core.complex128 if core.get_default_dtype() is core.float64 else core.complex64)
        part = core.float64 if wanted is core.complex128 else core.float32
        first, last = complex(start), complex(stop)
        return core.complex(linspace(first.real, last.real, num, dtype=part, device=device, endpoint=endpoint),
                            linspace(first.imag, last.imag, num, dtype=part, device=device, endpoint=endpoint))
    if endpoint:
        return core.linspace(start, stop, num, dtype=dtype, device=device)
    return core.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Return the coordinates of a grid."""
    return list(core.meshgrid(*arrays, indexing=indexing))


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return ones."""
    return core.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return ones with another array's shape."""
    return core.ones_like(x, dtype=dtype, device=device)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """Return the lower triangles of matrices, up to the k-th diagonal."""
    return core.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """Return the upper triangles of matrices, from the k-th diagonal on."""
    return core.triu(x, k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Return zeros."""
    return core.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Return zeros with another array's shape."""
    return core.zeros_like(x, dtype=dtype, device=device)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
