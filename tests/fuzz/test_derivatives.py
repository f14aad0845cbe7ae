"""Derivatives of random compositions, for a few seconds."""

from __future__ import annotations

from fuzz import derivatives
from fuzz.campaign import Campaign


def test_every_way_of_differentiating_gives_the_same():
    campaign = Campaign("derivatives", seed=3, cases=40)
    derivatives.fuzz(campaign)
    campaign.check()
    assert campaign.calls > 1000
