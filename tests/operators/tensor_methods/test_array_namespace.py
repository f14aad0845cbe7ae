"""Core knows no array namespace: what the front end registers is what tensors name."""

from __future__ import annotations

from types import ModuleType

import pytest

import tensocket_operators as tc
from tensocket_operators.interop import namespace
from tensocket_plugins.contract.errors import UnsupportedOperator


def test_without_a_front_end_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "_LOADERS", [])
    with pytest.raises(UnsupportedOperator, match=r"\[__array_namespace__\] .* — the front end has the namespace — "):
        tc.ones(1).__array_namespace__()
    own = ModuleType("own")
    tc.set_array_namespace(lambda: own)
    assert tc.ones(1).__array_namespace__() is own
