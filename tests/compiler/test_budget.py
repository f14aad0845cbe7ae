"""Compiling takes a share of the program's time: when functions wait for graphs, and when they don't."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import tensocket as ts
from tensocket_compiler.calls import budget as module
from tensocket_compiler.calls.budget import CREDIT, HOT, REST, SHORT, WARM, Budget, Stopwatch, share_of_environment
from tensocket_compiler.calls.compare import _are_surely_close, _largest
from tensocket_compiler.calls.function import CompiledFunction
from tensocket_compiler.calls.settings import SETTINGS
from tensocket_plugins.contract.errors import ArgumentError


class Clock:
    """A clock that tests move."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A clock and a new account for the process, which has just begun."""
    made = Clock()
    monkeypatch.setattr(module, "perf_counter", made)
    monkeypatch.setattr(module, "ACCOUNT", module._Account())
    return made


def spend(clock, add, seconds, **named):
    watch = Stopwatch()
    clock.now += seconds
    add(watch, **named)


def calls_until_graph(run, clock, seconds, most=2000):
    """Call a function that takes some seconds until it has a graph; return the number of calls."""
    x = ts.ones(3)
    for number in range(most):
        before = len(run.variants)
        result = run(x)
        assert result.tolist() == [3.0] * 3
        if len(run.variants) > before:
            return number + 1
        clock.now += seconds
    return None


def slow(clock, seconds):
    """Return a function of a tensor that takes some seconds."""
    def function(x):
        return x * 2 + 1

    budget_of_calls = CompiledFunction(function, share=0.0)
    real = budget_of_calls._budget.add_call

    def add_call(watch):
        clock.now += seconds
        real(watch)

    budget_of_calls._budget.add_call = add_call
    return budget_of_calls


def test_functions_without_a_limit_have_a_graph_after_three_calls(clock):
    run = CompiledFunction(lambda x: x * 2 + 1, share=math.inf)
    assert calls_until_graph(run, clock, 0.0) == 3


def test_functions_of_one_graph_never_wait(clock):
    module.ACCOUNT.spent = 1e9
    run = CompiledFunction(lambda x: x * 2 + 1, fullgraph=True, share=0.0)
    assert calls_until_graph(run, clock, 0.0) == 3


@pytest.mark.parametrize(("share", "graphs"), [(0.0, 0), (math.inf, 1)])
def test_the_option_sets_the_share(clock, share, graphs):
    module.ACCOUNT.spent = 1e9
    run, x = ts.compile(lambda x: x * 2 + 1, options={"budget": share}), ts.ones(3)
    for _ in range(20):
        run(x)
    assert len(_compiled(run).variants) == graphs


def _compiled(run):
    """Return the compiled function behind the function that ``compile`` returned."""
    return next(x.cell_contents for x in run.__closure__ if isinstance(x.cell_contents, CompiledFunction))


def test_a_function_waits_while_the_program_cannot_afford_it(clock):
    module.ACCOUNT.spent = 1e9
    run = CompiledFunction(lambda x: x * 2 + 1, share=0.1)
    assert calls_until_graph(run, clock, 0.0, most=200) is None
    assert not run.reasons
    assert not run._waiting


def test_a_hot_function_does_not_wait(clock):
    module.ACCOUNT.spent = 1e9
    assert calls_until_graph(slow(clock, 1.0), clock, 0.0) is not None


def test_the_credit_pays_for_the_first_graphs(clock):
    run = CompiledFunction(lambda x: x * 2 + 1, share=0.1)
    assert calls_until_graph(run, clock, 0.0) == 3


def test_the_programs_time_pays_for_further_graphs(clock):
    module.ACCOUNT.spent = CREDIT + 1.0
    run = CompiledFunction(lambda x: x * 2 + 1, share=0.1)
    assert calls_until_graph(run, clock, 0.1, most=90) is None
    assert calls_until_graph(run, clock, 0.1, most=200) is not None


@pytest.mark.parametrize(("seconds", "calls", "admitted"), [
    (SHORT, 0, True), (2 * SHORT, 0, False), (2 * SHORT, 1.01 * 2 * SHORT / WARM, True)])
def test_long_steps_take_some_calls(clock, seconds, calls, admitted):
    budget = Budget(0.5)
    clock.now += 1e6  # the program affords everything
    spend(clock, budget.add_step, seconds, captures=False)
    if calls:
        spend(clock, budget.add_call, calls)
    assert budget.admits(captures=False) is admitted


@pytest.mark.parametrize(("run", "times"), [(0.1, module.CAPTURE * 0.6), (0.4, module.CAPTURE_OF_RUN * 0.4)])
def test_a_capture_is_expected_to_take_some_observations(clock, run, times):
    module.ACCOUNT.observes = True
    budget = Budget(0.0)
    spend(clock, budget.add_call, 1.0)
    spend(clock, budget.add_observed_run, 1.0 + run)
    spend(clock, budget.add_step, 1.6, captures=False)  # the call takes one second of it
    assert budget.admits(captures=False)
    spend(clock, budget.add_call, times / HOT - 2.01)
    assert not budget.admits(captures=True)
    spend(clock, budget.add_call, 0.02)
    assert budget.admits(captures=True)


