"""All operators of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .operator import Operator

#: Composite operators by name; a composite may have the name of the operator that does its work.
COMPOSITES: Final[dict[str, Operator]] = {}
#: All other operators by name.
OPERATORS: Final[dict[str, Operator]] = {}


def clear_tables() -> None:
    """Forget all resolved closures; called when kernels or fallback settings change."""
    for operator in (*OPERATORS.values(), *COMPOSITES.values()):
        operator.table.clear()
