"""Tensors of random values for tests."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

import tensocket
from tensocket_operators import Tensor
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

#: Default bounds of the values.
_DEFAULTS: Final = {"bool": (0, 2), "uint": (0, 10), "int": (-9, 10), "float": (-9, 9), "complex": (-9, 9)}


def make_tensor(*shape: Any, dtype: DType, device: Any = None, low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: Any = None) -> Tensor:
    """Return a tensor of values that are uniformly distributed in ``[low, high)``.

    Bounds beyond the range of the dtype become its smallest or largest number.

    Args:
        shape: Sizes.
        dtype: The dtype.
        device: The device.
        low: Smallest value; by default 0 for bool and unsigned integers, -9 for others.
        high: Upper bound (excluded); by default 2 for bool, 10 for integers, 9 for others.
        requires_grad: Whether the tensor records gradients.
        noncontiguous: Whether elements are not adjacent, if there are two or more.
        exclude_zero: Whether zeros become the smallest positive number.
        memory_format: Memory format.

    Raises:
        ArgumentError: The dtype has no value between the bounds or no gradient, or both memory options are given.
    """
    if noncontiguous and memory_format is not None:
        raise ArgumentError("make_tensor", "both", "`noncontiguous` and `memory_format` are mutually exclusive",
                            "leave one of them out")
    whole = dtype.category < 2
    if requires_grad and whole:
        raise ArgumentError("make_tensor", dtype.name, "`requires_grad=True` is not supported for boolean and integral "
                            "dtypes", "leave it out")
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    low, high = _bounds(dtype, low, high)
    apart = noncontiguous and math.prod(sizes) > 1
    wide = (*sizes[:-1], 2 * sizes[-1]) if apart else sizes
    result: Any = _drawn(wide, dtype, device, low, high)
    if apart:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if whole else tensocket.finfo(dtype).tiny
    result.requires_grad = requires_grad
    return result  # type: ignore[no-any-return]


def _bounds(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """Return bounds within the range of the dtype; whole numbers for integers.

    Raises:
        ArgumentError: The bounds are not numbers, or no value of the dtype is between them.
    """
    first, last = _DEFAULTS[dtype.kind]
    low, high = first if low is None else low, last if high is None else high
    given = f"low={low}, high={high} for {dtype.name}"
    if low != low or high != high:
        raise ArgumentError("make_tensor", given, "`low` and `high` cannot be NaN", "pass numbers")
    if low == high and dtype.category >= 2:
        warnings.warn("Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated: "
                      "use full(...) instead", FutureWarning, stacklevel=3)
    elif low >= high:
        raise ArgumentError("make_tensor", given, "`low` must be less than `high`", "exchange them")
    least: float
    most: float
    if dtype.kind == "bool":
        least, most = 0, 2
    elif dtype.category < 2:
        info = tensocket.iinfo(dtype)
        least, most = info.min, info.max + (dtype.itemsize < 8)
    else:
        least, most = tensocket.finfo(dtype).min, tensocket.finfo(dtype).max
    if high < least or low >= most:
        raise ArgumentError("make_tensor", given, "the interval has values of the dtype", "choose other bounds")
    low, high = min(max(low, least), most), min(max(high, least), most)
    return (math.ceil(low), math.ceil(high)) if dtype.category < 2 else (low, high)


def _drawn(sizes: tuple[int, ...], dtype: DType, device: Any, low: float, high: float) -> Any:
    if dtype.category < 2:
        return tensocket.randint(int(low), int(high), sizes, device=device, dtype=dtype)
    if dtype.is_complex:
        part = dtype.to_real()
        return tensocket.complex(_drawn(sizes, part, device, low, high), _drawn(sizes, part, device, low, high))
    kept = tensocket.float32 if dtype.itemsize == 1 else dtype
    result = tensocket.empty(sizes, dtype=kept, device=device)
    if low == high:
        result.fill_(low)
    elif high - low >= tensocket.finfo(kept).max:
        result.uniform_(low / 2, high / 2).mul_(2)
    else:
        result.uniform_(low, high)
    return result.to(dtype)
