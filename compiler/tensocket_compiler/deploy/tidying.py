"""Kernels without values that nothing uses, of which C compilers warn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensocket_plugins.ir.nodes import For, If, Kernel, Let, Program, Reduce, Stmt, Var
from tensocket_plugins.ir.printers.dialect import C
from tensocket_plugins.ir.printers.expressions import postorder
from tensocket_plugins.ir.printers.statements import uses


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
