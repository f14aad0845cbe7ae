"""Records of operators and their families, for the generators in this folder."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGE: Final = Path(__file__).parents[1] / "operators" / "tensocket_operators"

if "tensocket_operators" not in sys.modules:
    # Without the package's __init__: it imports modules generated from the records, which may be missing or stale.
    sys.modules["tensocket_operators"] = ModuleType("tensocket_operators")
    sys.modules["tensocket_operators"].__path__ = [str(PACKAGE)]

import tensocket_operators.records  # noqa: E402, F401  defines all records
from tensocket_core.dispatch.operator import Operator  # noqa: E402
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS  # noqa: E402


def records() -> list[Operator]:
    """Return all records that programs can call, in order of definition."""
    return [o for o in (*OPERATORS.values(), *COMPOSITES.values()) if o.function or o.method or o.dunder]


def defining_module(record: Operator) -> str:
    """Return the module that defines a record; an in-place form belongs to the module of its out-of-place form."""
    origin = getattr(record, "origin", record)
    told_by = getattr(origin, "body", None) or getattr(origin, "formula", None)
    return _modules().get(origin.name) or str(getattr(told_by, "__module__", ""))


def family(record: Operator) -> tuple[str, ...]:
    """Return the folder of the defining module inside of its package: ``("nn", "losses")``, or () for the package."""
    return tuple(defining_module(record).split(".")[1:-1])


@cache
def _modules() -> dict[str, str]:
    """Return by record name the module that has the record as an attribute."""
    found: dict[str, str] = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("tensocket_operators.") and "._functions" not in name:
            for value in vars(module).values():
                if isinstance(value, Operator):
                    found.setdefault(value.name, name)
    return found
