"""Checked calls find graphs that compute something else, and the program sees one run, the function's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.calls import function as functions
from tensocket_compiler.calls.compare import find_difference, tolerance_of
from tensocket_compiler.calls.function import CompiledFunction
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_operators.differentiation import replayed_passes
from tensocket_operators.random.positions import positions, restore_positions

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
X = torch.linspace(-1, 1, 24).reshape(6, 4)


def captured(f, *args, check=0):
    """A compiled function with one graph, which no call has run yet."""
    compiled = CompiledFunction(f, check=check)
    for _ in range(3):
        compiled(*args)
    assert len(compiled.variants) == 1
    assert not compiled.reasons
    return compiled


def plant(runner, defect):
    """Let a graph do something else at its end."""
    runner._first.steps.append(defect)


def change_result(runner, number=0, by=1e-2):
    """Let a graph return other elements."""
    returned = runner._first.returned

    def defect(frame):
        arrays = list(returned(frame))
        arrays[number][...] += np.asarray(by, arrays[number].dtype)
        return arrays
    runner._first.returned = defect


class Step:
    """A training step with random numbers, statistics, and an optimizer's state."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def __call__(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self):
        states = [x for state in self.optimizer.state.values() for x in state.values()]
        tensors = [*self.model.parameters(), *self.model.buffers(), *states, *[x.grad for x in self.model.parameters()]]
        return [x.detach().clone() for x in tensors]


@pytest.fixture
def wrong():
    """The warning about a wrong graph."""
    with pytest.warns(RuntimeWarning, match="a graph of .* was wrong: .*; it is dropped, and such calls run eagerly"):
        yield


def test_a_wrong_result_is_found_and_not_returned(wrong):
    compiled = captured(lambda x: (x * 2 + 1).relu(), X)
    change_result(compiled.variants[0].runner)
    np.testing.assert_array_equal(compiled(X).numpy(), np.maximum(X.numpy() * 2 + 1, 0))
    assert not compiled.variants
    assert compiled.reasons == ["its graph was wrong: the result differs by up to 0.01"]


def test_checks_on_demand_raise():
    compiled = captured(lambda x: (x * 2 + 1).relu(), X, check=1)
    change_result(compiled.variants[0].runner)
    with pytest.raises(torch.errors.CompileError, match=r"\[compile\] a graph of .*: the result differs by up to 0.01"
                       " — a checked graph computes what the function computes — call the function without compile"):
        compiled(X)


def test_every_nth_call_is_checked():
    compiled = captured(lambda x: (x * 2 + 1).relu(), X, check=3)
    variant = compiled.variants[0]
    for _ in range(3):
        compiled(X)
    change_result(variant.runner)
    with pytest.raises(torch.errors.CompileError):
        compiled(X)  # the first call and the fourth


def test_calls_between_checks_run_the_graph():
    calls = []
    compiled = captured(lambda x: (x * 2 + 1).relu(), X, check=3)
    runner = compiled.variants[0].runner
    plant(runner, lambda frame: calls.append(1))
    function = compiled.function
    runs = []

    def counted(x):
        runs.append(1)
        return function(x)
    compiled.function = counted
    for _ in range(7):
        compiled(X)
    assert (len(calls), len(runs)) == (7, 3)


def test_later_calls_are_not_checked_by_default():
    compiled = captured(lambda x: (x * 2 + 1).relu(), X)
    compiled(X)
    change_result(compiled.variants[0].runner)
    assert compiled(X)[0, 0].item() == pytest.approx(0.01)


def test_large_memory_is_not_checked_by_default(monkeypatch):
    monkeypatch.setattr(functions, "CHECKED_BYTES", X.nbytes - 1)
    compiled = captured(lambda x: (x * 2 + 1).relu(), X)
    change_result(compiled.variants[0].runner)
    assert compiled(X)[0, 0].item() == pytest.approx(0.01)


@pytest.mark.parametrize("kind", ["parameter", "statistics", "state", "gradient"])
def test_wrong_writes_are_found_and_undone(kind, wrong, monkeypatch):
    monkeypatch.setattr(replayed_passes, "ENABLED", False)  # recorded passes may round sums otherwise
    plain, step = Step(), Step()
    torch.manual_seed(0)
    compiled = captured(step, X)
    position = torch.get_rng_state()
    torch.manual_seed(0)
    for _ in range(3):
        plain(X)
    target = {"parameter": step.model[0].weight, "statistics": step.model[1].running_mean,
              "state": step.optimizer.state[step.model[0].weight]["exp_avg"]}
    variant = compiled.variants[0]
    if kind == "gradient":
        change_result(variant.runner, next(slot.position for slot in variant._slots))
    else:
        def defect(frame):
            target[kind]._array[...] += np.float32(0.1)
        plant(variant.runner, defect)
    wanted, after = plain(X).item(), torch.get_rng_state()
    torch.set_rng_state(position)
    assert compiled(X).item() == wanted
    assert torch.get_rng_state().equal(after)
    for found, one in zip(step.state(), plain.state(), strict=True):
        np.testing.assert_array_equal(found.numpy(), one.numpy())


def test_memory_that_only_the_graph_writes_is_found_and_undone(wrong):
    weight = torch.ones(4)
    compiled = captured(lambda x: x * weight, X)

    def defect(frame):
        weight._array[0] = 7
    plant(compiled.variants[0].runner, defect)
    compiled(X)
    assert weight.tolist() == [1, 1, 1, 1]


def test_wrong_gradients_are_found(wrong):
    weight = torch.ones(4, requires_grad=True)
    compiled = captured(lambda x: (x * weight).tanh().sum(), X)
    change_result(compiled.variants[0].backward.runner)
    compiled(X).backward()
    np.testing.assert_allclose(weight.grad.numpy(), (X.numpy() / np.cosh(X.numpy()) ** 2).sum(0), 1e-5)


