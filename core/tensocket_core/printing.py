"""``repr`` of tensors, in PyTorch's form."""

from __future__ import annotations

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
    shown = _summarised(values).ravel()
    words = _format_numbers(shown)
    width = max(map(len, words), default=0)
    lookup = iter(words) if values.ndim == 0 else iter([w.rjust(width) for w in words])
    return _nest(values.shape, lookup, len(_PREFIX), values.size > _THRESHOLD)


def _summarised(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that are shown."""
    if values.size <= _THRESHOLD:
        return values
    for axis, size in enumerate(values.shape):
        if size > 2 * _EDGE:
            values = np.take(values, [*range(_EDGE), *range(size - _EDGE, size)], axis)
    return values


def _format_numbers(values: np.ndarray[Any, Any]) -> list[str]:
    if values.dtype.kind not in "f":
        return [str(v) for v in values.tolist()]
    numbers = values.astype(np.float64)
    finite = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    whole = bool(np.all(finite == np.floor(finite)))
    large = finite.size > 0 and (finite.max() / finite.min() > 1000 or finite.max() > 1e8 or finite.min() < 1e-4)
    if finite.size > 0 and ((large and not whole) or finite.max() > 1e8):
        return [f"{v:.4e}" for v in numbers]
    return [_word(v, "{:.0f}." if whole else "{:.4f}") for v in numbers]


def _word(value: float, form: str) -> str:
    return form.format(value) if np.isfinite(value) else str(value)


def _nest(shape: tuple[int, ...], words: Any, indent: int, summary: bool) -> str:
    """Brackets around the words of one dimension."""
    if not shape:
        return str(next(words))
    size = shape[0]
    cut = summary and size > 2 * _EDGE
    inner = [_nest(shape[1:], words, indent + 1, summary) for _ in range(2 * _EDGE if cut else size)]
    if cut:
        inner.insert(_EDGE, "...")
    return _block(inner, len(shape), indent) if len(shape) > 1 else _line(inner, indent)


def _block(parts: list[str], rank: int, indent: int) -> str:
    return "[" + ("," + "\n" * (rank - 1) + " " * (indent + 1)).join(parts) + "]"


def _line(parts: list[str], indent: int) -> str:
    per_line = max(1, (_WIDTH - indent - 1) // (max(map(len, parts), default=0) + 2))
    lines = [", ".join(parts[k:k + per_line]) for k in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
