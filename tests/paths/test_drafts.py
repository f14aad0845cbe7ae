"""Programs that a recorded run needs first: compiled quickly for its small calls, for many calls by all others."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.launch import entries
from tensocket_core.launch.drafts import Draft
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.drafts import drafting, is_drafting
from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.launch_recorder import record_launches
from tensocket_plugins.contract.plans import EntryPlan, ProgramPlan
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, call, loop
from tensocket_plugins.ir.schedule import Strategy


@pytest.fixture
def state():
    torch.ones(1)
    found = open_device("cpu")
    if found.runtime.target is None:
        pytest.skip("the device has no code generator")
    return found


@pytest.fixture
def plans(state, monkeypatch):
    """Whether each program that is compiled is a draft, in order."""
    made = []
    compile_plan = state.runtime.compile_plan

    def noted(plan, next_path):
        if type(plan) is ProgramPlan:
            made.append(plan.draft)
        return compile_plan(plan, next_path)

    monkeypatch.setattr(state.runtime, "compile_plan", noted)
    return made


def run(state, key, size=1000):
    """Launch a program of its own for a key, and compare with NumPy."""
    i, n = Var("i", int64), Var("n", int64)
    store = Store("out", i, call("exp", Load("x", i, float32)) * 3.0)
    params = (Buffer("out", float32, True), Buffer("x", float32), Scalar("n", int64))
    nest = Program("drafted", params, (Kernel("drafted", (loop(i, n, [store], LoopKind.PARALLEL),)),))
    x = np.linspace(-1, 1, size, dtype=np.float32)
    out = np.zeros_like(x)
    launch(state, key, lambda: nest, Strategy.SERIAL, [out, x], [size])
    np.testing.assert_allclose(out, 3 * np.exp(x.astype(np.float64)), 1e-6)
    return out


def test_small_calls_while_a_run_is_recorded_take_a_draft(state, plans):
    key = object()
    with drafting():
        first, second = run(state, key), run(state, key)
    assert plans == [True]
    later = [run(state, key), run(state, key)]
    assert plans == [True, False]
    assert len({x.tobytes() for x in (first, second, *later)}) == 1


def test_large_calls_compile_for_many_calls(state, plans):
    key = object()
    with drafting():
        run(state, key, 100_000)
        run(state, key)
    assert plans == [False]


def test_outside_of_recorded_runs_nothing_is_a_draft(state, plans):
    key = object()
    run(state, key)
    with drafting():
        run(state, key)
    assert plans == [False]


def test_noted_launches_are_not_those_of_drafts(state, plans):
    key = object()
    with drafting():
        run(state, key)
        _, recorder = record_launches(lambda: run(state, key))
    assert plans == [True, False]
    assert len(recorder.calls) == 1


def test_a_draft_that_fails_leaves_the_call_to_the_other_form():
    def fail():
        raise KernelError("compile", "program f", "LLVM rejects it", "report this")

    calls = []
    draft = Draft(fail, lambda: lambda *args: calls.append(args))
    with drafting():
        draft([np.ones(3)], [3], None)
    assert len(calls) == 1


def test_blocks_nest_and_end():
    assert not is_drafting()
    with drafting():
        with drafting():
            pass
        assert is_drafting()
    assert not is_drafting()


def test_recorded_runs_draft(plans):
    a = torch.linspace(0.5, 1.0, 20_000).reshape(100, 200)

    def function(x):
        return torch.special.erfcx(x.lgamma() + a).sum(0)

    x = torch.linspace(1.0, 2.0, 20_000).reshape(100, 200)
    wanted = function(x).numpy()
    state = open_device("cpu")
    state.programs.clear()
    f = torch.compile(function)
    for _ in range(5):
        np.testing.assert_allclose(f(x).numpy(), wanted, 1e-5)
    assert sum(variant.hits for variant in f._compiled.variants) == 2


@pytest.mark.skipif(not entries.ENABLED, reason="machine code is turned off")
def test_entries_wait_until_the_recorded_run_is_over(state, monkeypatch):
    made = []
    compile_plan = state.runtime.compile_plan
    monkeypatch.setattr(state.runtime, "compile_plan",
                        lambda plan, next_path: made.append(type(plan)) or compile_plan(plan, next_path))
    monkeypatch.setattr(state, "native_entries", {})
    clear_tables()
    x = torch.linspace(-1, 1, 7)
    with drafting():
        first = torch.lerp(x, x * 2, 0.25)
    assert EntryPlan not in made
    assert torch.equal(torch.lerp(x, x * 2, 0.25), first)
    assert made.count(EntryPlan) >= 1