def test_the_first_observed_run_of_a_process_does_not_count(clock):
    budget = Budget(0.0)
    spend(clock, budget.add_call, 1.0)
    spend(clock, budget.add_observed_run, 100.0)
    assert budget._run == 0.0
    assert module.ACCOUNT.observes


def test_compiling_inside_of_a_call_does_not_count_twice(clock):
    outer, inner = Budget(0.1), Budget(0.1)
    watch = Stopwatch()
    clock.now += 1.0
    spend(clock, inner.add_step, 5.0, captures=True)
    outer.add_call(watch)
    assert outer._total == pytest.approx(1.0)
    assert module.ACCOUNT.spent == pytest.approx(5.0)


def test_a_step_counts_without_the_call(clock):
    budget = Budget(0.1)
    spend(clock, budget.add_call, 2.0)
    spend(clock, budget.add_step, 5.0, captures=False)
    assert module.ACCOUNT.spent == pytest.approx(3.0)
    spend(clock, budget.add_check, 1.0)
    assert module.ACCOUNT.spent == pytest.approx(4.0)


def test_looks_get_rarer_and_calls_between_them_count(clock):
    module.ACCOUNT.spent = 1e9
    budget = Budget(0.1)
    spend(clock, budget.add_call, 1e-6)
    looks = []
    for number in range(200):
        if not budget.rests():
            assert not budget.admits(captures=False)
            looks.append(number)
            spend(clock, budget.add_call, 1e-6)
    assert looks[:5] == [0, 2, 6, 14, 30]
    assert max(np.diff(looks)) == REST + 1
    assert budget._total == pytest.approx(201e-6, rel=0.2)


def test_slow_calls_are_all_looked_at(clock):
    module.ACCOUNT.spent = 1e9
    budget = Budget(0.1)
    for _ in range(10):
        spend(clock, budget.add_call, 1e-3)
        assert not budget.rests()
        assert not budget.admits(captures=False)


def test_a_call_without_a_step_says_nothing_about_steps(clock, monkeypatch):
    run = CompiledFunction(abs, share=math.inf)
    monkeypatch.setattr(run, "_next_step", lambda args, kwargs: None)
    for k in range(5):
        run(k)
    assert run._budget._observation is None
    assert run._budget._capture is None


def test_explanations_do_not_wait(clock, monkeypatch):
    module.ACCOUNT.spent = 1e9
    monkeypatch.setattr(SETTINGS, "budget", 0.0)
    assert ts._dynamo.explain(lambda x: x * 2 + 1)(ts.ones(3)).graph_count == 1


def test_copies_keep_the_share():
    run = copy.copy(CompiledFunction(abs, share=0.25))
    assert run.share == 0.25


@pytest.mark.parametrize("value", [-1, "much", None, float("nan")])
def test_wrong_budgets_raise(value):
    with pytest.raises(ArgumentError, match=r"^\[compile\] options\['budget'\]=.* — it is the share of the "
                                            "program's time that compiling may take — pass a number from 0 on"):
        ts.compile(abs, options={"budget": value})


def test_the_environment_sets_the_share(monkeypatch):
    monkeypatch.setenv("TENSOCKET_COMPILE_BUDGET", "0.25")
    assert share_of_environment() == 0.25
    monkeypatch.delenv("TENSOCKET_COMPILE_BUDGET")
    assert share_of_environment() == module.SHARE
    monkeypatch.setenv("TENSOCKET_COMPILE_BUDGET", "much")
    with pytest.raises(ArgumentError, match=r"TENSOCKET_COMPILE_BUDGET='much'"):
        share_of_environment()


@pytest.mark.parametrize("kind", ["equal", "close", "far", "infinite", "nan", "huge", "zeros", "one"])
def test_the_quick_comparison_never_contradicts_the_exact_one(kind):
    generator, found = np.random.default_rng(0), 0
    for _ in range(200):
        a = generator.normal(size=50).astype(np.float32)
        b = a + {"close": 1e-6, "far": 1.0}.get(kind, 0.0) * generator.normal(size=50).astype(np.float32)
        if kind in ("infinite", "nan", "one"):
            b[generator.integers(50)] = {"infinite": np.inf, "nan": np.nan, "one": 1e6}[kind]
        if kind == "huge":
            a, b = a.clip(-3, 3) * np.float32(1e38), b.clip(-3, 3) * np.float32(1.001e38)
        if kind == "zeros":
            a, b = a * 0, b * 0
        x, y = ts.from_numpy(a), ts.from_numpy(b)
        for first, second in ((x, y), (y, x)):
            if _are_surely_close(first, second, 1e-5):
                found += 1
                assert _largest_exactly(first, second, 1e-5) == 0.0
    assert found > 0 or kind in ("far", "infinite", "nan", "huge", "one")


def _largest_exactly(graph, eager, tolerance):
    """The exact test in float64: the largest difference beyond the tolerance of the number or of the mean."""
    a, b = graph.numpy().astype(np.float64), eager.numpy().astype(np.float64)
    limit = tolerance * np.maximum(np.abs(b), np.abs(b[np.isfinite(b)]).mean())
    beyond = np.abs(a - b)[~(np.abs(a - b) <= limit)]
    assert _largest(graph, eager, tolerance) == 0.0
    return float(beyond.max()) if beyond.size else 0.0
