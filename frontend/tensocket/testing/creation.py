"""Tensors of random values for tests."""

from __future__ import annotations

from typing import Any, Final

import tensocket
from tensocket_core import Tensor
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

#: Values lie between these by default.
_DEFAULTS: Final = {"bool": (0, 2), "uint": (0, 10), "int": (-9, 10), "float": (-9, 9), "complex": (-9, 9)}


def make_tensor(*shape: Any, dtype: DType, device: Any = None, low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: Any = None) -> Tensor:
    """A tensor of values drawn evenly from ``[low, high)``.

    Args:
        shape: Sizes.
        dtype: The dtype.
        device: The device.
        low: Smallest value; by default 0 for bool and unsigned integers, -9 for others.
        high: Values are smaller; by default 2 for bool, 10 for integers, 9 for others.
        requires_grad: Whether the tensor records gradients.
        noncontiguous: Whether elements lie apart from each other.
        exclude_zero: Whether zeros become the smallest number above.
        memory_format: Order in memory.

    Raises:
        ArgumentError: There is no value between the bounds, or both forms of memory are asked for.
    """
    if noncontiguous and memory_format is not None:
        raise ArgumentError("make_tensor", "noncontiguous and a memory format", "one form of memory is asked for",
                            "leave one of them out")
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    first, last = _DEFAULTS[dtype.kind]
    low, high = first if low is None else low, last if high is None else high
    if low >= high:
        raise ArgumentError("make_tensor", f"low={low}, high={high}", "the lower bound lies below the upper one",
                            "exchange them")
    wide = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    result: Any = _drawn(wide, dtype, device, low, high)
    if noncontiguous and sizes:
        result = result[..., ::2]
    if exclude_zero:
        result[result == 0] = 1 if dtype.kind in ("int", "uint", "bool") else tensocket.finfo(dtype).tiny
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    result.requires_grad = requires_grad
    return result  # type: ignore[no-any-return]


def _drawn(sizes: tuple[int, ...], dtype: DType, device: Any, low: float, high: float) -> Any:
    if dtype.kind in ("bool", "int", "uint"):
        return tensocket.randint(int(low), int(high), sizes, device=device).to(dtype)
    if dtype.is_complex:
        part = tensocket.float64 if dtype is tensocket.complex128 else tensocket.float32
        return tensocket.complex(_drawn(sizes, part, device, low, high), _drawn(sizes, part, device, low, high))
    uniform = tensocket.float32 if dtype.itemsize < 4 else dtype
    return (tensocket.rand(sizes, dtype=uniform, device=device) * (high - low) + low).to(dtype)
