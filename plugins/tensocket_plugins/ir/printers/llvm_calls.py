"""The calling convention of kernels printed as LLVM IR: names, argument slots, loops to divide.

Every kernel becomes ``void @<entry_name>(ptr args, i64 begin, i64 end)``. ``args`` points to one 8-byte slot per item
of ``slots(program)``: for buffers and temporaries the address of the first element, or of an object that holds this
address in a field (``pointer_field``); for scalars a signed or unsigned 64-bit integer (bool: 0 or 1) or, for floats, a
double. ``begin`` and ``end`` delimit the iterations of ``split_loop(program, kernel)`` to run, which a backend may
divide over threads; a kernel without such a loop ignores them and runs completely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..nodes import (
    Atomic,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    LoopKind,
    Program,
    Scalar,
    Stmt,
    Temporary,
    Var,
)


def entry_name(number: int, kernel: Kernel) -> str:
    """Return the symbol of kernel ``number`` of a program; never the name of a C function."""
    return f"tensocket.{number}.{re.sub(r'[^A-Za-z0-9_]', '_', kernel.name)}"


def slots(program: Program) -> tuple[Buffer | Temporary | Scalar, ...]:
    """Return the objects in the argument slots, in order."""
    return (*program.buffers, *program.temporaries, *program.scalars)


def walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Yield all statements in ``body``, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, For | If):
            yield from walk(statement.body)


def _uses_only(expr: Expr, names: set[str]) -> bool:
    match expr:
        case Const():
            return True
        case Var(name):
            return name in names
        case Call(_, args):
            return all(_uses_only(arg, names) for arg in args)
        case _:
            return False


def split_loop(program: Program, kernel: Kernel) -> For | None:
    """Return the loop whose iterations may be divided over threads, or None.

    That is a PARALLEL loop around all statements except ``Let``. A kernel with atomic operations on floats has none,
    because their order would decide the last bits.
    """
    if not kernel.body:
        return None
    *before, last = kernel.body
    scalars = {scalar.name for scalar in program.scalars}
    if not isinstance(last, For) or last.kind is not LoopKind.PARALLEL or not _uses_only(last.stop, scalars):
        return None
    if not all(isinstance(statement, Let) for statement in before):
        return None
    dtypes = {p.name: p.dtype for p in slots(program)}
    if any(isinstance(s, Atomic) and dtypes[s.buffer].kind == "float" for s in walk(kernel.body)):
        return None
    return last
