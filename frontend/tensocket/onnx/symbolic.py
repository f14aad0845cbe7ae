"""Registrations for PyTorch's former exporter, which libraries make when they are imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import ArgumentError

#: By the operator's name and the operator set, functions that say how operators of libraries are exported.
SYMBOLIC: Final[dict[tuple[str, int], Callable[..., Any]]] = {}
_NAME: Final = re.compile(r"\w+(\.\w+)*::\w+(\.\w+)*")


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Record how the former exporter writes an operator; ``export`` has ``custom_translation_table`` instead.

    Args:
        symbolic_name: ``domain::operator``.
        symbolic_fn: A function of the graph and the operator's arguments.
        opset_version: The first operator set that it is for.

    Raises:
        ArgumentError: The name has another form.
    """
    SYMBOLIC[_checked("register_custom_op_symbolic", symbolic_name), opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget how an operator is exported; do nothing if it was not recorded.

    Raises:
        ArgumentError: The name has another form.
    """
    SYMBOLIC.pop((_checked("unregister_custom_op_symbolic", symbolic_name), opset_version), None)


def _checked(operator: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ArgumentError(operator, f"the name {name!r}", "Failed to register operator: the symbolic name is "
                            "domain::name", "write it in this form")
    return name


__all__ = ["register_custom_op_symbolic", "unregister_custom_op_symbolic"]
