"""Joins of small arrays as built-in functions: values, calls that go to the fallback, references that stay right."""

from __future__ import annotations

import itertools
import sys
import tracemalloc

import numpy as np
import pytest

from tensocket_cpu.native import LAYOUT
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import bfloat16, float32, float64
from tensocket_plugins.contract.plans import JoinPlan, WrapperLayout

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="this interpreter's objects are unknown")

MARK = object()
SHAPES = [(5,), (1,), (3, 5), (2, 1, 4), (2, 3, 1, 2), (1, 1, 1, 1, 3), (2, 1, 2, 1, 2, 3), (1, 2, 1, 2, 1, 2, 1),
          (2, 1, 1, 2, 1, 1, 2, 2)]


class Holder:
    __slots__ = ("array", "counter", "key")

    def __init__(self, array):
        self.array = array
        self.key = self.counter = None


class Heir(Holder):
    pass


class Names(list):
    pass


WRAPPER = WrapperLayout(Holder, "array", (("key", MARK, None), ("counter", None, None)), "counter")


def refused(*args, **named):
    return ("fallback", *args, *named.items())


@pytest.fixture(scope="module")
def compiled(device):
    """Return the entry of a dtype, compiled once."""
    made = {}

    def entry(dtype=float32, new_dim=False):
        if (dtype, new_dim) not in made:
            made[dtype, new_dim] = device.compile_plan(JoinPlan(dtype, WRAPPER, new_dim), refused)
        return made[dtype, new_dim]

    return entry


def check(result, expected):
    """Check value, layout and slots of a result."""
    assert type(result) is Holder
    assert result.key is MARK
    assert result.counter is None
    assert type(result.array) is np.ndarray
    assert result.array.dtype is expected.dtype
    assert result.array.flags.c_contiguous
    assert result.array.flags.owndata
    assert result.array.shape == expected.shape
    assert result.array.tobytes() == expected.tobytes()


def pieces(rng, shape, count, dim=None):
    """Return arrays whose sizes differ along ``dim``, if it is given."""
    shapes = [list(shape) for _ in range(count)]
    if dim is not None:
        for k, item in enumerate(shapes):
            item[dim] = (item[dim] + 2 * k) % 4 + 1
    return [rng.standard_normal(item).astype(np.float32) for item in shapes]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_values_of_all_dims(compiled, rng, shape, count):
    for dim in range(-len(shape), len(shape)):
        arrays = pieces(rng, shape, count, dim)
        expected = np.concatenate(arrays, dim)
        for kind in (list, tuple):
            check(compiled()(kind(map(Holder, arrays)), dim), expected)
        check(compiled()([*map(Heir, arrays)], dim), expected)
    arrays = pieces(rng, shape, count, 0)
    check(compiled()([*map(Holder, arrays)]), np.concatenate(arrays))


@pytest.mark.parametrize("shape", [(), *SHAPES[:-1]])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_values_with_a_new_dim(compiled, rng, shape, count):
    run = compiled(new_dim=True)
    for dim in range(-len(shape) - 1, len(shape) + 1):
        arrays = pieces(rng, shape, count)
        check(run((*map(Heir, arrays),), dim), np.stack(arrays, dim))
    check(run([*map(Holder, arrays)]), np.stack(arrays))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("new_dim", [False, True])
def test_dtypes(compiled, rng, dtype, new_dim):
    arrays = [rng.integers(0, 2, (2, 3 * np.dtype(dtype.numpy).itemsize), np.uint8).view(dtype.numpy) for _ in range(3)]
    for dim in (0, 1):
        join = np.stack if new_dim else np.concatenate
        check(compiled(dtype, new_dim)([*map(Holder, arrays)], dim), join(arrays, dim))


X = np.arange(12, dtype=np.float32).reshape(3, 4)
BATCH = np.zeros((1, 2, 3, 4), np.float32)
ODD = np.lib.stride_tricks.as_strided(BATCH, BATCH.shape, (4, *BATCH.strides[1:]))


@pytest.mark.parametrize(("items", "dim"), [
    ([X, X[:, :3]], 0), ([X, X[:2]], 1), ([X, X[0]], 0), ([X, X[None]], 0), ([X, X.astype(np.float64)], 0),
    ([X.astype(np.float64), X], 0), ([X.T, X.T], 0), ([X, X[::-1]], 0), ([X[:, ::2], X[:, ::2]], 1),
    ([np.float32(1), np.float32(2)], 0), ([np.zeros((), np.float32)] * 2, 0), ([X[:0], X], 0), ([X, X[:0]], 0),
    ([X[:, :0], X[:, :0]], 0), ([X[0, :0], X], 0), ([np.broadcast_to(X[:1], (3, 4))] * 2, 0),
    ([np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4), X], 0), ([np.ma.array(X), X], 0),
    ([X, np.ma.array(X)], 0), ([X.astype(">f4"), X], 0), ([None, X], 0), ([X, [1.0]], 0), ([X, None], 1), ([], 0),
    ([X, X], 2), ([X, X], -3), ([X, X], 1 << 62), ([X, X], 1 << 70), ([X, X], -1 << 63), ([X, X], True),
    ([X, X], False), ([X, X], np.int64(0)), ([X, X], 0.0), ([X, X], None), ([X, X], "0"),
    ([np.zeros((1,) * 9, np.float32)] * 2, 0), ([BATCH, ODD], 0), ([ODD, BATCH], 0)])
