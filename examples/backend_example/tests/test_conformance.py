"""The device passes the conformance suite."""

from __future__ import annotations

import pytest
from tensocket_toy import NAME

import tensocket
from tensocket_conformance.cli import main


def test_selected_by_name() -> None:
    """Put a tensor on the device by the device's name."""
    x = tensocket.arange(6.0, device=NAME).reshape(2, 3)
    assert x.device.type == NAME
    assert (x @ x.t()).tolist() == [[5.0, 14.0], [14.0, 50.0]]


@pytest.mark.parametrize("tier", ["T0", "T1", "T2"])
def test_conformance(tier: str) -> None:
    """Run the conformance suite; no case fails."""
    assert main([NAME, "--quick", "--select", f"{tier}.*"]) == 0
