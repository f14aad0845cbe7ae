"""``explain``: the path that served a call, and the reasons of those that did not."""

from __future__ import annotations

import pytest

import tensocket_operators as torch
from tensocket_core.launch import entries
from tensocket_core.launch.path import LADDER
from tensocket_core.launch.replay import CALLS
from tensocket_operators.explain import explain
from tensocket_plugins.contract.errors import ArgumentError


def test_the_ladder_is_shown_in_order() -> None:
    x = torch.ones(3, device="ref")
    (found,) = explain(torch.add, x, x)
    assert [rung.path for rung in found.rungs] == [*(path.name for path in LADDER), "compose"]
    assert [rung.path for rung in found.rungs if rung.served] == [found.path]


def test_a_device_with_its_own_memory_plans_or_composes() -> None:
    x = torch.ones(3, device="ref")
    (found,) = explain(torch.add, x, x)
    assert found.path == "plan"
    assert found.device == "ref:0"
    reasons = {rung.path: rung.reason for rung in found.rungs}
    assert reasons["host kernel"] == "the device's memory is not the host's"
    assert reasons["entry"] in ("the device's memory is not the host's", "TENSOCKET_NATIVE=0 turns entries off")
    assert reasons["replay"] == "calls are not declared to do nothing but launch kernels"


@pytest.mark.skipif(not entries.ENABLED, reason="TENSOCKET_NATIVE=0 turns replays off")
def test_a_device_with_its_own_memory_replays_launches() -> None:
    x = torch.ones(3, 5, device="ref")
    for _ in range(CALLS + 1):
        x.cumsum(1), torch.softmax(x, 1)
    for function, *args in ((x.cumsum, 1), (torch.softmax, x, 1)):
        function_itself, kernels, *_ = explain(function, *args)
        assert (function_itself.path, kernels.path) == ("unrolled", "replay")


def test_promotion_decides_with_every_call() -> None:
    (found, *_) = explain(torch.add, torch.ones(3, device="ref"), torch.ones(3, device="ref", dtype=torch.int32))
    assert found.path == "compose"
    assert found.rungs[3].reason == "dtypes and numbers of each call decide what is computed in"


@pytest.mark.skipif(not torch.is_available("cpu"), reason="the CPU backend is not installed")
class TestOnTheHost:
    def test_sizes_decide(self) -> None:
        x = torch.ones(1 << 18, device="cpu")
        (found,) = explain(torch.add, x, x)
        assert found.path == "plan"
        assert found.rungs[1].reason.startswith("262144 elements: NumPy serves up to ")

    @pytest.mark.skipif(not entries.ENABLED, reason="no entries")
    def test_what_numpy_rounds_in_another_way_is_an_entry(self) -> None:
        x = torch.ones(8, device="cpu")
        assert explain(torch.exp, x)[0].path == "entry"
        assert explain(torch.add, x, x)[0].path in ("entry", "host kernel")

    def test_writing_happens_once(self) -> None:
        x = torch.ones(3, device="cpu")
        explain(x.add_, 1)
        assert x.tolist() == [2.0, 2.0, 2.0]

    def test_composites_show_what_they_call(self) -> None:
        found = explain(torch.diff, torch.arange(4.0, device="cpu"))
        assert found[0].depth == 0
        assert any(call.depth == 1 for call in found)
        assert "diff on cpu: compose" in str(found)


def test_a_function_without_operators() -> None:
    with pytest.raises(ArgumentError, match="the function calls operators"):
        explain(lambda: 1)


def test_assignments_are_explained(device: str) -> None:
    x = torch.tensor([[1.0, -2.0], [3.0, -4.0]], device=device)
    negative, source = x < 0, torch.ones(2, 2, device=device)
    row = torch.zeros(2, device=device)
    calls = {"setitem": lambda: x.__setitem__(negative, 0.0), "copy_": lambda: x.copy_(source),
             "fill_": lambda: x.fill_(2.0), "zero_": lambda: x.zero_(),
             "index_put_": lambda: x.index_put_((negative,), row)}
    wanted = {"setitem": [[1.0, 0.0], [3.0, 0.0]], "copy_": [[1.0, 1.0]] * 2, "fill_": [[2.0, 2.0]] * 2,
              "zero_": [[0.0, 0.0]] * 2, "index_put_": [[0.0, 0.0], [0.0, 0.0]]}
    for name, call in calls.items():
        found = explain(call)
        assert found[0].operator == name
        assert all(rung.path for item in found for rung in item.rungs if rung.served)
        assert x.tolist() == wanted[name]
