"""Classes of pairs: comparisons that test suites extend to objects of their own."""

from __future__ import annotations

import re

import pytest

import tensocket as torch
from tensocket import errors
from tensocket.testing import _comparison as pairs

ALL = (pairs.NonePair, pairs.BooleanPair, pairs.NumberPair, pairs.TensorLikePair)


def differences(actual, expected, **options):
    return pairs.not_close_error_metas(actual, expected, pair_types=ALL, **options)


@pytest.mark.parametrize(("actual", "expected"), [
    (None, None), (True, True), (1, 1), (1.0, 1.0 + 1e-9), (1 + 2j, 1 + 2j),
    (torch.ones(2), torch.ones(2) + 1e-7), ([1, {"a": torch.ones(2)}], [1, {"a": torch.ones(2)}]),
    (torch.ones(2, device="meta"), torch.ones(2, device="meta")), ((), ()), ([], []),
])
def test_close_values_have_no_differences(actual, expected):
    assert differences(actual, expected) == []


@pytest.mark.parametrize(("actual", "expected", "text"), [
    (None, 1, "None mismatch: None is not 1"),
    (True, False, "Booleans mismatch: True is not False"),
    (1, 3, "Scalars are not equal!\n\nExpected 3 but got 1."),
    (torch.ones(2), torch.zeros(2), "Tensor-likes are not close!\n\nMismatched elements: 2 / 2 (100.0%)"),
    (torch.ones(2), torch.ones(3), "The values for attribute 'shape' do not match: (2,) != (3,)."),
])
def test_differences_are_described(actual, expected, text):
    (found,) = differences(actual, expected)
    error = found.to_error()
    assert type(error) is found.type is AssertionError
    assert str(error).startswith(text)
    assert str(found.to_error("mine")) == "mine"
    assert str(found.to_error(lambda made: made.upper())).startswith(text.upper())


def test_all_differences_are_found_with_their_places():
    found = differences({"a": [1, 2], "b": 3.0}, {"a": [1, 5], "b": 4.0})
    assert [meta.id for meta in found] == [("a", 1), ("b",)]
    assert str(found[0].to_error()).endswith("\n\nThe failure occurred for item ['a'][1]")


@pytest.mark.parametrize(("actual", "expected", "kind", "text"), [
    ([1], [1, 2], AssertionError, "The length of the sequences mismatch: 1 != 2"),
    ({"a": 1}, {"b": 1}, AssertionError, "Missing keys in the actual mapping: ['b']"),
    (object(), object(), TypeError, "No comparison pair was able to handle inputs of type <class 'object'>"),
    ("a", "b", TypeError, "No comparison pair was able to handle inputs of type <class 'str'>"),
])
def test_values_without_pairs(actual, expected, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        differences(actual, expected)


def test_tolerances_and_checks():
    left, right = torch.ones(2), torch.ones(2, dtype=torch.float64) + 0.5
    assert differences(left, right, rtol=0.0, atol=1.0, check_dtype=False) == []
    (found,) = differences(left, right, rtol=0.0, atol=1.0)
    assert "attribute 'dtype'" in found.msg
    with pytest.raises(errors.ArgumentError, match=r"rtol=0.1, atol=None — both tolerances are given, or none — "):
        differences(left, left, rtol=0.1)


def test_subclasses_can_be_refused():
    parameter = torch.nn.Parameter(torch.ones(2))
    assert differences(parameter, torch.ones(2)) == []
    with pytest.raises(TypeError, match="No comparison pair"):
        differences(parameter, torch.ones(2), allow_subclasses=False)


def test_a_pair_of_ones_own_class():
    class MeanPair(pairs.TensorLikePair):
        def __init__(self, actual, expected, *, mean=False, **others):
            super().__init__(actual, expected, **others)
            self.mean = mean

        def compare(self):
            self._compare_attributes(self.actual, self.expected)
            actual, expected = self._equalize_attributes(self.actual, self.expected)
            if not self.mean:
                self._compare_values(actual, expected)
            elif abs(float((actual - expected).mean())) > self.atol:
                self._fail(AssertionError, "The means differ.")

    def found(**options):
        left, right = torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0], dtype=torch.float64)
        return pairs.not_close_error_metas(left, right, pair_types=(MeanPair,), rtol=0, atol=0.5, check_dtype=False,
                                           **options)

    assert found(mean=True) == []
    assert len(found()) == 1
