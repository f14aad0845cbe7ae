"""Tensors with a copy of host values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError

from .. import tensors
from ..device import DeviceEntry
from ..dispatch.factories import seen, watched
from ..dispatch.keys import dtype_bit
from ..dispatch.modes import ACTIVE
from ..execute.convert import to_dtype
from ..execute.copying import from_host
from ..interop.numpy import array_dtype
from ..promotion import number_dtype
from .base import check_range, options

_CATEGORY_OF_KIND: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def from_values(values: np.ndarray[Any, Any], dtype: DType, entry: DeviceEntry) -> Any:
    """A tensor with a copy of host values, converted to ``dtype``."""
    return tensors.wrap(from_host(entry, to_dtype(values, dtype), dtype), entry.key | dtype_bit(dtype))


def _host_values(data: Any, dtype: Any) -> tuple[np.ndarray[Any, Any], DType]:
    """Nested lists, numbers or arrays as NumPy values, and the dtype they get."""
    leaf = _first_leaf(data)
    if isinstance(data, (list, tuple)):
        data = _plain(data)
    try:
        values = np.asarray(data)
        if dtype is dtypes.uint64 and type(leaf) is int and values.dtype.kind == "f":
            values = np.asarray(data, np.uint64)  # NumPy takes integers on both sides of 2 ** 63 for floats
    except OverflowError:
        raise ArgumentError("tensor", "an integer of more than 64 bits", "integers fit int64", "pass a float") from None
    except ValueError:
        raise ShapeError(
            "tensor", "nested lists of different lengths", "rows have equal lengths", "pad the shorter rows"
        ) from None
    if values.dtype == object and type(leaf) is int:
        raise ArgumentError("tensor", f"the integer {leaf}", "integers fit int64", "pass a float")
    if values.dtype == object or values.dtype.kind in "USmMV":
        raise ArgumentTypeError(
            "tensor", f"values of type {type(data).__name__}", "elements are numbers", "convert them to numbers"
        )
    if dtype is not None:
        return values, dtype
    if isinstance(leaf, (np.ndarray, np.generic)):
        return values, array_dtype("tensor", values)
    if hasattr(leaf, "_key"):
        return values, leaf.dtype if values.dtype.kind == leaf.dtype.kind[0] else number_dtype(
            _CATEGORY_OF_KIND[values.dtype.kind]
        )
    if values.dtype.kind == "u":  # Python integers beyond int64
        raise ArgumentError(
            "tensor", f"the integer {values.max()}", "integers fit int64", "pass a float, or dtype=tensocket.uint64"
        )
    return values, number_dtype(2 if values.size == 0 else _CATEGORY_OF_KIND[values.dtype.kind])


def _first_leaf(data: Any) -> Any:
    """The first number, array or tensor of nested sequences: it tells whether these are plain Python."""
    while isinstance(data, (list, tuple)):
        if not data:
            return None
        data = data[0]
    return data


def _plain(data: Any) -> Any:
    """Nested sequences with tensors replaced by host values."""
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    return data.tolist() if hasattr(data, "_key") else data


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """A tensor with a copy of ``data``: numbers, nested lists, a NumPy array or a tensor.

    >>> tensor([[1, 2], [3, 4]]).sum().item()
    10

    Raises:
        ArgumentTypeError: The elements are not numbers.
        ShapeError: Nested lists have different lengths.
    """
    if rest or (ACTIVE and watched()):
        return seen(tensor, data, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    if hasattr(data, "_key"):
        result = data.detach().to(
            data.device if device is None else device, data.dtype if dtype is None else dtype, copy=True
        )
        return result.requires_grad_(requires_grad) if requires_grad else result
    values, chosen = _host_values(data, dtype)
    chosen, entry = options("tensor", chosen, device)
    if values.dtype.kind == "c" and not chosen.is_complex and not isinstance(data, np.ndarray):
        raise ArgumentTypeError("tensor", f"complex numbers for {chosen.name}", "real dtypes hold real numbers",
                                "pass a complex dtype, or the real parts")
    if dtype is not None and values.size and not isinstance(data, np.ndarray) and values.dtype.kind in "iuf":
        check_range("tensor", values.max(), chosen)
        check_range("tensor", values.min(), chosen)
    result = from_values(values, chosen, entry)
    if requires_grad:
        result.requires_grad = True
    return result
