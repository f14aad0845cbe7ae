"""A short run of the operator fuzzer: operators that launch kernels, move elements, or calculate exactly."""

from __future__ import annotations

import pytest

from fuzz.campaign import Campaign
from fuzz.operators import fuzz

#: Elementary functions are left to long runs, which find last bits that differ between layouts and sizes.
NAMES = ("conv1d", "conv2d", "threshold", "pad", "nan_to_num", "hardtanh", "leaky_relu", "add", "lcm", "pow", "flip",
         "cat", "max_pool2d", "avg_pool2d", "gather", "embedding", "cumsum", "where", "clamp", "floor", "eq")


@pytest.mark.parametrize("seed", [1, 2])
def test_every_way_gives_the_same(seed):
    campaign = Campaign("operators", seed, cases=12, options=NAMES)
    fuzz(campaign, compare_plain=False)
    campaign.check()
