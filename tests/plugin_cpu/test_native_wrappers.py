"""Native entries on objects around arrays, and tensors that are computed that way."""

from __future__ import annotations

import gc
import math
import operator
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
import tensocket_cpu.native as native
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.keys import DIM0
from tensocket_cpu.device import CpuDevice
from tensocket_cpu.native.wrappers import slot_offsets
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.plans import LAST_DIM, EntryPlan, WrapperLayout
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy

pytestmark = pytest.mark.skipif(native.LAYOUT is None, reason="this interpreter or NumPy has another layout")

F4, I1, U1, I8 = dtypes.float32, dtypes.int8, dtypes.uint8, dtypes.int64


class Holder:
    """Something with slots, one of which has an array."""

    __slots__ = ("__weakref__", "array", "changes", "name")

    array: Any
    changes: Any
    name: Any


class Heir(Holder):
    """A subclass with a dict and slots of its own."""

    __slots__ = ("__dict__", "more")


WRAPPER = WrapperLayout(Holder, "array", (("name", "some", "none"), ("changes", None, None)), "changes")


def hold(array: Any, kind: type[Holder] = Holder) -> Holder:
    made = kind()
    made.array, made.changes, made.name = array, None, "given"
    return made


class Recorder:
    """A fallback that says that it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **keywords: Any) -> str:
        self.calls.append((args, keywords))
        return "fallback"


def entry_for(dtype: dtypes.DType, fallback: Callable[..., Any], *, number: bool = False, shape: Any = "same",
              trailing: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """``x + y`` of two holders, or of one and a number."""
    n, i = Var("n", dtypes.int64), Var("i", dtypes.int64)
    right: Any = Var("y", dtype) if number else Load("y", i, dtype)
    body = loop(i, n, (Store("out", i, Load("x", i, dtype) + right),), LoopKind.PARALLEL)
    params: tuple[Any, ...] = (Buffer("out", dtype, True), Buffer("x", dtype, False))
    params += (Scalar("n", dtypes.int64), Scalar("y", dtype)) if number else (
        Buffer("y", dtype, False), Scalar("n", dtypes.int64))
    device = CpuDevice()
    assert device.target is not None
    program = schedule(Program("plus", params, (Kernel("plus", (body,)),)), device.target, Strategy.SERIAL)
    plan = EntryPlan(program, (dtype, dtype), dtype, shape, ("size", "number1") if number else ("size",),
                      frozenset({1}) if number else frozenset(), 100, WRAPPER, trailing)
    made = device.compile_plan(plan, fallback)
    assert made is not None
    return made


# ----------------------------------------------------------------------------------------------------------- wrappers


@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
def test_wrappers_are_opened_and_made(shape: tuple[int, ...]) -> None:
    fallback = Recorder()
    add = entry_for(F4, fallback)
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    result = add(hold(x), hold(x, Heir))
    assert type(result) is Holder
    np.testing.assert_array_equal(result.array, 2 * x)
    assert result.array.shape == shape
    assert (result.name, result.changes) == ("some" if shape else "none", None)
    assert gc.is_tracked(result)
    assert fallback.calls == []


def test_what_is_not_a_wrapper_goes_to_the_fallback() -> None:
    add = entry_for(F4, Recorder())
    x = np.ones(3, np.float32)
    strided = np.ones(6, np.float32)[::2]
    for other in (x, None, 1.0, Holder(), hold([1.0]), hold(x.astype(np.float64)), hold(x[:2]), hold(strided)):
        assert add(hold(x), other) == "fallback"
        assert add(other, hold(x)) == "fallback"


def test_slots_are_found_by_looking() -> None:
    offsets = slot_offsets(WRAPPER)
    assert offsets is not None
    assert len(set(offsets.values())) == 3
    assert all(object.__basicsize__ <= offset < Holder.__basicsize__ for offset in offsets.values())


def test_a_wrapper_without_plain_slots_has_no_entry() -> None:
    class Loose:
        array: Any
        name: Any
        changes: Any

    wrapper = WrapperLayout(Loose, "array", WRAPPER.slots, "changes")
    assert slot_offsets(wrapper) is None


@pytest.mark.parametrize(("dtype", "number", "wanted"), [
    (F4, 0.1, np.float32(1) + np.float32(0.1)), (F4, 3, 4.0), (F4, -math.inf, -math.inf), (F4, 1e300, None),
    (F4, True, None), (F4, 1 << 53, 2.0**53), (F4, (1 << 53) + 1, None), (F4, 1 << 70, None), (F4, "1", None),
    (I1, -2, -1), (I1, 300, None), (I1, 1.0, None), (U1, -1, None), (I8, (1 << 63) - 1, -(1 << 63)),
    (I8, 1 << 63, None),
], ids=str)
def test_python_numbers(dtype: dtypes.DType, number: Any, wanted: Any) -> None:
    result = entry_for(dtype, Recorder(), number=True)(hold(np.ones(2, dtype.numpy)), number)
    if wanted is None:
        assert result == "fallback"
    else:
        np.testing.assert_array_equal(result.array, [wanted, wanted])
        assert result.array.dtype == dtype.numpy


def test_further_arguments_are_the_very_objects_by_position_or_name() -> None:
    fallback = Recorder()
    add = entry_for(F4, fallback, trailing=(-1, None))
    x = hold(np.ones(2, np.float32))
    assert type(add(x, x, -1, None)) is Holder
    assert type(add(x, x, -1, dtype=None)) is Holder
    assert fallback.calls == []
    assert add(x, x, -1, dtype=1) == add(x, x, 0, None) == add(x, x) == add(x, x, -1, None, None) == "fallback"
    assert fallback.calls[0] == ((x, x, -1), {"dtype": 1})


@pytest.mark.parametrize("rank", range(6))
def test_the_last_dimension_is_counted_from_either_end(rank: int) -> None:
    fallback = Recorder()
    add = entry_for(F4, fallback, trailing=(LAST_DIM, None))
    x = hold(np.ones((2,) * rank, np.float32))
    for dim in range(-2, 7):
        served = dim == -1 or (dim == rank - 1 and rank <= 4)
        assert (type(add(x, x, dim, None)) is Holder) is served
        assert (type(add(x, x, dim=dim, dtype=None)) is Holder) is served
    assert add(x, x, -1.0, None) == add(x, x, None, None) == add(x, x, "1", None) == "fallback"


# ---------------------------------------------------------------------------------------------------------- in place


def test_targets_are_written_and_changes_counted() -> None:
    fallback = Recorder()
    add = entry_for(F4, fallback, shape="into")
    x, y = hold(np.ones(3, np.float32)), hold(np.full(3, 2, np.float32))
    array = x.array
    assert add(x, y) is x
    assert x.array is array
    assert x.changes == [1]
    counter = x.changes
    add(x, x)
    assert x.changes is counter
    assert counter == [2]
    np.testing.assert_array_equal(array, [6, 6, 6])
    assert fallback.calls == []


def test_targets_that_are_left_to_the_fallback() -> None:
    add = entry_for(F4, Recorder(), shape="into")
    x = np.ones(8, np.float32)
    locked = np.ones(4, np.float32)
    locked.flags.writeable = False
    assert add(hold(locked), hold(np.ones(4, np.float32))) == "fallback"
    for left, right in ((x[:4], x[1:5]), (x[1:5], x[:4])):  # a part is shared
        assert add(hold(left), hold(right)) == "fallback"
    refusing = hold(x)
    refusing.changes = (1,)
    assert add(refusing, hold(x)) == "fallback"
    np.testing.assert_array_equal(x, np.ones(8))
    assert add(hold(x[:4]), hold(x[4:])) != "fallback"


# -------------------------------------------------------------------------------------------------------- references


@pytest.mark.parametrize("shape", ["same", "into"])
def test_nothing_leaks(shape: str) -> None:
    add = entry_for(F4, lambda *args: None, shape=shape)
    x, y = hold(np.ones(4, np.float32)), hold(np.ones(4, np.float32))
    seen = (x, y, x.array, y.array, x.array.dtype, Holder, None, "some", np.ndarray)
    add(x, y), add(x, 1)
    gc.collect()
    before, blocks = [sys.getrefcount(value) for value in seen], sys.getallocatedblocks()
    for _ in range(2000):
        add(x, y)
        add(x, 1)
    after = [sys.getrefcount(value) for value in seen]
    assert all(abs(b - a) < 50 for a, b in zip(after, before, strict=True))
    assert sys.getallocatedblocks() - blocks < 200


# ------------------------------------------------------------------------------------------------------------ tensors


@pytest.fixture(scope="module")
def tensors() -> tuple[Any, Any]:
    """Two tensors after so many calls that everything is native."""
    a, b = torch.arange(6.0).reshape(2, 3), torch.full((2, 3), 2.0)
    for _ in range(8200):
        a + b, a * 2.0, a > b, b.add_(0.0)
    return a, b


@pytest.mark.native
def test_closures_of_tensors_are_built_in(tensors: tuple[Any, Any]) -> None:
    a, b = tensors
    for name, key in (("add", a._key), ("exp", a._key), ("sum", a._key)):
        a + b, a.exp(), a.sum()
        assert type(OPERATORS[name].table[key]) is type(len)


@pytest.mark.parametrize(("function", "reference"), [
    (lambda a, b: a + b, operator.add), (lambda a, b: a * 2.0, lambda a, b: a * np.float32(2)),
    (lambda a, b: a > b, operator.gt), (lambda a, b: a + b[0], lambda a, b: a + b[0]),
    (lambda a, b: a.t() + b.t(), lambda a, b: a.T + b.T), (lambda a, b: a.sum(), lambda a, b: a.sum()),
    (lambda a, b: a[:, ::2] * b[:, 1:], lambda a, b: a[:, ::2] * b[:, 1:]),
    (lambda a, b: a[0, 1] + b[1, 1], lambda a, b: a[0, 1] + b[1, 1]),
    (lambda a, b: torch.where(a > b, a, b), lambda a, b: np.where(a > b, a, b)),
])
def test_results_are_numpys(tensors: tuple[Any, Any], function: Any, reference: Any) -> None:
    a, b = tensors
    result = function(a, b)
    wanted = np.asarray(reference(a.numpy(), b.numpy()))
    np.testing.assert_array_equal(result.numpy(), wanted)
    assert type(result) is torch.Tensor
    assert tuple(result.shape) == wanted.shape
    assert result.grad is None is result.grad_fn
    assert result._base is None
    assert bool(result._key & DIM0) is (wanted.ndim == 0)
    result.attribute = 1  # a dict comes when it is needed
    assert result.__dict__ == {"attribute": 1}


def test_subclasses_and_modes_see_their_calls(tensors: tuple[Any, Any]) -> None:
    a, b = tensors

    class Plain(torch.Tensor):
        pass

    calls = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    assert type(a.as_subclass(Plain) + b) is Plain
    with Mode():
        a + b
    assert len(calls) == 1
    weight = torch.nn.Parameter(b.clone())
    assert type(weight.detach() + a) is torch.Tensor
    assert (a + weight).grad_fn is not None
    with torch.no_grad():
        assert (a + weight).grad_fn is None


def test_errors_are_those_of_the_general_way(tensors: tuple[Any, Any]) -> None:
    a, _ = tensors
    with pytest.raises(RuntimeError, match="add"):
        a + torch.ones(4)
    with pytest.raises(TypeError):
        a + object()
    locked = torch.ones(1).expand(3)
    with pytest.raises(RuntimeError):
        locked.add_(1.0)


def test_changes_count_for_autograd(tensors: tuple[Any, Any]) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    saved = torch.ones(2, 3)
    product = x * saved
    before = saved._version
    assert saved.add_(1.0) is saved
    assert saved._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    view = saved[0]
    view.add_(1.0)
    assert saved._version == before + 2
    assert saved.tolist() == [[3.0] * 3, [2.0] * 3]


def test_threads_share_entries(tensors: tuple[Any, Any]) -> None:
    a, b = tensors
    wanted = (a.numpy() + b.numpy()).tolist()
    failures: list[Any] = []

    def run() -> None:
        for _ in range(2000):
            result = a + b
            if result.tolist() != wanted:
                failures.append(result)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_tensors_do_not_leak(tensors: tuple[Any, Any]) -> None:
    a, b = tensors
    c = b.clone()
    a + b, a.sum(), c.add_(0.0)
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(3000):
        a + b, a * 2.0, a.sum(), c.add_(0.0), a + b[0]
    assert sys.getallocatedblocks() - blocks < 500
