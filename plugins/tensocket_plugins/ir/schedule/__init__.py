"""Schedules: from the nests that the runtime and the compiler build to programs that a target can run.

A nest uses ``PARALLEL`` loops and ``Reduce``. ``schedule`` replaces both by the target's features: groups of lanes with
local memory (kind ``simt``), or loops whose outermost one a thread pool may divide (kind ``cpu``). One nest has several
schedules; the best one depends on sizes that are known only at launch, so callers then ask ``pick_strategy`` and cache
one compiled program per strategy.
"""

from __future__ import annotations

from ..strategies import Strategy, pick_strategy
from .strategy import schedule

__all__ = ["Strategy", "pick_strategy", "schedule"]
