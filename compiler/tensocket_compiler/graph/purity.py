"""Which nodes do more than to return a value: dead code elimination and the removal of duplicates leave them alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .names import PUBLIC

if TYPE_CHECKING:
    from .node import Node

Function = TypeVar("Function", bound=Callable[..., Any])

#: Functions that programs and the front end have declared to have an effect.
SIDE_EFFECTS: Final[set[Any]] = {operator.setitem, operator.delitem, operator.iadd, operator.isub, operator.imul,
                                 operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow, operator.iand,
                                 operator.ior, operator.ixor, operator.ilshift, operator.irshift, operator.imatmul}
#: Public names of functions that draw from a random generator, without their namespace.
RANDOM: Final[set[str]] = set()


def has_side_effect(fn: Function) -> Function:
    """Declare, as a decorator or call, that a function does more than to return a value.

    Returns:
        The function.
    """
    SIDE_EFFECTS.add(fn)
    return fn


def is_impure(node: Node, impure_random: bool = True) -> bool:
    """Whether a node stays in its graph although nothing uses it.

    Args:
        node: The node.
        impure_random: Whether drawing random numbers counts.
    """
    if node.op in ("placeholder", "output"):
        return True
    if node.op == "call_function":
        return _is_impure_function(node.target, impure_random)
    if node.op == "call_method":
        name = node.target
        return (name.endswith("_") and not name.endswith("__")) or name in ("__setitem__", "__delitem__")
    if node.op == "call_module":
        owner: Any = node.graph.owning_module
        if owner is None:
            return True
        return bool(getattr(owner.get_submodule(node.target), "_is_impure", False))
    return False


def is_random(target: Any) -> bool:
    """Whether a function draws from a random generator."""
    name = PUBLIC.name_of(target)
    return name is not None and name.removesuffix(".default").rpartition(".")[2] in RANDOM


def _is_impure_function(target: Any, impure_random: bool) -> bool:
    if target in SIDE_EFFECTS or (impure_random and is_random(target)):
        return True
    if getattr(target, "kind", None) == "inplace":  # an operator's record
        return True
    name = str(getattr(target, "__name__", "")).partition(".")[0]
    # In-place functions of tensors end in an underscore; Python's special methods in two.
    own = str(getattr(target, "__module__", "")).partition(".")[0] in _OWN
    return own and name.endswith("_") and not name.endswith("__")


#: First part of the modules whose functions follow the convention of the underscore.
_OWN: Final = ("tensocket", "tensocket_operators", "tensocket_core", "torch")
