"""Operator functions by name, for code below the operators: empty until the operators publish theirs here.

A gradient formula or a composite calls other operators. It reads them from this module at run time, so no record has
to import the functions that are generated from all records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def publish(functions: Mapping[str, Any]) -> None:
    """Make functions available as attributes of this module, by their names."""
    globals().update(functions)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"no operator function {name!r}: operators publish their functions when they are imported")
