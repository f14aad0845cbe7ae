"""Shapes of results that follow from those of arguments: calls that were checked before are skipped, others are not."""

from __future__ import annotations

from typing import Any

import pytest

import tensocket as torch
from tensocket_compiler.capture import shapes
from tensocket_core.dispatch.registry import OPERATORS

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def inferred(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of the calls without data."""
    found: list[Any] = []
    real = shapes._without_data

    def noted(value: Any) -> Any:
        if type(value) is tuple:
            found.append(value)
        return real(value)
    monkeypatch.setattr(shapes, "_without_data", noted)
    return found


def reason(name: str, args: tuple[Any, ...], made: Any, known: set[Any], **named: Any) -> str | None:
    return shapes.reason_of_shapes(OPERATORS[name], args, named, [made], known)


def test_equal_calls_are_inferred_once(inferred: list[Any]) -> None:
    known: set[Any] = set()
    for _ in range(3):
        assert reason("clone", (X,), X.clone(), known) is None
    assert len(inferred) == 1


@pytest.mark.parametrize("other", [X.T, X.double(), X[:, :2], X.reshape(6)])
def test_other_layouts_are_inferred_anew(inferred: list[Any], other: Any) -> None:
    known: set[Any] = set()
    assert reason("clone", (X,), X.clone(), known) is None
    assert reason("clone", (other,), other.clone(), known) is None
    assert len(inferred) == 2


def test_other_results_are_refused_after_equal_calls() -> None:
    known: set[Any] = set()
    assert reason("clone", (X,), X.clone(), known) is None
    assert reason("clone", (X,), X[:1].clone(), known) == "the shape of the result of clone depends on values"


def test_other_numbers_are_inferred_anew() -> None:
    known: set[Any] = set()
    for dim in (0, 1, True):  # equal numbers are not the same argument
        assert reason("cumsum", (X, dim), X.cumsum(int(dim)), known) is None
    assert len(known) == 3


def test_shapes_that_depend_on_values_are_refused_each_time() -> None:
    known: set[Any] = set()
    for _ in range(2):
        assert reason("unique", (X, None, False), X.unique(), known) == (
            "the shape of the result of unique may depend on values")
    assert not known
