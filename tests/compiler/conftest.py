"""All graphs of these tests are verified before and after each pass."""

from __future__ import annotations

import pytest

from tensocket_compiler.passes.verify import VERIFICATION


@pytest.fixture(autouse=True)
def verify_each_pass(monkeypatch):
    monkeypatch.setattr(VERIFICATION, "is_thorough", True)
