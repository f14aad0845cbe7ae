"""Names that have no honest meaning here: calling one raises an error with the reason and what to do instead."""

from __future__ import annotations

from copy import copy
from typing import Any

from tensocket.errors import UnsupportedOperator


def refused(path: str, names: str, rule: str, advice: str) -> dict[str, type]:
    """Return classes by name that cannot be called, but that programs import, subclass and ask ``isinstance`` about.

    Args:
        path: The module of the names, as errors give it.
        names: The names, with spaces between them.
        rule: Why a call is not possible.
        advice: The alternative.
    """
    def refuse(cls: Any, *_: Any, **__: Any) -> Any:
        raise copy(cls._refusal)

    return {name: type(name, (), {"__new__": refuse, "__module__": f"tensocket.{path}", "__doc__": f"Refused: {rule}.",
                                  "_refusal": UnsupportedOperator(f"{path}.{name}", "a call", rule, advice)})
            for name in names.split()}
