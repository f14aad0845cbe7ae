"""Names that have no honest meaning here: calling one raises an error with the reason and what to do instead."""

from __future__ import annotations

from copy import copy
from typing import Any

from tensocket.errors import UnsupportedOperator
from tensocket.overrides import handle_torch_function, has_torch_function


def refused(path: str, names: str, rule: str, advice: str) -> dict[str, type]:
    """Return classes by name that cannot be called, but that programs import, subclass and ask ``isinstance`` about.

    Args:
        path: The module of the names, as errors give it; empty for the main namespace.
        names: The names, with spaces between them.
        rule: Why a call is not possible.
        advice: The alternative.
    """
    def refuse(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function(args):  # a tracer records the call; others may serve it
            return handle_torch_function(cls, args, *args, **kwargs)
        raise copy(cls._refusal)

    module, start = ("tensocket", "") if not path else (f"tensocket.{path}", f"{path}.")
    return {name: type(name, (), {"__new__": refuse, "__module__": module, "__doc__": f"Refused: {rule}.",
                                  "_refusal": UnsupportedOperator(start + name, "a call", rule, advice)})
            for name in names.split()}
