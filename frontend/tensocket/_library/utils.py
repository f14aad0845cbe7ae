"""Lookup of operators."""

from __future__ import annotations

from typing import Any

from tensocket._custom_op.checks import is_functional_schema
from tensocket_operators.library.libraries import find_operator


def lookup_op(qualname: str) -> Any:
    """Return the record of ``ns::name`` or ``ns::name.overload``."""
    return find_operator(qualname)


__all__ = ["is_functional_schema", "lookup_op"]
