"""Finds VECTOR loops that can become vector instructions, with one lane per iteration.

Their bodies contain only definitions, stores, conditions and SERIAL loops that all lanes run together; functions that
the C library computes have no vector form.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..contract.dtypes import DType
from .functions import FUNCTIONS
from .nodes import Assign, Call, Const, Declare, Expr, For, If, Let, Load, LoopKind, Stmt, Store, Var


def is_vector_loop(loop: For) -> bool:
    """Whether a loop can be printed as vector instructions."""
    if loop.kind is not LoopKind.VECTOR or not isinstance(loop.stop, Const):
        return False
    return _fits(loop.body, {loop.var.name}, set(), set())


def _fits(body: Sequence[Stmt], varying: set[str], declared: set[str], seen: set[int], masked: bool = False) -> bool:
    """Whether statements can be printed as vector instructions.

    ``varying`` and ``declared`` collect names of values and variables, ``seen`` the ids of expressions that can be
    printed. ``masked``: whether lanes may be off, so that what they load varies.
    """
    for statement in body:
        match statement:
            case Let(var, value):
                values: tuple[Expr, ...] = (value,)
                if _uses(value, varying, masked):
                    varying.add(var.name)
            case Declare(var, value):
                declared.add(var.name)
                varying.add(var.name)
                values = (value,)
            case Assign(var, value) if var.name in declared:
                values = (value,)
            case Store(_, index, value):
                values = (index, value)
            case If(condition, inside) if _fits(inside, varying, declared, seen, True):
                values = (condition,)
            case For(_, start, stop, step, inside, LoopKind.SERIAL) if not any(
                    _uses(bound, varying, masked) for bound in (start, stop, step)) and _fits(
                        inside, varying, declared, seen, masked):
                values = ()
            case _:
                return False
        if not all(_computable(value, seen) for value in values):
            return False
    return True


def _uses(e: Expr, names: set[str], loads: bool) -> bool:
    """Whether an expression uses one of some names, or loads an element, if that counts."""
    match e:
        case Var(name):
            return name in names
        case Load(_, index):
            return loads or _uses(index, names, loads)
        case Call(_, args):
            return any(_uses(arg, names, loads) for arg in args)
    return False


def _computable(e: Expr, seen: set[int]) -> bool:
    stack = [e]
    while stack:
        e = stack.pop()
        if isinstance(e, Load):
            stack.append(e.index)
        elif isinstance(e, Call) and id(e) not in seen:
            if not _has_vector_form(e.function, e.args[-1].dtype):
                return False
            seen.add(id(e))
            condition, *others = e.args
            stack += [condition, others[-1]] if e.function == "rarely" else e.args
    return True


def _has_vector_form(function: str, dtype: DType) -> bool:
    return dtype.kind != "float" or not FUNCTIONS[function].decomposable
