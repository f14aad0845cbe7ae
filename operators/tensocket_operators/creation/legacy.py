"""The old constructors, ``Tensor(2, 3)``, ``FloatTensor([1, 2])`` and ``x.new(...)``: sizes, values or memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_core.tensor import Size
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError

from .data import is_storage, tensor
from .sizes import empty


def legacy_arguments(operator: str, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return the positional arguments, or the argument that is named ``size`` or ``data``.

    Raises:
        ArgumentTypeError: There are other keywords, or both kinds of arguments.
    """
    if not named:
        return given
    if given or len(named) > 1 or not named.keys() <= {"size", "data"}:
        raise ArgumentTypeError(operator, f"arguments named {', '.join(named)}", "old constructors take sizes or data",
                                "use tensocket.tensor, empty or zeros")
    return (Size(named["size"]),) if "size" in named else (named["data"],)


def is_size(operator: str, value: Any) -> bool:
    """Whether the only argument of an old constructor is a size or several, not values.

    Raises:
        ArgumentTypeError: The argument is a number but not an integer.
    """
    if isinstance(value, (float, complex, np.inexact)):
        raise ArgumentTypeError(operator, f"the number {value}", "a single number is a size, which is an integer",
                                f"use tensocket.tensor({value}), or a list of one number")
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, (int, np.integer, Size))


def make_legacy(operator: str, given: tuple[Any, ...], named: dict[str, Any], dtype: DType, device: Any) -> Any:
    """Return the tensor of an old constructor: from sizes or values, or on the memory of a tensor or a storage.

    Raises:
        ArgumentTypeError: A tensor has another dtype, or arguments are of unknown kinds.
        ArgumentError: A storage has another dtype.
        DeviceMismatch: A tensor or storage is on another device.
    """
    data = legacy_arguments(operator, given, named)
    if len(data) != 1:
        return empty(*(data or (0,)), dtype=dtype, device=device)
    value = data[0]
    if hasattr(value, "_key"):
        if value.dtype is not dtype:
            raise ArgumentTypeError(operator, f"a tensor of {value.dtype.name}", f"memory that is shared has the dtype "
                                    f"{dtype.name}", "use .to(dtype), or tensor(data, dtype=...)")
        return empty(0, dtype=dtype, device=device).set_(value.detach())
    if is_storage(value):
        return empty(0, dtype=dtype, device=device).set_(value)
    if isinstance(value, (tuple, list)) and not value and type(value) is not Size:
        return empty(0, dtype=dtype, device=device)
    if is_size(operator, value):
        return empty(value, dtype=dtype, device=device)
    return tensor(value, dtype=dtype, device=device)
