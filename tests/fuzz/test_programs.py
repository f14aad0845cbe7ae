"""Random programs, for a few seconds."""

from __future__ import annotations

from fuzz import programs
from fuzz.campaign import Campaign


def test_random_programs_do_what_the_model_does():
    campaign = Campaign("programs", seed=7, cases=150)
    programs.fuzz(campaign)
    campaign.check()
    assert campaign.calls > 1000
