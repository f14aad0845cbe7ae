"""A pytest plugin for ``make test``, which runs the tests of the operators twice: alone, and with all packages.

Those on the device ``ref`` would compute the same again. The first run notes what passed, the second leaves that out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--note-passed", metavar="FILE", help="write the names of tests that pass")
    parser.addoption("--leave-out", metavar="FILE", help="deselect the tests named in a file, if it is there")


def pytest_configure(config: Any) -> None:
    notes = config.getoption("--note-passed")
    if notes and not hasattr(config, "workerinput"):  # reports of all workers arrive at the process that started them
        config.pluginmanager.register(_Notes(Path(notes)))


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    notes = config.getoption("--leave-out")
    if not notes or not Path(notes).exists():
        return
    passed = set(Path(notes).read_text("utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class _Notes:
    """Writes the names of tests that pass to a file at the end of the session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif not report.passed:  # also a fixture's end
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text("".join(f"{name}\n" for name in sorted(self._passed - self._failed)), "utf-8")
