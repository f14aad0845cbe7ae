"""Recordings of launches: what is recorded, and how often."""

from __future__ import annotations

import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_core.device import open_device
from tensocket_core.launch import entries
from tensocket_plugins.contract.plans import ReplayPlan

pytestmark = pytest.mark.skipif(not entries.ENABLED, reason="recordings are machine code")


def test_operators_inside_of_a_recorded_one_are_not_recorded_again(monkeypatch):
    runtime = open_device("cpu").runtime
    compile_plan, recorded = runtime.compile_plan, []

    def counted(plan, next_path):
        if type(plan) is ReplayPlan:
            recorded.append(tuple(x.shape for x in plan.operands.values() if x is not None))
        return compile_plan(plan, next_path)

    monkeypatch.setattr(runtime, "compile_plan", counted)
    x, w, b = torch.randn(3, 37), torch.randn(37), torch.randn(37)
    expected = F.layer_norm(x, (37,), w, b)
    for _ in range(12):
        assert torch.equal(F.layer_norm(x, (37,), w, b), expected)
    assert recorded == [((3, 37), (37,), (37,))]
