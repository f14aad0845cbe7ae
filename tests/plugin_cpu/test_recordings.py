"""Replay: which launches are repeated, which recordings are refused, and that no call sees anything of another one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tensocket_cpu.native as native
from tensocket_cpu.device import CpuDevice
from tensocket_cpu.native.block_memory import plan_blocks
from tensocket_cpu.native.recordings import Place
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.launch_recorder import (
    RECORDERS,
    expect_zero,
    forbid_replay,
    note_constant,
    note_range,
    record_launches,
)
from tensocket_plugins.contract.plans import RecordedCall, ReplayPlan, WrapperLayout
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy

pytestmark = pytest.mark.skipif(native.LAYOUT is None, reason="this interpreter or NumPy has another layout")

F8 = dtypes.float64
DEVICE = CpuDevice()


class Holder:
    """Something with slots, one of which has an array."""

    __slots__ = ("array", "changes", "name")

    array: Any
    changes: Any
    name: Any


class Heir(Holder):
    """A subclass."""


WRAPPER = WrapperLayout(Holder, "array", (("name", "some", "none"), ("changes", None, None)), "changes")


def hold(array: Any, kind: type[Holder] = Holder) -> Holder:
    made = kind()
    made.array = array
    return made


def program() -> Any:
    """``out[i] = x[i * step] * factor + y[i]``."""
    n, step, i = Var("n", dtypes.int64), Var("step", dtypes.int64), Var("i", dtypes.int64)
    value = Load("x", i * step, F8) * Var("factor", F8) + Load("y", i, F8)
    body = loop(i, n, (Store("out", i, value),), LoopKind.PARALLEL)
    params = (Buffer("out", F8, True), Buffer("x", F8, False), Buffer("y", F8, False), Scalar("n", dtypes.int64),
              Scalar("step", dtypes.int64), Scalar("factor", F8))
    assert DEVICE.target is not None
    return DEVICE.compile_ir(schedule(Program("scaled", params, (Kernel("scaled", (body,)),)), DEVICE.target,
                                      Strategy.SERIAL))


RUN = program()


def scaled(x: Any, y: Any, factor: float) -> Any:
    """Run the program for the middle dimension of ``x`` and a vector of as many elements."""
    out = DEVICE.empty(x.shape, F8, DEVICE.default_stream)
    RUN((out, x, y), (x.size, x.strides[0] // 8, factor), DEVICE.default_stream)
    return out


def outcome(*arrays: Any, is_tuple: bool = False) -> RecordedCall:
    return RecordedCall(arrays, (WRAPPER,) * len(arrays), is_tuple)


def decline(*args: Any, **named: Any) -> None:
    """The next path."""


def replay(function: Callable[..., RecordedCall | None], operands: dict[int, Any],
           trailing: dict[int, Any] | None = None) -> Any:
    plan = ReplayPlan(function, operands, {} if trailing is None else trailing, lambda arrays: DEVICE.default_stream)
    return DEVICE.compile_plan(plan, decline)


def values(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape)


# ----------------------------------------------------------------------------------------------------- what is replayed


def test_several_launches_with_temporaries_in_between() -> None:
    """2 * (3 * x + y) + x, and 3 * x + y."""
    def function(x: Any, y: Any) -> RecordedCall:
        inner = scaled(x, y, 3.0)
        return outcome(scaled(inner, x, 2.0), inner, is_tuple=True)

    x, y = values(7), values(7)
    call = replay(function, {0: x, 2: y}, {1: "rest"})
    for seed in range(3):
        x, y = np.random.default_rng(seed).standard_normal((2, 7))
        first, second = call(hold(x), "rest", hold(y, Heir))
        np.testing.assert_array_equal(second.array, 3 * x + y)
        np.testing.assert_array_equal(first.array, 2 * (3 * x + y) + x)
        assert type(first) is Holder
        assert (first.name, first.changes) == ("some", None)
        assert first.array.flags.owndata


def test_long_chains_share_the_memory_of_temporaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """x + x / 2 + ... + x / 2**12 = (2 - 2**-12) * x, with 2.9 MB of temporaries, of which two live at a time."""
    def function(x: Any) -> RecordedCall:
        made = scaled(x, x, 0.0)
        for _ in range(12):
            made = scaled(made, x, 0.5)
        return outcome(made)

    monkeypatch.setattr("tensocket_cpu.native.replay._LONGEST", 1.0)  # seconds: the machine may be busy
    call = replay(function, {0: values(30_000)})
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal(30_000)
        np.testing.assert_allclose(call(hold(x)).array, (2 - 2.0**-12) * x, rtol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_in_use_at_the_same_time_lie_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 5, 12) * 64]
    tested = int(rng.integers(12))
    launches = [[int(k) for k in rng.integers(0, 12, 3)] for _ in range(20)]
    launches += [[k] for k in range(12) if not any(k in used for used in launches)]
    recording: Any = SimpleNamespace(
        launches=[SimpleNamespace(places=[Place("operand", 0, 0), *[Place("block", k, 0) for k in used]])
                  for used in launches], blocks=sizes, zeros=[(Place("block", tested, 0), 4)])
    memory = plan_blocks(recording)
    used = {k: [number for number, blocks in enumerate(launches) if k in blocks] for k in range(12)}
    used[tested].append(len(launches))
    for a, b in combinations(range(12), 2):
        if memory.pieces[a] == memory.pieces[b]:
            assert max(used[a]) < min(used[b]) or max(used[b]) < min(used[a])
    assert all(memory.sizes[piece] >= size for piece, size in zip(memory.pieces, sizes, strict=True))


def test_results_of_earlier_calls_stay() -> None:
    call = replay(lambda x, y: outcome(scaled(scaled(x, y, 2.0), y, 1.0)), {0: values(5), 1: values(5)})
    zero, one = hold(np.zeros(5)), hold(np.ones(5))
    first, second = call(one, zero), call(zero, one)
    assert (first.array.tolist(), second.array.tolist()) == ([2.0] * 5, [2.0] * 5)
    assert call(one, one).array.tolist() == [4.0] * 5
    assert (first.array.tolist(), second.array.tolist()) == ([2.0] * 5, [2.0] * 5)


def test_one_array_for_two_operands() -> None:
    x = values(6)
    call = replay(lambda x, y: outcome(scaled(x, y, 2.0)), {0: x, 1: x})
    for y in (x, values(6) + 1):
        np.testing.assert_array_equal(call(hold(x), hold(y)).array, 2 * x + y)


def test_strides_and_parts_of_operands() -> None:
    x, y = values(12)[::3], values(9)
    call = replay(lambda x, y: outcome(scaled(x, y[5:], -1.0)), {0: x, 1: y})
    x, y = (np.arange(12.0) ** 2)[::3], np.arange(9.0)
    np.testing.assert_array_equal(call(hold(x), hold(y)).array, -x + y[5:])


def test_missing_operands() -> None:
    call = replay(lambda x, y: outcome(scaled(x, x if y is None else y, 1.0)), {0: values(3), 1: None})
    x = hold(np.ones(3))
    assert call(x, None).array.tolist() == [2.0] * 3
    assert call(x, x) is None


def test_results_in_another_order_of_dimensions() -> None:
    def function(x: Any) -> RecordedCall:
        flat = x.transpose(1, 0).reshape(-1)
        return outcome(scaled(flat, flat, 1.0).reshape(4, 3).transpose(1, 0))

    x = values(4, 3).T
    call = replay(function, {0: x})
    found = call(hold(x)).array
    np.testing.assert_array_equal(found, 2 * x)
    assert found.strides == x.strides


def test_no_reference_is_lost_or_kept() -> None:
    call = replay(lambda x, y: outcome(scaled(x, y, 1.0), is_tuple=True), {0: values(3), 1: values(3)})
    x, dtype = hold(np.ones(3)), np.dtype(np.float64)
    before = [sys.getrefcount(k) for k in (x, x.array, dtype, None, "some")]
    for _ in range(100):
        call(x, x)
        call(x, None)
    assert max(abs(sys.getrefcount(k) - n) for k, n in zip((x, x.array, dtype, None, "some"), before, strict=True)) < 20


def test_a_call_outlives_what_made_it() -> None:
    call = replay(lambda x, y: outcome(scaled(scaled(x, y, 2.0), y, 1.0)), {0: values(5), 1: values(5)})
    gc.collect()
    blocks = [np.full(5, np.nan) for _ in range(200)]
    assert call(hold(np.ones(5)), hold(np.ones(5))).array.tolist() == [4.0] * 5
    assert len(blocks) == 200


# -------------------------------------------------------------------------------------------------- what is not taken


def test_other_operands_are_answered_with_none() -> None:
    x, y = values(4), values(4)
    rest = (1, 2)
    call = replay(lambda x, y: outcome(scaled(x, y, 1.0)), {0: x, 1: y}, {2: rest})
    assert call(hold(x), hold(y), rest) is not None
    others = (values(5), values(8)[::2], values(1, 4), x.astype(np.float32), np.float64(1.0), [1.0] * 4)
    for other in others:
        assert call(hold(other), hold(y), rest) is None
        assert call(hold(x), hold(other), rest) is None
    for argument in (x, None, 1.0, Holder()):
        assert call(argument, hold(y), rest) is None
    assert call(hold(x), hold(y), tuple(map(int, (1, 2)))) is None
    assert call(hold(x), hold(y)) is None
    assert call() is None
    assert call(hold(x), y=hold(y), z=rest) is None


def test_launches_that_do_not_explain_the_results_are_not_replayed() -> None:
    x, y = values(4), values(4)

    def partly(x: Any, y: Any) -> RecordedCall:
        out = np.empty(4)
        RUN((out, x, y), (4, 1, 1.0), DEVICE.default_stream)
        out[0] = x[0]
        return outcome(out)

    def by_value(x: Any, y: Any) -> RecordedCall:
        return outcome(scaled(x, y, float(x[0])))

    def changing(x: Any, y: Any) -> RecordedCall:
        x += 1
        return outcome(scaled(x, y, 1.0))

    def refused(x: Any, y: Any) -> RecordedCall:
        forbid_replay()
        return outcome(scaled(x, y, 1.0))

    def converted(x: Any, y: Any) -> RecordedCall:
        return outcome(scaled(x, y, 1.0).astype(np.float32))

    for function in (partly, converted, by_value, changing, refused, lambda x, y: None, lambda x, y: outcome(x + y),
                     lambda x, y: outcome(scaled(x + 1, y, 1.0)), lambda x, y: outcome(scaled(x, y, 1.0)[:2]),
                     lambda x, y: outcome(), lambda x, y: outcome(scaled(x, y, 1.0), x)):
        assert replay(function, {0: x, 1: y}) is None
    assert RECORDERS == {}


def test_zeros_that_are_added_to_are_not_taken_for_results() -> None:
    def function(x: Any, y: Any) -> RecordedCall:
        total = np.zeros(4)
        RUN((total, total, y), (4, 1, 1.0), DEVICE.default_stream)
        RUN((total, total, x), (4, 1, 1.0), DEVICE.default_stream)
        out = scaled(total, y, 1.0)
        return outcome(out)

    call = replay(function, {0: values(4), 1: values(4)})
    assert call is None


def test_results_of_numpy_are_not_taken_for_constants() -> None:
    """Also where they are the same for zeros and ones, or are read by a kernel that hides them."""
    table = np.arange(4.0)
    scratch = np.zeros(4)

    def product(x: Any, y: Any) -> RecordedCall:
        return outcome(scaled(np.minimum(x, 1e300), y, 1.0))

    def written(x: Any, y: Any) -> RecordedCall:
        np.multiply(x, 2.0, out=scratch)
        return outcome(scaled(scratch, y, 1.0))

    def beside(x: Any, y: Any) -> RecordedCall:
        both = np.empty(8)
        RUN((both, x, y), (4, 1, 1.0), DEVICE.default_stream)
        both[4:] = x
        return outcome(scaled(both[4:], y, 1.0))

    def afterwards(x: Any, y: Any) -> RecordedCall:
        out = np.empty(4)
        RUN((out, x, y), (4, 1, 1.0), DEVICE.default_stream)
        np.maximum(out, -1e200, out=out)
        return outcome(out)

    def hidden(x: Any, y: Any) -> RecordedCall:
        return outcome(scaled(np.sign(x) * 0.0, y, 1.0))

    def unnamed(x: Any, y: Any) -> RecordedCall:
        return outcome(scaled(table, y, 1.0))

    for function in (product, written, beside, afterwards, hidden, unnamed):
        assert replay(function, {0: values(4), 1: values(4)}) is None, function.__name__


def test_numpy_cannot_write_to_memory_of_launches() -> None:
    """A recording could not tell NumPy's writes for some contents alone from those of kernels."""
    def function(x: Any, y: Any) -> RecordedCall:
        out = scaled(x, y, 1.0)
        out[x == 0.123] = 0.0
        return outcome(out)

    with pytest.raises(ValueError, match="read-only"):
        replay(function, {0: values(4), 1: values(4)})
    out = scaled(values(4), values(4), 1.0)
    out[0] = 1.0


