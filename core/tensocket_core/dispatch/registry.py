"""All operators of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .operator import Operator

#: Composite operators by name; a composite may share its name with the operator that does its work.
COMPOSITES: Final[dict[str, Operator]] = {}
#: All other operators by name.
OPERATORS: Final[dict[str, Operator]] = {}


def clear_tables() -> None:
    """Clear the tables of all operators, after kernels or fallback settings changed."""
    for operator in (*OPERATORS.values(), *COMPOSITES.values()):
        operator.table.clear()
