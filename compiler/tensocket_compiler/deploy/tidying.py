"""Kernels without values that nothing uses, of which C compilers warn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensocket_plugins.ir.nodes import For, If, Kernel, Let, Program, Reduce, Stmt, Var
from tensocket_plugins.ir.printers.dialect import C
from tensocket_plugins.ir.printers.expressions import postorder
from tensocket_plugins.ir.printers.statements import uses, walk


def without_unused(program: Program) -> Program:
    """Return a program without definitions that no expression uses."""
    return replace(program, kernels=tuple([_tidied(kernel) for kernel in program.kernels]))


def _tidied(kernel: Kernel) -> Kernel:
    while True:
        defined = {s.var.name for s in walk(kernel.body) if isinstance(s, Let)}
        used = {e.name for s in walk(kernel.body) for e in postorder(uses(s, C)[1])[0] if isinstance(e, Var)}
        if defined <= used:
            return kernel
        kernel = replace(kernel, body=_kept(kernel.body, used))


def _kept(body: Iterable[Stmt], used: set[str]) -> tuple[Stmt, ...]:
    """Return statements without the definitions of other names."""
    found: list[Stmt] = []
    for s in body:
        if isinstance(s, Let) and s.var.name not in used:
            continue
        if isinstance(s, (For, If)):
            s = replace(s, body=_kept(s.body, used))
        elif isinstance(s, Reduce):
            s = replace(s, body=tuple([x for x in s.body if x.var.name in used]))
        found.append(s)
    return tuple(found)
