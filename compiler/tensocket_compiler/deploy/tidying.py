"""Kernels as C compilers like them: with every form of a function written out, without values that nothing uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensocket_plugins.ir.math import written_out
from tensocket_plugins.ir.nodes import Call, Expr, For, If, Kernel, Let, Program, Reduce, Stmt, Var
from tensocket_plugins.ir.printers.dialect import C
from tensocket_plugins.ir.printers.expressions import postorder
from tensocket_plugins.ir.printers.statements import uses
from tensocket_plugins.ir.rewrite import Rewrite, name_shared


def written_out_program(program: Program) -> Program:
    """Return a program whose functions have their forms for unusual arguments written out, for C has no ``rarely``."""
    return name_shared(Rewrite(_written_out, _is_rare).program(program))


def _is_rare(e: Expr) -> bool:
    return isinstance(e, Call) and e.function == "rarely"


def _written_out(e: Expr) -> Expr:
    return written_out(e) if isinstance(e, Call) and _is_rare(e) else e


def without_unused(program: Program) -> Program:
    """Return a program without definitions that no expression uses."""
    return replace(program, kernels=tuple([_tidied(kernel) for kernel in program.kernels]))


def _tidied(kernel: Kernel) -> Kernel:
    return replace(kernel, body=_kept(kernel.body, set()))


def _kept(body: Sequence[Stmt], later: set[str]) -> tuple[Stmt, ...]:
    """Return statements without unused definitions; ``later`` becomes the names that they use from outside."""
    found: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, Let):
            if s.var.name not in later:
                continue
            later.discard(s.var.name)
        elif isinstance(s, (For, If)):
            inner: set[str] = set()
            s = replace(s, body=_kept(s.body, inner))
            later |= inner
        elif isinstance(s, Reduce):
            later.difference_update([x.name for x in s.results])
            inner = _names(s)
            lets = _kept(s.body, inner)
            s = replace(s, body=tuple([x for x in lets if isinstance(x, Let)]))
            later |= inner
        later |= _names(s)
        found.append(s)
    return tuple(found[::-1])


def _names(s: Stmt) -> set[str]:
    """Return the variables that a statement itself uses."""
    return {e.name for e in postorder(uses(s, C)[1])[0] if isinstance(e, Var)}
