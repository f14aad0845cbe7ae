"""Plugin of pytest: ``pytest --pyargs tensocket_conformance --device NAME``.

Every pytest run in an environment with the suite loads the plugin, so it imports nothing heavy and does nothing without
``--device``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .case import Case, Result
    from .runner import Run

_FAILED = 1
_NOT_RUN = 2
_PROFILE = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("tensocket conformance")
    group.addoption("--device", metavar="NAME", help="the device to validate: opencl, or opencl:1")
    group.addoption("--tier", choices=("T0", "T1", "T2", "T4", "T5"), help="highest tier to run")
    group.addoption("--quick", action="store_true", help="a sample that takes less than a minute")
    group.addoption("--conformance-select", metavar="GLOB", help="only cases whose id matches")
    group.addoption("--conformance-seed", type=int, default=0, help="changes the random values")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin if the run has a device."""
    if config.getoption("--device") is not None:
        config.pluginmanager.register(Conformance(config), "tensocket_conformance_run")


class Conformance:
    """One run of the suite under pytest.

    Args:
        config: pytest's configuration, with a device.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collected = 0
        self.not_run = 0
        self.run: Run | None = None

    def select(self) -> list[Case]:
        """Return the selected cases; end the session if no such device or no case exists."""
        # Not at the top of the module, because runs without tensors import it, too.
        from . import runner, suite

        try:
            tested = suite.subject(self.config.getoption("--device"), self.config.getoption("--conformance-seed"))
        except suite.UnknownSubject as error:
            pytest.exit(str(error), _NOT_RUN)
        except suite.BadProfile as error:
            pytest.exit(str(error), _PROFILE)
        available = suite.all_cases(tested.dtypes)
        selection = suite.Selection(self.config.getoption("--tier"), self.config.getoption("--quick"),
                                    self.config.getoption("--conformance-select"))
        try:
            chosen = selection.apply(available)
        except suite.NothingSelected as error:
            pytest.exit(str(error), _NOT_RUN)
        self.run = runner.open_run(tested, available)
        self.collected = len(chosen)
        return chosen

    def check(self, case: Case) -> None:
        """Run one case in a test."""
        assert self.run is not None, "cases are collected before they are run"
        result = self.run.one(case)
        if result.outcome.value == "FAIL":
            pytest.fail(self._message(result), pytrace=False)
        if result.outcome.value != "PASS":
            self.not_run += result.outcome.value == "NOT_RUN"
            pytest.skip(f"{result.outcome.value}: {result.message}")

    def _message(self, result: Result) -> str:
        from .report import reproduction

        assert self.run is not None, "there is a result"
        return "\n".join(part for part in (result.message, result.log, reproduction(result, self.run.subject)) if part)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a run without cases, or with cases that could not run."""
        workers = hasattr(self.config, "workerinput") or getattr(self.config.option, "dist", "no") != "no"
        nothing = exitstatus == int(pytest.ExitCode.NO_TESTS_COLLECTED)
        if nothing or (exitstatus == 0 and not workers and (self.not_run or not self.collected)):
            session.exitstatus = _NOT_RUN
