"""Factories as built-in functions: copies, functions that are called, calls that go to the next path, references."""

from __future__ import annotations

import gc
import struct
import sys

import numpy as np
import pytest

from tensocket_cpu.native import LAYOUT
from tensocket_plugins.contract.plans import FactoryPlan, RecordedCopy, WrapperLayout

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="this interpreter's objects are unknown")

MARK = object()


class Holder:
    __slots__ = ("array", "counter", "key")

    def __init__(self, array, key=1):
        self.array, self.key, self.counter = array, key, None


class Heir(Holder):
    pass


WRAPPER = WrapperLayout(Holder, "array", (("key", MARK, None), ("counter", None, None)), "counter")
CONTEXT, OVERRIDES = ([MARK],), ([], {})


class Factory:
    """A compiled factory, the calls of its next path, and those that it noted."""

    def __init__(self, device, note, **options):
        self.slow, self.noted = [], []

        def function(*args, **named):
            self.noted.append((args, named))
            return note(*args, **named)

        def next_path(*args, **named):
            self.slow.append((args, named))
            return "next path"

        self.call = device.compile_plan(FactoryPlan(function, WRAPPER, "key", CONTEXT, OVERRIDES, **options), next_path)

    def __call__(self, *args, **named):
        return self.call(*args, **named)

    def is_noted(self, *args, **named):
        """Whether a call is served without the next path, once it came twice."""
        self(*args, **named), self(*args, **named)
        before = len(self.slow)
        self(*args, **named)
        return len(self.slow) == before


@pytest.mark.parametrize("array", [
    np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.zeros((), np.complex128), np.ones((0, 4), np.int8),
    np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(1, 2, 0), np.array([True, False])])
def test_copies(device, array):
    key = 1 << 40
    factory = Factory(device, lambda *args: RecordedCopy(array, key))
    assert factory.is_noted(1, 2)
    made = [factory(1, 2) for _ in range(50)]
    for x in made:
        assert type(x) is Holder
        assert x.key is key
        assert x.counter is None
        assert (x.array.dtype, x.array.shape, x.array.strides) == (array.dtype, array.shape, array.strides)
        assert np.array_equal(x.array, array)
        assert x.array.flags.owndata
        assert x.array.flags.writeable
        x.array[...] = 1
    assert np.array_equal(factory(1, 2).array, array)


def test_functions_are_called(device):
    drawn = iter(range(100))
    factory = Factory(device, lambda *args, **named: lambda: next(drawn))
    assert factory.is_noted("a", b=2)
    assert [factory("a", b=2) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(StopIteration):
        [factory("a", b=2) for _ in range(100)]


def test_calls_are_told_apart(device):
    factory = Factory(device, lambda *args, **named: RecordedCopy(np.array(len(factory.noted)), 1))
    array, other = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float64)
    calls = [((), {}), ((0.0,), {}), ((-0.0,), {}), ((float("nan"),), {}), ((0,), {}), ((False,), {}), ((None,), {}),
             (((0,),), {}), (([0],), {}), (((0.0,),), {}), (([0.0, 1.0],), {}), ((1, 2), {}), ((1,), {"b": 2}),
             ((1,), {"c": 2}), ((Holder(array),), {}), ((Holder(array, 2),), {}), ((Heir(array),), {}),
             ((Holder(array.T),), {}), ((Holder(other),), {}), ((slice(0, 1),), {})]
    for args, named in calls:
        assert factory.is_noted(*args, **named)
    found = [factory(*args, **named).array.item() for args, named in calls]
    assert found == list(range(1, len(calls) + 1))
    equal = [((float("0.0"),), {}), ((struct.unpack("d", struct.pack("d", -0.0))[0],), {}), (([0.0, float("1")],), {})]
    assert [factory(*args).array.item() for args, _ in equal] == [2, 3, 11]
    assert factory(Holder(array.copy())).array.item() == 15


def test_elements_count_if_the_plan_says_so(device):
    for dtype in (np.float32, np.float64, np.int64, np.int32):
        factory = Factory(device, lambda x: RecordedCopy(x.array.copy(), 1), elements=True)
        for k in (0, 1, -1):
            assert factory.is_noted(Holder(np.array(k, dtype)))
        assert [factory(Holder(np.array(k, dtype))).array.item() for k in (1, 0, -1)] == [1, 0, -1]
        assert factory(Holder(np.array(7, dtype))) == "next path"
    assert not factory.is_noted(Holder(np.array(1, np.int8)))


def test_calls_that_the_next_path_serves(device):
    factory = Factory(device, lambda *args: None if args == (1,) else NotImplemented)
    assert not factory.is_noted(1)
    assert not factory.is_noted(2)
    assert factory.noted.count(((1,), {})) == 1
    assert factory.noted.count(((2,), {})) == 2
    assert not factory.is_noted(1 << 70)
    assert not factory.is_noted(*range(9))
    large = Factory(device, lambda: RecordedCopy(np.zeros(1 << 16), 1))
    assert not large.is_noted()


def test_context_and_overrides(device):
    factory = Factory(device, lambda: RecordedCopy(np.array(len(factory.noted)), 1))
    assert factory.is_noted()
    try:
        CONTEXT[0][0] = object()
        assert factory() == "next path"
        assert factory.is_noted()
        assert factory().array.item() == 2
        OVERRIDES[0].append(1)
        assert factory() == "next path"
        OVERRIDES[0].clear()
        OVERRIDES[1][1] = 2
        assert factory() == "next path"
    finally:
        CONTEXT[0][0] = MARK
        OVERRIDES[0].clear()
        OVERRIDES[1].clear()
    assert factory().array.item() == 1


def test_references_stay_right(device):
    array, key, name = np.arange(3.0), 1 << 50, "a name"
    factory = Factory(device, lambda *args: RecordedCopy(array, key))
    factory.is_noted(name)
    gc.collect()
    before = [sys.getrefcount(x) for x in (array, key, name, array.dtype, None, MARK)]
    made = [factory(name) for _ in range(1000)]
    assert sys.getrefcount(key) >= before[1] + 990
    del made
    gc.collect()
    after = [sys.getrefcount(x) for x in (array, key, name, array.dtype, None, MARK)]
    assert all(abs(x - y) < 500 for x, y in zip(before, after, strict=True))
