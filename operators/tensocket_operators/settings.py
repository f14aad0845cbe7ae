"""Performance settings of the process: threads of kernels, and the precision of matrix products."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.device import device_states, open_device
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

_PRECISIONS: Final = ("highest", "high", "medium")
_PRECISION: Final = ["highest"]


def set_num_threads(num: int) -> None:
    """Divide large kernels of the default device, and of all opened devices that have threads, over ``num`` threads.

    Raises:
        ArgumentTypeError: The number is not an integer.
        ArgumentError: The number is not positive.
    """
    if type(num) is not int:
        raise ArgumentTypeError("set_num_threads", f"a number of type {type(num).__name__}",
                                "a number of threads is an integer", "pass an int")
    if num < 1:
        raise ArgumentError("set_num_threads", f"{num} threads", "there is at least one thread",
                            "pass a positive integer")
    for state in {open_device(None), *device_states()}:
        change = getattr(state.runtime, "set_num_threads", None)
        if change is not None:
            change(num)


def get_num_threads() -> int:
    """Return the number of threads of large kernels on the default device; 1 if it has no threads of its own."""
    count: Any = getattr(open_device(None).runtime, "get_num_threads", None)
    return 1 if count is None else int(count())


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision that products of float32 matrices must have.

    ``high`` and ``medium`` permit less than float32; no backend uses that, so that all settings give equal results.

    Raises:
        ArgumentError: The precision is not ``highest``, ``high`` or ``medium``.
    """
    if precision not in _PRECISIONS:
        raise ArgumentError("set_float32_matmul_precision", repr(precision),
                            "the precision is 'highest', 'high' or 'medium'", "pass one of these")
    _PRECISION[0] = precision


def get_float32_matmul_precision() -> str:
    """Return the last argument of ``set_float32_matmul_precision``."""
    return _PRECISION[0]


__all__ = ["get_float32_matmul_precision", "get_num_threads", "set_float32_matmul_precision", "set_num_threads"]