def test_declared_constants_are_read() -> None:
    table = np.arange(4.0)

    def function(x: Any, y: Any) -> RecordedCall:
        note_constant(table)
        return outcome(scaled(table, y, 2.0))

    call = replay(function, {0: values(4), 1: values(4)})
    assert call(hold(values(4)), hold(np.ones(4))).array.tolist() == [1.0, 3.0, 5.0, 7.0]

    def wrong(x: Any, y: Any) -> RecordedCall:
        found = x + 0.0
        note_constant(found)
        return outcome(scaled(found, y, 2.0))

    def changed(x: Any, y: Any) -> RecordedCall:
        own = np.arange(4.0)
        note_constant(own)
        RUN((own, x, y), (4, 1, 1.0), DEVICE.default_stream)
        return outcome(scaled(own, y, 2.0))

    assert replay(wrong, {0: values(4), 1: values(4)}) is None
    assert replay(changed, {0: values(4), 1: values(4)}) is None


def test_memory_in_between_is_not_that_of_the_recorded_call() -> None:
    blocks: list[Any] = []

    def function(x: Any, y: Any) -> RecordedCall:
        blocks.append(scaled(x, y, 2.0))
        return outcome(scaled(blocks[-1], y, 1.0))

    call = replay(function, {0: values(5), 1: values(5)})
    before = [block.copy() for block in blocks]
    assert call(hold(np.ones(5)), hold(np.ones(5))).array.tolist() == [4.0] * 5
    np.testing.assert_array_equal(blocks, before)


