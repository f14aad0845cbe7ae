"""Recordings of launches: what is recorded, and how often."""

from __future__ import annotations

import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_core.device import open_entry
from tensocket_core.launch import entries

pytestmark = pytest.mark.skipif(not entries.ENABLED, reason="recordings are machine code")


def test_operators_inside_of_a_recorded_one_are_not_recorded_again(monkeypatch):
    runtime = open_entry("cpu").runtime
    keep, recorded = runtime.keep, []

    def counted(function, operands, rest):
        recorded.append(tuple(x.shape for x in operands.values() if x is not None))
        return keep(function, operands, rest)

    monkeypatch.setattr(runtime, "keep", counted)
    x, w, b = torch.randn(3, 37), torch.randn(37), torch.randn(37)
    expected = F.layer_norm(x, (37,), w, b)
    for _ in range(12):
        assert torch.equal(F.layer_norm(x, (37,), w, b), expected)
    assert recorded == [((3, 37), (37,), (37,))]
