"""Iterations that store runs of neighbours are lanes of vectors, and go through a local array."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tensocket_plugins.contract.dtypes import float32, int32
from tensocket_plugins.ir.nodes import Buffer, If, Kernel, Let, LoopKind, Program, Scalar, Store, Var, cast, loop
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.schedule.adjacent import all_vectors
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target

_spec = importlib.util.spec_from_file_location("forms", Path(__file__).with_name("forms.py"))
assert _spec is not None
assert _spec.loader is not None
forms = importlib.util.module_from_spec(_spec)
sys.modules["forms"] = forms
_spec.loader.exec_module(forms)

CPU = Target("cpu", parallelism=8)
PLACE, N, SIDE = Var("place", int32), Var("n", int32), Var("side", int32)


def arrays(program: Program) -> list[tuple[str, int]]:
    return [(local.name, local.size) for local in schedule(program, CPU, Strategy.SERIAL).kernels[0].locals]


def test_runs_pass_through_an_array() -> None:
    program = forms.FORMS["runs"](1).program
    scheduled = schedule(program, CPU, Strategy.SERIAL)
    assert arrays(program) == [("run", 24)]
    assert all_vectors(scheduled)
    (outer,) = scheduled.kernels[0].body
    assert [(inner.kind, inner.stop.value) for inner in outer.body] == [(LoopKind.VECTOR, 8), (LoopKind.VECTOR, 24)]


def stores(factor: int, steps: tuple[int, ...], bound: int = 0, name: str = "out") -> Program:
    """Iterations that store elements ``factor * i + step`` below ``n``, and below ``n + bound`` in the last one."""
    number = Var("group", int32) * 8 + SIDE
    places = [Let(Var(f"place{k}", int32), number * factor + step) for k, step in enumerate(steps)]
    limits = [N + 0] * (len(steps) - 1) + [N + bound]
    names = ["out"] * (len(steps) - 1) + [name]
    body = [*places, *[If(place.var < limit, (Store(where, place.var, cast(number, float32)),))
                       for place, limit, where in zip(places, limits, names, strict=True)]]
    inner = loop(SIDE, 8, body, LoopKind.PARALLEL)
    outer = loop(Var("group", int32), Var("groups", int32), [inner], LoopKind.PARALLEL)
    params = (Buffer("out", float32, True), Buffer("other", float32, True), Scalar("n", int32), Scalar("groups", int32))
    return Program("p", params, (Kernel("p", (outer,)),))


@pytest.mark.parametrize(("program", "made"), [
    (stores(2, (0, 1)), [("run", 16)]),
    (stores(4, (0, 1, 2, 3)), [("run", 32)]),
    (stores(5, (0, 1, 2, 3, 4)), []),
    (stores(1, (0,)), []),
    (stores(3, (0, 1)), []),
    (stores(2, (0, 2)), []),
    (stores(2, (1, 2)), []),
    (stores(2, (0, 1), bound=1), []),
    (stores(2, (0, 1), name="other"), []),
], ids=["two", "four", "many", "one", "gap", "step", "shifted", "bounds", "arrays"])
def test_only_runs_do(program: Program, made: list[tuple[str, int]]) -> None:
    assert arrays(program) == made
