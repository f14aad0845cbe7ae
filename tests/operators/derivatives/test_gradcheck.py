"""``gradcheck``: the state that it sets while functions are checked."""

from __future__ import annotations

import pytest

import tensocket_operators as torch
from tensocket_core.recording import RECORDING_SLOW_PATHS
from tensocket_operators.differentiation.gradcheck import GradcheckError, gradcheck


def test_rules_run_while_they_are_checked():
    """Replays of rules, which begin after some passes, may round otherwise than the rules."""
    seen = []

    def square(x):
        seen.append(bool(RECORDING_SLOW_PATHS))
        return x * x

    before = list(RECORDING_SLOW_PATHS)
    assert gradcheck(square, (torch.ones(2, dtype=torch.float64, requires_grad=True),))
    assert all(seen)
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: x.detach() * x, (torch.ones(2, dtype=torch.float64, requires_grad=True),))
    assert before == RECORDING_SLOW_PATHS