def branching(rare: Callable[[Any], bool]) -> Callable[..., RecordedCall]:
    """A function that goes another way for some values."""
    return lambda x, y: outcome(scaled(x, y, 3.0 if rare(x) else 2.0))


@pytest.mark.parametrize("rare", [
    lambda x: bool(np.isnan(x).any()), lambda x: bool(np.isinf(x).any()), lambda x: bool((x < 0).any()),
    lambda x: bool((np.signbit(x) & (x == 0)).any()), lambda x: float(np.abs(x).max()) > 1e30,
    lambda x: len(np.unique(x)) < x.size])
def test_functions_that_branch_on_rare_values_are_not_replayed(rare: Callable[[Any], bool]) -> None:
    assert replay(branching(rare), {0: values(60), 1: values(60)}) is None


def test_integers_of_the_whole_range_are_tried() -> None:
    def function(x: Any, labels: Any) -> RecordedCall:
        return outcome(scaled(x, x, 2.0 if int(labels.max()) < 5 else 3.0))

    assert replay(function, {0: values(4), 1: np.zeros(4, np.int64)}) is None


def test_an_element_that_is_looked_at_has_to_be_zero() -> None:
    """The first kernel computes x * 1 + y; where its first element is zero, the function goes on with it."""
    def function(x: Any, y: Any) -> RecordedCall:
        total = scaled(x, y, 1.0)
        expect_zero(total[:1])
        return outcome(scaled(x if total[0] else total, y, 1.0))

    def tame(x: Any, y: Any) -> RecordedCall:
        return function(x, -x) if y is None else function(x, y)

    opposite = replay(lambda x, y: function(x, scaled(x, scaled(x, x, -1.0), -1.0)), {0: values(4), 1: values(4)})
    x, y = np.arange(1.0, 5.0), np.ones(4)
    assert opposite(hold(x), hold(y)).array.tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert opposite(hold(np.full(4, np.inf)), hold(y)) is None
    assert replay(tame, {0: values(4), 1: values(4)}) is None


