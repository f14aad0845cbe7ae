"""Tables of functions that compute an operator by others, which programs pass to ``run_decompositions``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from tensocket.errors import ArgumentError
from tensocket.utils import _pytree

F = TypeVar("F", bound=Callable[..., Any])

#: The tables by kind. A program adds one entry for each of its operators.
global_decomposition_table: Final[dict[str, dict[Any, Callable[..., Any]]]] = {
    "post_autograd": {}, "pre_autograd": {}, "meta": {}}
decomposition_table: Final = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table: Final = global_decomposition_table["pre_autograd"]
meta_table: Final = global_decomposition_table["meta"]


def _overloads(op: Any) -> list[Any]:
    """Return an operator's overloads; an overload is its only one."""
    return [getattr(op, name) for name in op.overloads()] if hasattr(op, "overloads") else [op]


def register_decomposition(aten_op: Any, registry: dict[Any, Callable[..., Any]] | None = None, *,
                           type: str = "post_autograd", unsafe: bool = False) -> Callable[[F], F]:
    """Put a function into a table, under one operator or several.

    Args:
        aten_op: The operator, or a list of operators; one without an overload stands for all of them.
        registry: The table; by default, that of ``type``.
        type: ``post_autograd``, ``pre_autograd`` or ``meta``.
        unsafe: Not used: functions are stored as they are.

    Raises:
        ArgumentError: There is no such type.
    """
    if type not in global_decomposition_table:
        raise ArgumentError("register_decomposition", f"type={type!r}",
                            f"type is one of {', '.join(global_decomposition_table)}", "pass one of these")
    table = global_decomposition_table[type] if registry is None else registry

    def register(function: F) -> F:
        for given in _pytree.tree_leaves(aten_op):
            table.update(dict.fromkeys(_overloads(given), function))
        return function

    return register


def get_decompositions(aten_ops: Iterable[Any], type: str = "post_autograd") -> dict[Any, Callable[..., Any]]:
    """Return the part of a table for some operators."""
    table = global_decomposition_table[type]
    wanted = [overload for op in aten_ops for overload in _overloads(op)]
    return {overload: table[overload] for overload in wanted if overload in table}


def remove_decompositions(decompositions: dict[Any, Callable[..., Any]], aten_ops: Iterable[Any]) -> None:
    """Remove some operators from a table."""
    for op in aten_ops:
        for overload in _overloads(op):
            decompositions.pop(overload, None)
