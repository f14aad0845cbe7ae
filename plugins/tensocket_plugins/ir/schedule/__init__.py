"""Schedules: from the nests that the runtime and the compiler build to what a target can run.

A nest uses ``PARALLEL`` loops and ``Reduce``. ``schedule`` replaces both by what the target has: groups of lanes with
local memory (kind ``simt``), or loops whose outermost one a thread pool may divide (kind ``cpu``). One nest has several
schedules; which one is best depends on sizes that are known at launch only, so callers ask ``pick_strategy`` then and
keep one compiled program per strategy.
"""

from __future__ import annotations

from .strategy import Strategy, pick_strategy, schedule

__all__ = ["Strategy", "pick_strategy", "schedule"]
