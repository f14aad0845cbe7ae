"""Fixtures of tests of fast paths: replayed launches, entries, plans and kernels of the CPU, against references.

All run on the device ``cpu``, through the front end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import clear_tables
from tensocket_operators.kinds import noted_views
from tensocket_plugins.contract.plans import ReplayPlan


@pytest.fixture
def fresh_tables() -> Iterator[None]:
    """Closures that a test's calls make begin with it and end with it; views that other tests had noted are not."""
    noted_views._NOTED.clear()
    clear_tables()
    yield
    clear_tables()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each replay that the device is to compile whether it did."""
    answers: list[bool] = []
    runtime = open_device("cpu").runtime
    compile_plan = runtime.compile_plan

    def noted(plan: Any, next_path: Any) -> Any:
        made = compile_plan(plan, next_path)
        if type(plan) is ReplayPlan:
            answers.append(made is not None)
        return made

    monkeypatch.setattr(runtime, "compile_plan", noted)
    return answers
