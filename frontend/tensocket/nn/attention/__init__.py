"""The choice of an implementation of attention. There is only one, so the choice has no effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from tensocket.backends import cuda
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError


class SDPBackend(Enum):
    """Implementations of scaled dot-product attention that programs name."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        """Return PyTorch's number of the implementation."""
        return self.value

    __index__ = __int__


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose for a block which implementations of attention may run; there is one, which always runs.

    Args:
        backends: One or several implementations.
        set_priority: Accepted as in PyTorch.

    Raises:
        ArgumentTypeError: An argument is not an ``SDPBackend``.
        ArgumentError: The list is empty.
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, Sequence) or not all(isinstance(one, SDPBackend) for one in given):
        raise ArgumentTypeError("sdpa_kernel", repr(backends), "a form of attention is an SDPBackend",
                                "pass for example SDPBackend.MATH")
    if not given:
        raise ArgumentError("sdpa_kernel", "no forms of attention", "at least one form of attention is allowed",
                            "pass for example SDPBackend.MATH")
    with cuda.sdp_kernel(SDPBackend.FLASH_ATTENTION in given, SDPBackend.MATH in given,
                         SDPBackend.EFFICIENT_ATTENTION in given, SDPBackend.CUDNN_ATTENTION in given):
        yield


__all__ = ["SDPBackend", "sdpa_kernel"]
