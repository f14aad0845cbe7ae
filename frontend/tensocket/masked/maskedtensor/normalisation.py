"""Normalisations along a dimension. The mask stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_operators import functions

from .core import joined, name_of, refuse_sparse, rule


@rule("softmax", "log_softmax")
def normalise(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the normalisation of the elements that the mask holds."""
    name = name_of(func)
    options = {key: value for key, value in kwargs.items() if key in ("dim", "dtype")}
    masked, *rest = args
    refuse_sparse(masked, name)
    for key, value in zip(("dim", "dtype"), rest, strict=False):
        options[key] = value
    result = getattr(functions, f"masked_{name}")(masked.get_data(), mask=masked.get_mask(), **options)
    return joined(result, masked.get_mask())
