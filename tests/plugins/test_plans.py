"""Derived forms of plans: which launches a device with opaque buffers replays, and which recordings it refuses."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import float64, int64
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.contract.launch_recorder import RECORDERS, forbid_replay, note_constant, note_range
from tensocket_plugins.contract.plans import JoinPlan, ListPlan, ProductPlan, RecordedCall, ReplayPlan, WrapperLayout
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.kit.plans import compile_list
from tensocket_plugins.kit.ref import RefDevice

DEVICE = RefDevice(0, 1 << 24)
STREAM = DEVICE.default_stream


class Holder:
    __slots__ = ("array", "changes", "name")

    array: Any
    changes: Any
    name: Any


WRAPPER = WrapperLayout(Holder, "array", (("name", "some", "none"), ("changes", None, None)), "changes")


def hold(array: Any) -> Holder:
    made = Holder()
    made.array = array
    return made


def program() -> Program:
    """``out[i] = x[i] * factor + y[i]``."""
    n, i = Var("n", int64), Var("i", int64)
    value = Load("x", i, float64) * Var("factor", float64) + Load("y", i, float64)
    body = loop(i, n, (Store("out", i, value),), LoopKind.PARALLEL)
    params = (Buffer("out", float64, True), Buffer("x", float64), Buffer("y", float64), Scalar("n", int64),
              Scalar("factor", float64))
    return Program("scaled", params, (Kernel("scaled", (body,)),))


RUN = DEVICE.compile_ir(program())


def scaled(x: DeviceArray, y: DeviceArray, factor: float) -> DeviceArray:
    out = DEVICE.empty(x.shape, float64, STREAM)
    RUN((out, x, y), (x.size, factor), STREAM)
    return out


def upload(*values: float) -> DeviceArray:
    array = DEVICE.empty((len(values),), float64, STREAM)
    DEVICE.copy(array, np.array(values), STREAM)
    return array


def download(array: DeviceArray) -> list[float]:
    host = np.empty(array.shape)
    DEVICE.copy(host, array, STREAM)
    return host.tolist()


def outcome(*arrays: Any, is_tuple: bool = False) -> RecordedCall:
    return RecordedCall(arrays, (WRAPPER,) * len(arrays), is_tuple)


def replay(function: Callable[..., RecordedCall | None], *operands: DeviceArray | None,
           trailing: dict[int, Any] | None = None) -> Any:
    plan = ReplayPlan(function, dict(enumerate(operands)), trailing or {}, lambda arrays: STREAM)
    return DEVICE.compile_plan(plan, lambda *args: "next path")


def test_several_launches_with_memory_in_between() -> None:
    """2 * (3 * x + y) + x, and 3 * x + y."""
    def function(x: Any, y: Any) -> RecordedCall:
        inner = scaled(x, y, 3.0)
        return outcome(scaled(inner, x, 2.0), inner, is_tuple=True)

    call = replay(function, upload(0.0, 0.0), upload(0.0, 0.0))
    first, second = call(hold(upload(1.0, 2.0)), hold(upload(5.0, 7.0)))
    assert (download(second.array), download(first.array)) == ([8.0, 13.0], [17.0, 28.0])
    assert (type(first), first.name, first.changes) == (Holder, "some", None)


def test_results_of_earlier_calls_stay() -> None:
    call = replay(lambda x, y: outcome(scaled(scaled(x, y, 2.0), y, 1.0)), upload(0.0), upload(0.0))
    one, zero = hold(upload(1.0)), hold(upload(0.0))
    first, second = call(one, zero), call(zero, one)
    assert (download(first.array), download(second.array)) == ([2.0], [2.0])


def test_one_array_for_two_operands() -> None:
    """Recorded with two arrays, a launch knows which one it means; recorded with one array it could mean either."""
    x = upload(3.0)
    call = replay(lambda x, y: outcome(scaled(x, y, 2.0)), upload(0.0), upload(0.0))
    assert download(call(hold(x), hold(x)).array) == [9.0]
    assert replay(lambda x, y: outcome(scaled(x, y, 2.0)), x, x) is None


def test_parts_of_operands_move_with_them() -> None:
    def part(x: DeviceArray, first: int) -> DeviceArray:
        return DeviceArray(x.storage, x.dtype, (2,), (1,), x.offset + first)

    call = replay(lambda x: outcome(scaled(part(x, 2), part(x, 0), 10.0)), part4 := upload(0.0, 0.0, 0.0, 0.0))
    assert part4.offset == 0
    whole = upload(9.0, 1.0, 2.0, 3.0, 4.0)
    moved = DeviceArray(whole.storage, float64, (4,), (1,), 1)
    assert download(call(hold(moved)).array) == [31.0, 42.0]


@pytest.mark.parametrize("other", [
    lambda: (hold(upload(1.0)), "rest"), lambda: (hold(upload(1.0, 2.0)), "other"), lambda: (None, "rest"),
    lambda: (hold(np.ones(2)), "rest"), lambda: (upload(1.0, 2.0), "rest"), lambda: (hold(upload(1.0, 2.0)),),
    lambda: (hold(DeviceArray(upload(1.0, 2.0).storage, int64, (2,), (1,), 0)), "rest"),
    lambda: (hold(DeviceArray(upload(1.0, 2.0).storage, float64, (2,), (0,), 0)), "rest")])
def test_other_layouts_and_arguments_go_to_the_next_path(other: Callable[[], tuple[Any, ...]]) -> None:
    call = replay(lambda x: outcome(scaled(x, x, 1.0)), upload(0.0, 0.0), trailing={1: "rest"})
    assert download(call(hold(upload(1.0, 2.0)), "rest").array) == [2.0, 4.0]
    assert call(*other()) == "next path"


def test_operands_that_are_left_out() -> None:
    call = replay(lambda x, y: outcome(scaled(x, x if y is None else y, 1.0)), upload(0.0), None)
    x = hold(upload(2.0))
    assert download(call(x, None).array) == [4.0]
    assert call(x, x) == "next path"


def test_declared_constants_are_read() -> None:
    table = upload(1.0, 2.0)

    def function(x: Any) -> RecordedCall:
        note_constant(table)
        return outcome(scaled(table, x, 10.0))

    assert download(replay(function, upload(0.0, 0.0))(hold(upload(3.0, 4.0))).array) == [13.0, 24.0]


def test_recordings_that_launches_do_not_explain_are_refused() -> None:
    table, labels = upload(1.0, 2.0), DEVICE.empty((2,), int64, STREAM)

    def looked_at(x: Any) -> RecordedCall:
        forbid_replay()
        return outcome(scaled(x, x, 1.0))

    def ranged(x: Any) -> RecordedCall:
        note_range(labels, 0, 5)
        return outcome(scaled(x, x, 1.0))

    def changing(x: Any) -> RecordedCall:
        RUN((x, x, x), (2, 1.0), STREAM)
        return outcome(scaled(x, x, 1.0))

    def many(x: Any) -> RecordedCall:
        out = x
        for _ in range(17):
            out = scaled(out, x, 1.0)
        return outcome(out)

    refused: list[Callable[..., RecordedCall | None]] = [
        looked_at, ranged, changing, many, lambda x: None, lambda x: outcome(x),
        lambda x: outcome(scaled(table, x, 1.0)),
        lambda x: outcome(scaled(DEVICE.empty((2,), float64, STREAM), x, 1.0)),
        lambda x: outcome(scaled(x, x, 1.0), DEVICE.empty((2,), float64, STREAM), is_tuple=True)]
    for function in refused:
        assert replay(function, upload(0.0, 0.0)) is None
    assert RECORDERS == {}


def test_a_kernel_of_a_library_ends_the_recording() -> None:
    """It may write to memory that a launch wrote before, which launches alone would leave out."""
    table = KernelTable()
    table.register("double", lambda outs, ins, scalars, stream: RUN((outs[0], ins[0], ins[0]), (2, 1.0), stream))
    table.register("launched", lambda outs, ins, scalars, stream: RUN((outs[0], ins[0], ins[0]), (2, 1.0), stream),
                   recorded=True)

    def function(name: str) -> Callable[..., RecordedCall]:
        kernel = table.find(name, "float64", direct=False)
        assert kernel is not None

        def call(x: Any) -> RecordedCall:
            out = scaled(x, x, 1.0)
            kernel.run((out,), (x,), (), STREAM)
            return outcome(out)

        return call

    assert replay(function("double"), upload(0.0, 0.0)) is None
    assert download(replay(function("launched"), upload(0.0, 0.0))(hold(upload(1.0, 2.0))).array) == [2.0, 4.0]


def test_a_replay_holds_no_memory_of_the_recorded_call() -> None:
    x = upload(1.0, 2.0)
    made: list[weakref.ref[Any]] = [weakref.ref(x.storage)]

    def function(x: Any) -> RecordedCall:
        inner = scaled(x, x, 1.0)
        result = scaled(inner, x, 1.0)
        made.extend([weakref.ref(inner.storage), weakref.ref(result.storage)])
        return outcome(result)

    call = replay(function, x)
    assert call is not None
    del x
    gc.collect()
    assert [ref() for ref in made] == [None] * 3


def test_errors_leave_no_recorder_behind() -> None:
    def function(x: Any) -> RecordedCall:
        raise KeyError("no")

    with pytest.raises(KeyError):
        replay(function, upload(1.0))
    assert RECORDERS == {}


def test_a_list_is_one_launch_after_the_other() -> None:
    assert DEVICE.compile_plan(ListPlan(program()), print) is None
    outs = [upload(0.0), upload(0.0, 0.0)]
    xs = [upload(1.0), upload(2.0, 3.0)]
    compile_list(DEVICE, program())([outs, xs, xs], [[1, 2], [2.0, 3.0]], STREAM)
    assert [download(x) for x in outs] == [[3.0], [8.0, 12.0]]


def test_other_plans_have_no_derived_form() -> None:
    assert DEVICE.compile_plan(ProductPlan(float64, WRAPPER), print) is None
    assert DEVICE.compile_plan(JoinPlan(float64, WRAPPER), print) is None