def test_other_operands_and_dims_go_to_the_fallback(compiled, items, dim):
    for kind in (list, tuple):
        given = kind(map(Holder, items))
        answer = compiled()(given, dim)
        assert answer == ("fallback", given, dim)
        assert answer[1] is given


@pytest.mark.parametrize(("items", "dim"), [
    ([X, X[:2]], 0), ([X, X[0]], 0), ([X[:0], X[:0]], 0), ([X, X], 3), ([X, X], -4), ([X, X], True),
    ([np.zeros((1,) * 8, np.float32)] * 2, 0), ([X.T, X.T], 0)])
def test_other_operands_with_a_new_dim_go_to_the_fallback(compiled, items, dim):
    given = [*map(Holder, items)]
    assert compiled(new_dim=True)(given, dim) == ("fallback", given, dim)


@pytest.mark.parametrize("args", [
    (), ([Holder(X)], 0, 0), (Holder(X), 0), ([X, X], 0), ([Holder(X), X], 0), ([Holder(X), None], 0),
    (Names([Holder(X)]), 0), (None,), (range(2), 0), ({}, 0)])
def test_other_arguments_go_to_the_fallback(compiled, args):
    assert compiled()(*args) == ("fallback", *args)


def test_arguments_by_name_and_empty_slots_go_to_the_fallback(compiled):
    items = [Holder(X), Holder(X)]
    assert compiled()(items, dim=0) == ("fallback", items, ("dim", 0))
    assert compiled()(tensors=items) == ("fallback", ("tensors", items))
    items[1] = object.__new__(Holder)
    assert compiled()(items, 0) == ("fallback", items, 0)


@pytest.mark.parametrize(("shape", "count", "dim", "fits"), [
    ((64, 2048), 2, 0, True), ((64, 2048), 2, 1, True), ((64, 2048), 3, 0, False), ((64, 2049), 2, 0, False),
    ((262144,), 1, 0, True), ((262145,), 1, 0, False), ((2048, 1), 1, 1, True),
    ((1,), 16385, 0, False), ((1,), 256, 0, True),
    ((128, 1), 2, 1, True), ((129, 1), 2, 1, False), ((2048, 4), 2, 1, True), ((2048, 3), 2, 1, False)])
def test_bounds(compiled, device, rng, shape, count, dim, fits):
    device.allocator.array((1 << 16,), float32)  # the pool has started
    arrays = [rng.standard_normal(shape).astype(np.float32)] * count
    given = [*map(Holder, arrays)]
    answer = compiled()(given, dim)
    if fits:
        check(answer, np.concatenate(arrays, dim))
    else:
        assert answer == ("fallback", given, dim)


def test_strides_of_single_elements_do_not_matter_with_one_memory_format(compiled):
    odd = np.lib.stride_tricks.as_strided(X, (1, 3, 4), (4, 16, 4))
    check(compiled()([Holder(odd), Holder(X[None])], 0), np.stack([X, X]))


def test_fallback_errors_reach_the_caller(device):
    def fail(*args):
        raise KeyError(args)

    run = device.compile_plan(JoinPlan(float64, WRAPPER), fail)
    with pytest.raises(KeyError):
        run([], 0)


@pytest.mark.parametrize("new_dim", [False, True])
def test_references_stay_right(compiled, rng, new_dim):
    items = [Holder(rng.standard_normal((3, 5)).astype(np.float32)) for _ in range(3)]
    run, several = compiled(new_dim=new_dim), (*items,)
    held = [items, several, *items, *[item.array for item in items], None, MARK, Holder, np.dtype(np.float32),
            np.ndarray]

    def counts():
        return [sys.getrefcount(item) for item in held]

    run(items, 0)
    before = counts()
    for k in range(10_000):
        run(items, k % 2)
        run(several, -1)
        run(items, 7)
    results = [run(items, 0) for _ in range(10)]
    assert all(sys.getrefcount(r.array) == 2 for r in results)
    del results
    after = counts()
    assert after[:8] == before[:8]
    assert max(abs(a - b) for a, b in zip(after[8:], before[8:], strict=True)) < 10


def test_memory_is_returned(compiled, rng):
    items = [Holder(rng.standard_normal((30, 50)).astype(np.float32)) for _ in range(3)]
    compiled()(items, 0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(10_000):
            compiled()(items, 1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 18_000  # a single result has as many bytes


def test_results_share_no_memory_with_operands(compiled):
    item = Holder(X.copy())
    for new_dim, dim in itertools.product((False, True), (0, 1)):
        result = compiled(new_dim=new_dim)([item], dim)
        assert not np.shares_memory(result.array, item.array)


def test_wrappers_of_unknown_layout_and_interpreters_of_unknown_layout_have_no_entry(device, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tensocket_cpu.native.wrappers.slot_offsets", lambda wrapper: None)
        assert device.compile_plan(JoinPlan(bfloat16, WRAPPER), refused) is None
    with monkeypatch.context() as patch:
        patch.setattr("tensocket_cpu.native.LAYOUT", None)
        assert device.compile_plan(JoinPlan(float32, WRAPPER), refused) is None
