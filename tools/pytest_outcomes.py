"""A plugin of pytest that writes the outcome of every test as a line of JSON to the file that $OUTCOMES names.

    OUTCOMES=here.jsonl python -m tensocket.as_torch -m pytest -p pytest_outcomes tests

With $TESTS, only the tests that this file lists run, one a line; with $SAMPLE=N, about N tests, of which always the
same are chosen.
"""

from __future__ import annotations

import json
import os
from hashlib import md5
from pathlib import Path
from typing import Any, Final

_OUTCOMES: Final[dict[str, str]] = {}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the chosen tests."""
    if "TESTS" in os.environ:
        chosen = set(Path(os.environ["TESTS"]).read_text("utf-8").splitlines())
        items[:] = [item for item in items if item.nodeid in chosen]
    sample = int(os.environ.get("SAMPLE", len(items)))
    kept = set(sorted((item.nodeid for item in items), key=lambda name: md5(name.encode()).hexdigest())[:sample])
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome: a failure of any part is one of the test."""
    if report.when == "call" or report.outcome != "passed":
        outcome = "expected failure" if hasattr(report, "wasxfail") else report.outcome
        if _OUTCOMES.get(report.nodeid) != "failed":
            _OUTCOMES[report.nodeid] = outcome


def pytest_sessionfinish() -> None:
    """Write the outcomes."""
    lines = [json.dumps([name, outcome]) + "\n" for name, outcome in _OUTCOMES.items()]
    Path(os.environ["OUTCOMES"]).write_text("".join(lines), "utf-8")
