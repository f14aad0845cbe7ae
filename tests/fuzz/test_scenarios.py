"""A short run of the scenarios: a few children of one process that has worked already."""

from __future__ import annotations

import os

import pytest

from fuzz import scenarios
from fuzz.campaign import Campaign


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("kind", ["exits", "forks", "races"])
def test_processes_in_odd_situations_do_what_they_should(kind, monkeypatch):
    monkeypatch.setattr(scenarios, "NEW", 0.0)
    monkeypatch.setattr(scenarios, "WARM", 10)
    campaign = Campaign("scenarios", seed=5, cases=3, options=(kind,))
    scenarios.fuzz(campaign)
    campaign.check()
