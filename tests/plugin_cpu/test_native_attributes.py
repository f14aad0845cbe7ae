"""Attributes by machine code: sizes and values by bits, objects for the next path, references that stay right."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from tensocket_cpu.native import LAYOUT
from tensocket_plugins.contract.plans import BitsPlan, SizesPlan, WrapperLayout

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="this interpreter's objects are unknown")


class Holder:
    __slots__ = ("array", "counter", "key")


class Heir(Holder):
    pass


class Sizes(tuple):
    __slots__ = ()


class Matrix(np.ndarray):
    pass


WRAPPER = WrapperLayout(Holder, "array", (("key", None, None), ("counter", None, None)), "counter")
MASK = (1 << 18) - 1
VALUES = {1 << 3: ["three"], 1 << 17: ["seventeen"], 0: ["none"]}
HIGH = {1 << 32: ["first"], 1 << 33: ["second"], 1 << 62: ["last"], 1 << 63: ["beyond"], 1 << 64: ["two words"]}


def holder(array=None, key=None, kind=Holder):
    made = kind()
    if array is not None:
        made.array = array
    if key is not None:
        made.key = key
    return made


def refused(*args, **named):
    return ("fallback", *args, *named.items())


@pytest.fixture(scope="module")
def sizes(device):
    return device.compile_plan(SizesPlan(WRAPPER, Sizes), refused)


@pytest.fixture(scope="module")
def low(device):
    return device.compile_plan(BitsPlan(WRAPPER, "key", MASK, VALUES), refused)


@pytest.fixture(scope="module")
def high(device):
    return device.compile_plan(BitsPlan(WRAPPER, "key", -1 << 32, HIGH), refused)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (300, 1), (1,) * 64, (1 << 40, 0)])
@pytest.mark.parametrize("kind", [Holder, Heir])
def test_sizes_are_the_shape_of_the_array(sizes, shape, kind):
    found = sizes(holder(np.empty(shape, np.int8), kind=kind))
    assert type(found) is Sizes
    assert found == shape
    assert all(type(n) is int for n in found)


def test_sizes_of_views_and_broadcast_arrays(sizes):
    base = np.zeros((4, 6))
    for array in (base.T, base[::2, 1:], np.broadcast_to(base, (5, 4, 6)), base[0, 0:0]):
        assert sizes(holder(array)) == array.shape


def test_sizes_hold_one_reference_each(sizes):
    array = np.empty((1000003, 0), np.int8)
    mine = holder(array)
    before = sys.getrefcount(array)
    found = sizes(mine)
    assert sys.getrefcount(array) == before
    assert sys.getrefcount(found) == 2
    assert sys.getrefcount(found[0]) == 3  # the tuple, the expression and the argument, as for any new tuple's item
    assert gc.is_tracked(found)


def test_many_results_do_not_leak(sizes):
    mine, kinds = holder(np.empty((7, 9), np.int8)), sys.getrefcount(Sizes)
    for _ in range(1000):
        sizes(mine)
    assert sys.getrefcount(Sizes) == kinds


@pytest.mark.parametrize("item", [holder(), holder(np.zeros(3).view(Matrix)), holder((2, 3)), object(), None, 3])
def test_other_objects_go_to_the_next_path(sizes, item):
    assert sizes(item) == ("fallback", item)


def test_other_arguments_go_to_the_next_path(sizes, low):
    mine = holder(np.zeros(3), 1 << 3)
    for function in (sizes, low):
        assert function() == ("fallback",)
        assert function(mine, mine) == ("fallback", mine, mine)
        assert function(mine, a=1) == ("fallback", mine, ("a", 1))


def test_bits_choose_the_value(low, high):
    for bits, value in VALUES.items():
        assert low(holder(key=bits | 1 << 20 | 1 << 40)) is value
    for bits, value in HIGH.items():
        mine = holder(key=bits | 5)
        assert high(mine) is value if bits < 1 << 63 else high(mine) == ("fallback", mine)


def test_unknown_bits_go_to_the_next_path(low, high):
    for function, key in ((low, 1 << 4), (low, 1 << 3 | 1 << 17), (high, 0), (high, 1 << 32 | 1 << 33), (high, -1),
                          (low, 1 << 70), (low, True), (low, 8.0), (low, np.int64(8))):
        mine = holder(key=key)
        assert function(mine) == ("fallback", mine)
    assert low(unset := holder()) == ("fallback", unset)


def test_values_keep_their_references(low):
    mine, value = holder(key=1 << 3), VALUES[1 << 3]
    before = sys.getrefcount(value)
    held = [low(mine) for _ in range(50)]
    assert sys.getrefcount(value) == before + 50
    del held
    assert sys.getrefcount(value) == before
