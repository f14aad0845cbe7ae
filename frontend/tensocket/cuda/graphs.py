"""Graphs of a device's driver: not supported; ``compile`` makes graphs of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import UnsupportedOperator


def _refusal(name: str) -> UnsupportedOperator:
    return UnsupportedOperator(name, "a graph of a stream's work", "streams are not recorded",
                               "compile the function with tensocket.compile, whose graphs replay launches")


class CUDAGraph:
    """A recorded sequence of launches; there are none.

    Raises:
        UnsupportedOperator: Always.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        raise _refusal("CUDAGraph")


class graph:
    """A block whose launches are recorded; there are none.

    Raises:
        UnsupportedOperator: Always.
    """

    def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
                 ) -> None:
        raise _refusal("cuda.graph")


def make_graphed_callables(callables: Callable[..., Any], sample_args: Any, num_warmup_iters: int = 3,
                           allow_unused_input: bool = False, pool: Any = None) -> Any:
    """Refuse to record functions.

    Raises:
        UnsupportedOperator: Always.
    """
    raise _refusal("make_graphed_callables")


__all__ = ["CUDAGraph", "graph", "make_graphed_callables"]
