"""``repr`` of tensors, in PyTorch's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes

if TYPE_CHECKING:
    from .tensors import Tensor

_THRESHOLD: Final = 1000
_EDGE: Final = 3
_WIDTH: Final = 80
_PREFIX: Final = "tensor("


def format_tensor(tensor: Tensor) -> str:
    """The tensor's values and what is not the default of dtype, device and autograd."""
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if tensor.numel() == 0 and len(tensor.shape) != 1:
        suffixes.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype not in (dtypes.float32, dtypes.int64, dtypes.bool_) or (
            tensor.numel() == 0 and tensor.dtype is not dtypes.float32):
        suffixes.append(f"dtype={tensor.dtype!r}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    values = tensor._values()
    body = "[]" if values.size == 0 else _format_array(values)
    text = _PREFIX + body
    for suffix in suffixes:
        wide = len(text) - (text.rfind("\n") + 1) + len(suffix) + 3 > _WIDTH
        text += ",\n" + " " * len(_PREFIX) + suffix if wide else ", " + suffix
    return text + ")"


def _format_array(values: np.ndarray[Any, Any]) -> str:
    words, width = _format_numbers(_summarised(values).ravel())
    return _nest(values.shape, iter([w.rjust(width) for w in words]), width, len(_PREFIX), values.size > _THRESHOLD)


def _summarised(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that are shown."""
    if values.size <= _THRESHOLD:
        return values
    for axis, size in enumerate(values.shape):
        if size > 2 * _EDGE:
            values = np.take(values, [*range(_EDGE), *range(size - _EDGE, size)], axis)
    return values


def _format_numbers(values: np.ndarray[Any, Any]) -> tuple[list[str], int]:
    """Words for the numbers, and the width of a column: that of numbers other than 0, infinity and NaN."""
    if values.dtype.kind != "f":
        words = [str(v) for v in values.tolist()]
        return words, max(map(len, words))
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers) & (numbers != 0)]
    form = _form(finite)
    return [_word(v, form) for v in numbers], max((len(_word(v, form)) for v in finite), default=1)


def _form(finite: np.ndarray[Any, Any]) -> str:
    """Format of finite numbers: whole, with four digits, or scientific where magnitudes differ much."""
    size = np.abs(finite)
    if size.size and (size.max() / size.min() > 1000 or size.max() > 1e8 or size.min() < 1e-4):
        return "{:.4e}"
    return "{:.0f}." if np.all(size == np.floor(size)) else "{:.4f}"


def _word(value: float, form: str) -> str:
    return form.format(value) if np.isfinite(value) else str(value)


def _nest(shape: tuple[int, ...], words: Iterator[str], width: int, indent: int, summary: bool) -> str:
    """Brackets around the words of one dimension."""
    if not shape:
        return next(words)
    size = shape[0]
    cut = summary and size > 2 * _EDGE
    inner = [_nest(shape[1:], words, width, indent + 1, summary) for _ in range(2 * _EDGE if cut else size)]
    if cut:
        inner.insert(_EDGE, "..." if len(shape) > 1 else " ...")
    return _block(inner, len(shape), indent) if len(shape) > 1 else _line(inner, width, indent)


def _block(parts: list[str], rank: int, indent: int) -> str:
    return "[" + ("," + "\n" * (rank - 1) + " " * (indent + 1)).join(parts) + "]"


def _line(parts: list[str], width: int, indent: int) -> str:
    per_line = max(1, (_WIDTH - indent) // (width + 2))
    lines = [", ".join(parts[k:k + per_line]) for k in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
