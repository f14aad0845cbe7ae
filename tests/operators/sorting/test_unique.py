"""Distinct elements of small tensors, against NumPy and by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch

CASES = {
    "int64": np.random.default_rng(0).integers(-3, 4, (5, 6)),
    "uint8": np.array([7, 255, 0, 7], np.uint8),
    "bool": np.array([[True, False], [True, True]]),
    "float64": np.round(np.random.default_rng(1).standard_normal((2, 3, 4)), 1),
    "float32": np.array([np.inf, -1.0, np.inf, -np.inf, 2.5], np.float32),
    "turned": np.array([[2, 1, 3], [1, 2, 2]]).T,
    "apart": np.arange(20)[::3] % 4,
    "one": np.array(5),
    "none": np.array([], np.int64),
    "many": np.random.default_rng(2).integers(0, 50, 9000),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("asked", list(itertools.product([False, True], repeat=2)))
def test_elements_groups_and_counts(name: str, asked: tuple[bool, bool]) -> None:
    x = CASES[name]
    values, groups, counts = np.unique(x, return_inverse=True, return_counts=True)
    wanted = [values, *([groups.reshape(x.shape)] if asked[0] else []), *([counts] if asked[1] else [])]
    for ordered in (True, False):
        found = torch.unique(torch.tensor(x), ordered, *asked)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(wanted)
        for k, (one, expected) in enumerate(zip(found, wanted, strict=True)):
            assert one.dtype.name == (x.dtype.name if k == 0 else "int64")
            np.testing.assert_array_equal(one._values(), expected)


def test_the_first_of_equal_elements_and_every_nan() -> None:
    x = torch.tensor([math.nan, 0.0, -0.0, math.nan, -1.0])
    for asked in ((False, False), (True, True)):
        found: Any = torch.unique(x, True, *asked)
        values, rest = (found[0], found[1:]) if isinstance(found, tuple) else (found, ())
        assert np.signbit(values._values()).tolist()[:2] == [True, False]
        assert np.isnan(values._values()).tolist() == [False, False, True, True]
        if rest:
            assert [part.tolist() for part in rest] == [[2, 1, 1, 3, 0], [1, 2, 1, 1]]


def test_results_are_new() -> None:
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    found = torch.unique(x)
    found.detach().zero_()
    assert x.tolist() == [3.0, 1.0, 2.0]
