"""From a nest to a program that a target runs: checks, decomposition, a schedule, and names for shared values."""

from __future__ import annotations

from tensocket_plugins.ir.strategies import Strategy

from .decompose import decompose
from .nodes import For, LoopKind, Program, Reduce
from .rewrite import name_shared
from .schedule import schedule
from .schedule.nest import peel, walk
from .target import Target
from .verify import verify


def scheduled(program: Program, target: Target, strategy: Strategy | None) -> Program:
    """Schedule a nest for a target, and verify it before and after; without a strategy, it is already scheduled."""
    verify(program)
    program = decompose(program, target)
    if strategy is not None:
        program = schedule(program, target, strategy if target.kind != "simt" or _occupies_groups(program)
                           else Strategy.SERIAL)
    program = name_shared(program)
    verify(program)
    return program


def _occupies_groups(program: Program) -> bool:
    """Whether an outer iteration has a reduction or a loop for the lanes of a group; else one of them does it all."""
    return any(isinstance(statement, Reduce) or (isinstance(statement, For) and statement.kind is LoopKind.PARALLEL)
               for kernel in program.kernels for statement in walk(peel(kernel.body)[1]))