def test_an_element_that_changes_later_is_not_looked_at_afterwards() -> None:
    def function(x: Any, y: Any) -> RecordedCall:
        total = scaled(x, scaled(x, scaled(x, x, -1.0), -1.0), 1.0)
        expect_zero(total[:1])
        RUN((total, x, y), (4, 1, 1.0), DEVICE.default_stream)
        return outcome(scaled(total, y, 1.0))

    assert replay(function, {0: values(4), 1: values(4)}) is None


def test_a_recording_inside_of_another_one() -> None:
    made: list[Any] = []

    def outer(x: Any, y: Any) -> RecordedCall:
        made.append(replay(lambda x, y: outcome(scaled(x, y, 2.0)), {0: x, 1: y}))
        return outcome(scaled(x, y, 1.0))

    assert replay(outer, {0: values(4), 1: values(4)}) is None
    assert made[0](hold(np.ones(4)), hold(np.ones(4))).array.tolist() == [3.0] * 4
    assert RECORDERS == {}
    _, recorder = record_launches(lambda: record_launches(lambda: scaled(np.ones(4), np.ones(4), 1.0)))
    assert not recorder.whole


def test_large_and_empty_arrays_are_not_replayed() -> None:
    for x in (values(1 << 18), np.zeros(0), np.zeros((3, 0)), values(6)[::-1]):
        assert replay(lambda x: outcome(scaled(x, x, 1.0)), {0: x}) is None


