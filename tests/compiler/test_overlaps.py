"""Changes in place that read what they write: graphs read everything first, as eager calls and NumPy do."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.memory.regions import Memory
from tensocket_plugins.contract.dtypes import float32

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


def in_torch(function):
    """The function between two pointwise operators, so that the graph has memory of its own."""
    def run(x):
        y = x * 2
        function(y)
        return y + 1
    return run


def in_numpy(x, function):
    y = x * 2
    function(y)
    return y + 1


def add_to_next(y):
    y.T[1:] += y.T[:-1]


def add_to_last(y):
    y[:, :-1] += y[:, 1:]


def move(y):
    y[:, 1:] = y[:, :-1]


def move_on(y):
    y.T[2:] = y.T[:-2]


def add_transposed(y):
    y[:3, :3].T[...] += y[:3, :3]


def subtract_a_column(y):
    y -= y[:, 1:2]


def add_every_other(y):
    y[:, ::2] += y[:, 1::2]


def multiply_twice(y):
    y[:, 1:] *= y[:, :-1]
    y[:, :-1] -= y[:, 1:]


@pytest.mark.parametrize("device", ["cpu", "ref"])
@pytest.mark.parametrize("function", [add_to_next, add_to_last, move, move_on, add_transposed, subtract_a_column,
                                      add_every_other, multiply_twice], ids=lambda f: f.__name__)
def test_operands_are_read_before_they_are_written(function, device):
    for dtype in (np.float32, np.int64):
        compiled = torch.compile(in_torch(function), options={"check": 1000})
        for k in range(6):
            x = np.random.default_rng(k).integers(-3, 4, (5, 6)).astype(dtype)
            found = compiled(torch.tensor(x, device=device)).cpu()
            np.testing.assert_array_equal(found.numpy(), in_numpy(x, function))
        assert torch.compiler.compiled(compiled).report().hits > 1


def test_regions_that_overlap_in_part():
    memory, array = Memory(), np.zeros((4, 6), np.float32)

    def overlap(x, y):
        return memory.region(x, float32).overlaps_partially(memory.region(y, float32))
    assert overlap(array[:, 1:], array[:, :-1])
    assert overlap(array[:, :4], array[:, :4].T)
    assert overlap(array[:, :1], array)
    assert not overlap(array, array)
    assert not overlap(array[:2], array[2:])
    assert not overlap(array[:1], np.lib.stride_tricks.as_strided(array, (1, 6), (4, 4)))


def test_windows_that_overlap_are_written_once():
    def f(x):
        y = x * 1.5
        windows = y.unfold(-1, 2, 1)
        windows += windows
        return y + 0, windows.T * 1

    compiled = torch.compile(f)
    for _ in range(6):
        whole, windows = compiled(torch.arange(4.0))
        assert whole.tolist() == [0, 3, 6, 9]
        assert windows.tolist() == [[0, 3, 6], [3, 6, 9]]
    assert sum(v.hits for v in compiled._compiled.variants)


@pytest.mark.parametrize(("shape", "strides", "distinct"), [
    ((3, 2), (1, 1), False), ((3, 2), (2, 1), True), ((3, 2), (0, 1), False), ((1, 2), (0, 1), True),
    ((2, 3), (1, 2), True), ((3, 2), (-2, 1), True)])
def test_elements_at_different_places(shape, strides, distinct):
    array = np.lib.stride_tricks.as_strided(np.zeros(9, np.float32)[4:], shape, [4 * s for s in strides])
    region = Memory().region(array, float32)
    assert region.distinct is distinct
