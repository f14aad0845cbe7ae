"""Types of Python annotations that schemas support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import tensocket
from tensocket_operators import Tensor
from tensocket_operators.library import infer_schema

_NUMBER: Final = int | float | bool
_BASES: Final[dict[Any, str]] = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
                                 _NUMBER: "Scalar", tensocket.dtype: "ScalarType", tensocket.device: "Device"}
#: Types that schemas support in lists, and in lists with None.
_LISTED: Final = (Tensor, int, float, bool)


def _parameters() -> dict[Any, str]:
    found = {form: text for kind, base in _BASES.items() for form, text in ((kind, base), (kind | None, f"{base}?"))}
    for kind in _LISTED:
        for many in (Sequence[kind], list[kind]):  # type: ignore[valid-type]
            found[many] = f"{_BASES[kind]}[]"
            found[many | None] = f"{_BASES[kind]}[]?"
    found[Sequence[Tensor | None]] = found[list[Tensor | None]] = "Tensor?[]"
    return found


SUPPORTED_PARAM_TYPES: Final[dict[Any, str]] = _parameters()
SUPPORTED_RETURN_TYPES: Final[dict[Any, str]] = {
    Tensor: "Tensor", list[Tensor]: "Tensor[]", int: "SymInt", float: "float", bool: "bool", _NUMBER: "Scalar"}
__all__ = ["SUPPORTED_PARAM_TYPES", "SUPPORTED_RETURN_TYPES", "infer_schema"]