def test_errors_end_the_recording() -> None:
    def function(x: Any) -> RecordedCall:
        raise KeyError("no")

    with pytest.raises(KeyError):
        replay(function, {0: values(3)})
    assert RECORDERS == {}


# ------------------------------------------------------------------------------------------------------------ ranges


def limited(low: int, high: int, other: int) -> Callable[..., RecordedCall]:
    """A function that has checked its integers, and adds ``x`` to twice ``x``."""
    def function(x: Any, labels: Any) -> RecordedCall:
        note_range(labels, low, high, other)
        return outcome(scaled(x, x, 2.0))

    return function


@pytest.mark.parametrize(("good", "bad"), [
    ([0, 4, -7, 2], [0, 5, 1, 2]), ([-7, -7, -7, -7], [-1, 0, 0, 0]), ([3, 3, 3, 3], [0, 0, 0, 1 << 62]),
    ([1, 2, 3, 4], [0, 0, 0, -(1 << 63)])])
def test_values_out_of_their_ranges_go_to_the_next_path(good: list[int], bad: list[int]) -> None:
    x = values(4)
    call = replay(limited(0, 5, -7), {0: x, 1: np.zeros(4, np.int64)})
    np.testing.assert_array_equal(call(hold(x), hold(np.array(good))).array, 3 * x)
    assert call(hold(x), hold(np.array(bad))) is None
    np.testing.assert_array_equal(call(hold(x), hold(np.array(good))).array, 3 * x)


def test_ranges_of_several_dimensions_and_of_a_part() -> None:
    x = values(4)
    call = replay(limited(-2, 3, -2), {0: x, 1: np.zeros((2, 3), np.int64)})
    assert call(hold(x), hold(np.array([[-2, 2, 0], [1, 1, 1]]))) is not None
    assert call(hold(x), hold(np.array([[-2, 2, 0], [1, 1, 3]]))) is None

    def first(x: Any, labels: Any) -> RecordedCall:
        return limited(0, 5, 0)(x, labels[:2])

    call = replay(first, {0: x, 1: np.zeros(4, np.int64)})
    assert call(hold(x), hold(np.array([4, 4, 9, 9]))) is not None
    assert call(hold(x), hold(np.array([4, 9, 0, 0]))) is None


def test_assumed_integers_are_not_checked() -> None:
    def function(x: Any, places: Any) -> RecordedCall:
        note_range(places[::2], 0, 5, checked=False)
        assert places[::2].min() >= 0
        assert places[::2].max() < 5
        return outcome(scaled(x, x, 2.0))

    x = values(4)
    call = replay(function, {0: x, 1: np.zeros(8, np.int64)})
    np.testing.assert_array_equal(call(hold(x), hold(np.full(8, 9))).array, 3 * x)


def test_ranges_of_arrays_that_are_not_operands_are_refused() -> None:
    x = values(4)

    def copied(x: Any, labels: Any) -> RecordedCall:
        return limited(0, 5, 0)(x, labels + 0)

    def apart(x: Any, labels: Any) -> RecordedCall:
        return limited(0, 5, 0)(x, labels[::2])

    assert replay(copied, {0: x, 1: np.zeros(4, np.int64)}) is None
    assert replay(apart, {0: x, 1: np.zeros(4, np.int64)}) is None
    assert replay(limited(0, 5, 0), {0: x, 1: np.zeros(4, np.int32)}) is None
