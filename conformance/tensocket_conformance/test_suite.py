"""The suite as pytest tests, one per case; see ``plugin.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .case import Case


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per selected case."""
    conformance = metafunc.config.pluginmanager.get_plugin("tensocket_conformance_run")
    if conformance is None:
        pytest.exit("name the device to validate: --device NAME", 2)
    cases = conformance.select()
    metafunc.parametrize("case", cases, ids=[case.id for case in cases])


def test_case(case: Case, pytestconfig: pytest.Config) -> None:
    """Check that the device passes the case."""
    conformance = pytestconfig.pluginmanager.get_plugin("tensocket_conformance_run")
    assert conformance is not None, "collection found it"
    conformance.check(case)
