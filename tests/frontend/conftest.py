"""Fixtures of the front end's tests."""

from __future__ import annotations

import contextlib
import os
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


@pytest.fixture
def without_descriptors():
    """A context in which this process cannot open another file."""
    resource = pytest.importorskip("resource")

    @contextlib.contextmanager
    def full():
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        unused = os.dup(0)
        os.close(unused)
        resource.setrlimit(resource.RLIMIT_NOFILE, (unused, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    return full
