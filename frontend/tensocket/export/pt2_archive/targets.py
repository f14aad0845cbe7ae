"""Names of the functions that nodes call: a closed list, so that a file cannot name anything else."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from tensocket._C import _set_grad_enabled
from tensocket.errors import SerializationError
from tensocket.overrides import _assert
from tensocket_compiler.graph.names import PUBLIC
from tensocket_operators.namespaces import ops

from .aten import name_of_composite, operator_named

#: Functions of numbers and containers.
_OF_OPERATOR: Final = ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "pos", "abs", "lshift",
                       "rshift", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "getitem")


def _sym_not(value: Any) -> bool:
    """Return the negation of a truth value."""
    return not value


#: Functions other than operators, by their names in files.
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in _OF_OPERATOR},
    "math.floor": math.floor, "math.ceil": math.ceil, "math.trunc": math.trunc, "builtins.int": int,
    "builtins.float": float, "builtins.round": round, "builtins.max": max, "builtins.min": min,
    "torch.sym_int": int, "torch.sym_float": float, "torch.sym_max": max, "torch.sym_min": min,
    "torch.sym_not": _sym_not, "torch._assert": _assert, "torch._C._set_grad_enabled": _set_grad_enabled}
_NAMES: Final = {function: name for name, function in reversed(FUNCTIONS.items())}
#: Functions of the built-in namespace that files must not call, because they reach beyond tensors.
_FORBIDDEN: Final = frozenset({"from_file", "frombuffer", "from_numpy", "asarray", "tofile", "share_memory_",
                               "register_hook", "map_", "map2_", "apply_", "numpy", "data_ptr", "tolist"})


def name_of_target(target: Any) -> str:
    """Return the name of a function in files.

    Raises:
        SerializationError: It has none.
    """
    found = _NAMES.get(target) or PUBLIC.name_of(target) or name_of_composite(target)
    if found is None or (found not in FUNCTIONS and not found.startswith("torch.ops.")):
        raise SerializationError("export.save", f"a node that calls {found or target!r}", "programs in files call "
                                 "operators, and functions of numbers", "call an operator, or register the function "
                                 "with torch.library")
    return found


def target_of_name(name: str) -> Callable[..., Any]:
    """Return the function with a name.

    Raises:
        SerializationError: This library has no such operator.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    parts = name.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) in (4, 5) and not any(x.startswith("__") for x in parts):
        space, own = parts[2:4]
        overload = parts[4] if len(parts) == 5 else "default"
        found = _operator(space, own, overload)
        if found is not None:
            return found
    raise SerializationError("export.load", f"a node that calls {name!r}", "nodes call operators that this library "
                             "has", "export the program with other operators, or register this one with torch.library")


def _operator(space: str, name: str, overload: str) -> Callable[..., Any] | None:
    if space != "aten":
        return getattr(getattr(getattr(ops, space), name, None), overload, None)
    return None if name in _FORBIDDEN else operator_named(name, overload)
