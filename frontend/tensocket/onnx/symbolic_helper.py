"""Tools of functions that say how operators are exported to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that records how an exporter passes arguments to a function.

    Args:
        arg_descriptors: For each argument after the graph, ``v`` for a value of the graph, ``i``, ``f``, ``s``, ``b``
            for constants, ``is`` and ``fs`` for lists of them, ``t`` for tensors, ``none`` for nothing.
    """
    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        fn._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]
        return fn

    return decorate


__all__ = ["parse_args"]
