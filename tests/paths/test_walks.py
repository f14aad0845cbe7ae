"""Files that warm calls cross, as docs/architecture.md says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket_core.launch import entries
from tensocket_operators.differentiation import replayed_passes

ROOT = Path(__file__).parents[2]
#: Calls after which everything that is compiled is there.
WARM = 10_000


def files_of(call: Callable[[], Any]) -> list[str]:
    """The project's files that a call enters, without repetitions of the file that it is in."""
    found: list[str] = []

    def note(frame: FrameType, event: str, value: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path != Path(__file__) and path.is_relative_to(ROOT) and found[-1:] != [str(path)]:
            found.append(str(path))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


x, w = torch.ones(3, 5), torch.ones(5, 4)
a, b = [torch.ones(3, 4, requires_grad=True) for _ in range(2)]
WALKS = {
    "a + b": (lambda: x + x, 1), "x @ w": (lambda: x @ w, 1), "sum(0)": (lambda: x.sum(0), 4),
    "layer_norm": (lambda: F.layer_norm(x, (5,)), 3),
}


@pytest.mark.skipif(not entries.ENABLED, reason="without entries, other paths serve")
@pytest.mark.parametrize("name", WALKS)
def test_a_warm_call_crosses_few_files_and_returns_to_none(name: str) -> None:
    call, most = WALKS[name]
    for _ in range(WARM):
        call()
    found = files_of(call)
    assert len(found) <= most, found
    assert len(found) == len(set(found)), found


@pytest.mark.skipif(not entries.ENABLED, reason="without entries, other paths serve")
def test_a_warm_backward_pass_crosses_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed_passes, "OVERRIDDEN_KERNELS", [])  # as if no test before had replaced one
    for _ in range(WARM // 10):
        (a * b).sum().backward()
    loss, a.grad, b.grad = (a * b).sum(), None, None
    found = files_of(loss.backward)
    assert len(found) == len(set(found)) == 3, found
