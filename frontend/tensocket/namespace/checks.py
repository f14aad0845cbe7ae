"""Checks that programs write as functions: ``_check(condition, message)`` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentTypeError
from tensocket_operators import Tensor

Message = Callable[[], Any]
_UNSPECIFIED = ("Expected cond to be True, but got False. (Could this error message be improved? If so, please report "
                "an enhancement request to PyTorch.)")


def _check_with(error_type: type[Exception], cond: Any, message: Message | None) -> None:
    """Raise ``error_type(message())`` unless ``cond`` is true.

    Raises:
        ArgumentTypeError: ``cond`` is not a bool, or ``message`` is not a function.
    """
    if not isinstance(cond, bool):
        raise ArgumentTypeError("_check", f"a {type(cond).__name__}", "cond must be a bool",
                                "convert it with bool(...)")
    if cond:
        return
    if message is not None and not callable(message):
        raise ArgumentTypeError("_check", f"a message of type {type(message).__name__}", "message must be a callable",
                                "pass lambda: text, which runs only if the check fails")
    raise error_type(_UNSPECIFIED if message is None else str(message()))


def _check(cond: Any, message: Message | None = None) -> None:
    """Raise a RuntimeError unless ``cond`` is true."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message | None = None) -> None:
    """Raise an IndexError unless ``cond`` is true."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message | None = None) -> None:
    """Raise a ValueError unless ``cond`` is true."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message | None = None) -> None:
    """Raise a TypeError unless ``cond`` is true."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message | None = None) -> None:
    """Raise a NotImplementedError unless ``cond`` is true."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message | None = None, *, max: Any = None) -> None:
    """Raise a RuntimeError unless ``i`` is at least 0, and at most ``max`` if that is given."""
    _check(bool(i >= 0), message)
    if max is not None:
        _check(bool(i <= max), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message | None = None) -> None:
    """Raise ``error_type(message())`` unless all elements of ``cond`` are true.

    Raises:
        ArgumentTypeError: ``cond`` is not a tensor of bools.
    """
    if not isinstance(cond, Tensor) or cond.dtype.name != "bool":
        raise ArgumentTypeError("_check_tensor_all", f"a {getattr(cond, 'dtype', type(cond).__name__)}",
                                "cond must be a tensor with dtype torch.bool", "compare first")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Message | None = None) -> None:
    """Raise a RuntimeError unless all elements of ``cond`` are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise a RuntimeError unless the single element is not zero."""
    _check(bool(input.item()), lambda: assert_msg)
