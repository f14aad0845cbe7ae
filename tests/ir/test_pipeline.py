"""From nests to programs: what a strategy means for nests that it does not suit."""

from __future__ import annotations

import pytest

from tensocket_plugins.contract.dtypes import float32, int32
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.digest import program_digest
from tensocket_plugins.ir.nodes import Let, Load, Program, Store, Var
from tensocket_plugins.ir.pipeline import scheduled
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target

SIMT = Target("simt", group_size=16, parallelism=8)
ROW, COLUMN = Var("i", int32), Var("j", int32)


def scaled(inner: bool) -> Program:
    """Return a nest that multiplies rows by numbers; with ``inner``, a loop of its own runs along each row."""
    nest = ProgramBuilder("scaled", int32)
    nest.buffer("out0", float32, writable=True)
    for name in ("in0", "in1"):
        nest.buffer(name, float32)
    rows, columns = nest.sizes("n", 2)
    factor, at = Var("factor", float32), ROW * columns + COLUMN
    lets, store = [Let(factor, Load("in1", ROW, float32))], Store("out0", at, Load("in0", at, float32) * factor)
    if inner:
        return nest.program(parallel([ROW], [rows], [*lets, *parallel([COLUMN], [columns], [store])]))
    return nest.program(parallel([ROW, COLUMN], [rows, columns], [*lets, store]))


def digest(inner: bool, strategy: Strategy) -> str:
    return program_digest(scheduled(scaled(inner), SIMT, strategy))


@pytest.mark.parametrize("strategy", Strategy, ids=lambda s: s.value)
def test_no_group_runs_for_one_element(strategy: Strategy) -> None:
    assert digest(False, strategy) == digest(False, Strategy.SERIAL)


def test_groups_share_the_loop_along_a_row() -> None:
    assert digest(True, Strategy.GROUP) != digest(True, Strategy.SERIAL)
