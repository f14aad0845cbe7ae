"""Functions other than operators that programs and graphs call by names in ``aten``."""

from __future__ import annotations

from typing import Any, Final

from .creation.record import factory
from .graph_checks import GRAPH_CHECKS
from .linalg.scaled_products import grouped_mm, int_mm, scaled_product


def _pin_memory(input: Any, device: Any = None) -> Any:
    """Return the tensor itself; copies to devices need no pinned memory."""
    return input.pin_memory(device)


def _is_pinned(input: Any, device: Any = None) -> bool:
    """Whether copies to devices read the tensor's memory directly."""
    return bool(input.is_pinned(device))


def _index(input: Any, indices: Any) -> Any:
    """Return the elements at index tensors; None selects a whole dimension."""
    return input[tuple(slice(None) if index is None else index for index in indices)]


def _reshape_alias_copy(input: Any, size: Any, stride: Any) -> Any:
    """Return a copy of the elements at the positions that sizes and strides give."""
    return input.as_strided(size, stride).clone()


#: Functions other than operators that programs and graphs call by names in ``aten``, by these names; those in other
#: namespaces by the full name.
FUNCTIONS_OF_GRAPHS: Final[dict[str, Any]] = {name: factory(function, name) for name, function in {
    "_pin_memory": _pin_memory, "is_pinned": _is_pinned, "index": _index, "_int_mm": int_mm, "_grouped_mm": grouped_mm,
    "_scaled_mm": scaled_product, "_reshape_alias_copy": _reshape_alias_copy, **GRAPH_CHECKS}.items()}

__all__ = ["FUNCTIONS_OF_GRAPHS"]
