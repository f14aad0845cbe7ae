"""Fixtures of the front end's tests."""

from __future__ import annotations

import contextlib
import os

import pytest


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
