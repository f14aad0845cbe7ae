"""Programs' decompositions for the code generator: advice, which compiled graphs need not follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensocket._decomp as decomp

#: The functions by operator. Compiled graphs look into operators that have a body, and call others as they are.
decompositions: Final[dict[Any, Callable[..., Any]]] = {}


def register_decomposition(ops: Any) -> Callable[[decomp.F], decomp.F]:
    """Store a function that computes an operator, or each of a list, by others."""
    return decomp.register_decomposition(ops, decompositions)


def select_decomp_table() -> dict[Any, Callable[..., Any]]:
    """Return the functions by operator."""
    return decompositions
