"""From a nest to a program that a target runs: checks, decomposition, a schedule, and names for shared values."""

from __future__ import annotations

from tensocket_plugins.ir.strategies import Strategy

from .decompose import decompose
from .nodes import Program
from .rewrite import name_shared
from .schedule import schedule
from .target import Target
from .verify import verify


def scheduled(program: Program, target: Target, strategy: Strategy | None) -> Program:
    """Schedule a nest for a target, and verify it before and after; without a strategy, it is already scheduled."""
    verify(program)
    program = decompose(program, target)
    program = name_shared(program if strategy is None else schedule(program, target, strategy))
    verify(program)
    return program