def test_a_graph_that_raises_is_dropped(wrong):
    compiled = captured(lambda x: (x * 2 + 1).relu(), X)

    def defect(frame):
        raise ValueError("broken")
    plant(compiled.variants[0].runner, defect)
    assert compiled(X).equal((X * 2 + 1).relu())
    assert compiled.reasons == ["its graph was wrong: the graph raises ValueError: broken"]


def test_random_numbers_that_a_graph_does_not_draw_are_found(wrong):
    torch.manual_seed(3)
    compiled = captured(lambda x: nn.functional.dropout(x, 0.5) * 2, X)
    before = torch.get_rng_state()
    variant = compiled.variants[0]

    def defect(frame):
        restore_positions({generator: (seed, offset + 8) for generator, (seed, offset) in positions().items()})
    plant(variant.runner, defect)
    found, after = compiled(X), torch.get_rng_state()
    torch.set_rng_state(before)
    assert found.equal(nn.functional.dropout(X, 0.5) * 2)
    assert after.equal(torch.get_rng_state())


def test_wrong_integers_are_found(wrong):
    compiled = captured(lambda x: (x * 3).argmax(1) + 1, X)
    change_result(compiled.variants[0].runner, by=1)
    assert compiled(X).tolist() == [4] * 6


@pytest.mark.parametrize("check", [0, 1])
def test_checked_steps_are_those_of_the_plain_program(check):
    plain, step = Step(), Step()
    compiled = CompiledFunction(step, check=check)
    for k in range(8):
        torch.manual_seed(k)
        wanted = plain(X)
        position = torch.get_rng_state()
        torch.manual_seed(k)
        assert compiled(X).item() == pytest.approx(wanted.item(), rel=1e-4)
        assert torch.get_rng_state().equal(position)
        for found, one in zip(step.state(), plain.state(), strict=True):
            np.testing.assert_allclose(found.numpy(), one.numpy(), 1e-3, 1e-5)
        assert [x._version for x in step.model.parameters()] == [x._version for x in plain.model.parameters()]
    assert compiled.variants[0].hits == 5


def test_values_that_are_zero_but_for_rounding_are_no_difference():
    torch.manual_seed(0)
    # The bias before a normalization has no gradient but rounding, which Adam makes steps of full size of.
    model = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, y = torch.randn(50, 64), torch.randint(0, 8, (50,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    compiled = CompiledFunction(step, check=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(9):
            compiled()
    assert compiled.variants[0].hits == 6


def test_half_precision_has_a_coarser_tolerance():
    fine = captured(lambda x: x @ x.T, X).variants[0].recording
    coarse = captured(lambda x: x @ x.T, X.half()).variants[0].recording
    assert tolerance_of(fine) < 1e-5 < 1e-3 < tolerance_of(coarse) < 0.1


def test_sums_of_more_terms_have_a_coarser_tolerance():
    few, many = [captured(lambda x: x.sum(1), torch.ones(2, n)).variants[0].recording for n in (4, 40000)]
    assert 10 * tolerance_of(few) < tolerance_of(many) < 1e-3


@pytest.mark.parametrize(("graph", "eager", "text"), [
    (1, 2, "a is 1 instead of 2"),
    (torch.ones(2), torch.ones(3), "a is (tensocket.float32, (2,), 'cpu') instead of"),
    (torch.ones(2), 1, "a is tensor([1., 1.]) instead of 1"),
    (torch.tensor([1.0, float("nan")]), torch.ones(2), "a differs by up to inf"),
    (torch.tensor([True]), torch.tensor([False]), "a differs by up to 1"),
    (torch.tensor([2**62]), torch.tensor([2**62 - 1]), "a differs by up to"),
])
def test_differences(graph, eager, text):
    assert str(find_difference({"a": graph}, {"a": eager}, 1e-6, dict)).startswith(text)


def test_equal_values_have_no_difference():
    values = {"a": torch.tensor([1.0, float("nan"), float("inf")]), "b": torch.tensor([3]), "c": None, "d": "x"}
    assert find_difference(values, dict(values), 0.0, dict) is None
    assert find_difference({"a": torch.ones(1) * (1 + 1e-6)}, {"a": torch.ones(1)}, 1e-5, dict) is None


def test_a_value_that_only_one_run_has_is_a_difference():
    assert str(find_difference({"a": 1}, {}, 0.0, dict)) == "a is there only after a call of the graph"
    assert str(find_difference({}, {"a": 1}, 0.0, dict)) == "a is there only after a call of the function"


def test_the_environment_sets_the_interval(monkeypatch):
    monkeypatch.setenv("TENSOCKET_COMPILE_CHECK", "3")
    assert torch.compile(torch.relu)._compiled.check == 3
    monkeypatch.setenv("TENSOCKET_COMPILE_CHECK", "often")
    with pytest.raises(torch.errors.ArgumentError, match=r"\[compile\] TENSOCKET_COMPILE_CHECK='often' — it is the "
                       "number of graph calls after which one is checked, or 0 — set a positive integer, or leave it"):
        torch.compile(torch.relu)


def test_an_option_sets_the_interval():
    assert torch.compile(torch.relu, options={"check": 2})._compiled.check == 2
    assert torch.compile(nn.ReLU(), options={"check": 2}).__dict__["_compiled"].check == 2
    for value in (-1, "x", True, 1.5):
        with pytest.raises(torch.errors.ArgumentError, match=r"\[compile\] options\['check'\]=.* — it is the number of "
                           "graph calls after which one is checked, or 0 — pass a positive integer, or leave it out"):
            torch.compile(torch.relu, options={"check": value})
