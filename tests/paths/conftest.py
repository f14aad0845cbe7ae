"""Fixtures of tests of fast paths: replayed launches, entries, plans and kernels of the CPU, against references.

All run on the device ``cpu``, through the front end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tensocket_core.device import open_entry
from tensocket_core.dispatch.registry import clear_tables


@pytest.fixture
def fresh_tables() -> Iterator[None]:
    """Closures that a test's calls make begin with it and end with it."""
    clear_tables()
    yield
    clear_tables()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that the device is asked to keep launches whether it did."""
    answers: list[bool] = []
    runtime = open_entry("cpu").runtime
    keep = runtime.keep

    def watched(*args: Any) -> Any:
        made = keep(*args)
        answers.append(made is not None)
        return made

    monkeypatch.setattr(runtime, "keep", watched)
    return answers
