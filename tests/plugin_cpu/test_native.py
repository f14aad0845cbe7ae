"""Native entries: built-in functions around generated kernels, against NumPy, and what they leave to their fallback."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_cpu.native as native
from tensocket_cpu.code.compiler import Compiler
from tensocket_cpu.device import CpuDevice
from tensocket_cpu.native import layout as layouts
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.plans import EntryPlan
from tensocket_plugins.ir.nodes import (
    Buffer,
    Kernel,
    Load,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    loop,
)
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.verify import verify

pytestmark = pytest.mark.skipif(native.LAYOUT is None, reason="this interpreter or NumPy has another layout")

F4, F8, I4, U1 = dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


def plus(dtype: dtypes.DType, number: bool = False) -> Program:
    """``out[i] = x[i] + y[i]``, or plus a number."""
    n, i = Var("n", dtypes.int64), Var("i", dtypes.int64)
    right: Any = Var("y", dtype) if number else Load("y", i, dtype)
    body = loop(i, n, (Store("out", i, Load("x", i, dtype) + right),), LoopKind.PARALLEL)
    params: tuple[Any, ...] = (Buffer("out", dtype, True), Buffer("x", dtype, False))
    params += (Scalar("n", dtypes.int64), Scalar("y", dtype)) if number else (
        Buffer("y", dtype, False), Scalar("n", dtypes.int64))
    return Program("plus", params, (Kernel("plus", (body,)),))


class Recorder:
    """A fallback that says that it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> str:
        self.calls.append(args)
        return "fallback"


def entry_for(device: CpuDevice, dtype: dtypes.DType, fallback: Callable[..., Any], *, number: bool = False,
              limit: int = 100) -> Callable[..., Any]:
    program = plus(dtype, number)
    verify(program)
    assert device.target is not None
    scalars = ("size", "number1") if number else ("size",)
    plan = EntryPlan(schedule(program, device.target, Strategy.SERIAL), (dtype, dtype), dtype, "same", scalars,
                      frozenset({1}) if number else frozenset(), limit)
    made = device.compile_plan(plan, fallback)
    assert made is not None
    return made


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 1, 4)])
@pytest.mark.parametrize("dtype", [F4, F8, I4], ids=str)
def test_dense_arrays_are_computed_natively(device: CpuDevice, dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    fallback = Recorder()
    add = entry_for(device, dtype, fallback)
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    result = add(x, x)
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype) == (shape, dtype.numpy)
    assert result.flags.owndata
    assert result.flags.c_contiguous
    assert result.flags.writeable
    np.testing.assert_array_equal(result, 2 * x)
    assert fallback.calls == []


@pytest.mark.parametrize("dtype", [F4, F8, I4, U1], ids=str)
def test_numbers_are_read_from_arrays_without_dimensions(device: CpuDevice, dtype: dtypes.DType) -> None:
    fallback = Recorder()
    add = entry_for(device, dtype, fallback, number=True)
    x = np.array([1, 2, 3], dtype.numpy)
    np.testing.assert_array_equal(add(x, np.array(4, dtype.numpy)), [5, 6, 7])
    assert fallback.calls == []
    assert add(x, x) == "fallback"


def strange(x: np.ndarray[Any, Any]) -> dict[str, tuple[Any, ...]]:
    read_only = x.copy()
    read_only.flags.writeable = False
    swapped = x.astype(x.dtype.newbyteorder())
    shifted = np.frombuffer(bytes(x.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(x.shape)

    class Sub(np.ndarray[Any, Any]):
        pass

    return {
        "no argument": (), "one argument": (x,), "three arguments": (x, x, x), "a number": (x, 1.0),
        "None": (None, x), "a list": (x, [1.0]), "another dtype": (x, x.astype(np.float64)), "transposed": (x.T, x.T),
        "strided": (x[:, ::2], x[:, ::2]), "broadcast": (x, x[0]), "another shape": (x, x.reshape(4, 3)),
        "empty": (x[:0], x[:0]), "another byte order": (swapped, swapped), "unaligned": (shifted, shifted),
        "a subclass": (x.view(Sub), x), "too large": (np.zeros(101, np.float32),) * 2,
    }


@pytest.mark.parametrize("case", strange(np.zeros((3, 4), np.float32)))
def test_everything_else_goes_to_the_fallback(device: CpuDevice, case: str) -> None:
    fallback = Recorder()
    add = entry_for(device, F4, fallback)
    args = strange(np.ones((3, 4), np.float32))[case]
    assert add(*args) == "fallback"
    (given,) = fallback.calls
    assert len(given) == len(args)
    assert all(a is b for a, b in zip(given, args, strict=True))


def test_errors_of_the_fallback_pass(device: CpuDevice) -> None:
    def fail(*args: Any) -> Any:
        raise KeyError("left to me")

    with pytest.raises(KeyError, match="left to me"):
        entry_for(device, F4, fail)(1, 2)


def test_nothing_leaks(device: CpuDevice) -> None:
    add = entry_for(device, F4, np.add)
    x = np.ones(4, np.float32)
    add(x, x), add(x, 1.0)
    gc.collect()
    before = [sys.getrefcount(value) for value in (x, x.dtype, np.ndarray, None)]
    for _ in range(1000):
        add(x, x)
        add(x, x[:2].sum())
    after = [sys.getrefcount(value) for value in (x, x.dtype, np.ndarray, None)]
    assert all(abs(b - a) < 50 for a, b in zip(after, before, strict=True))


def test_programs_of_several_kernels_have_no_entry(device: CpuDevice) -> None:
    one = plus(F4)
    two = Program("two", one.params, (*one.kernels, *one.kernels))
    assert device.compile_plan(EntryPlan(two, (F4, F4), F4, "same", ("size",)), np.add) is None


def test_machine_code_is_kept_on_disk(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_for(device, F4, np.add, limit=99)

    def refuse(*args: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr(Compiler, "_build", refuse)
    again = CpuDevice()
    assert (entry_for(again, F4, np.subtract, limit=99)(np.ones(3, np.float32), np.ones(3, np.float32)) == 2).all()


# ------------------------------------------------------------------------------------------------------------ layout


def test_the_layout_is_found() -> None:
    assert layouts.find_layout() == native.LAYOUT


@pytest.mark.parametrize("field", ["type", "data", "rank", "shape", "strides", "dtype", "flags"])
def test_one_wrong_field_is_noticed(field: str) -> None:
    assert native.LAYOUT is not None
    values = {name: getattr(native.LAYOUT, name) for name in native.LAYOUT.__dataclass_fields__}
    wrong = layouts.Layout(**{**values, field: values["data" if field != "data" else "dtype"]})
    assert not all(layouts._reads_right(array, wrong) for array in layouts._specimens())


@pytest.mark.parametrize("change", ["implementation", "table", "threads"])
def test_unknown_interpreters_and_numpys_are_refused(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    if change == "implementation":
        monkeypatch.setattr(layouts.sys, "implementation", type("Other", (), {"name": "pypy"}))
    elif change == "table":
        monkeypatch.delattr(np._core._multiarray_umath, "_ARRAY_API")
    else:
        monkeypatch.setattr(layouts.sysconfig, "get_config_var", lambda name: 1)
    assert layouts.find_layout() is None


def test_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_reads_right", lambda array, at: array.ndim != 2)
    assert layouts.find_layout() is None


@pytest.mark.parametrize("field", ["length", "items"])
def test_wrong_places_in_lists_and_tuples_are_noticed(field: str) -> None:
    right = native.LAYOUT
    assert right is not None
    assert layouts._reads_sequences(right)
    assert not layouts._reads_sequences(dataclasses.replace(right, **{field: right.type}))


def test_without_a_layout_there_are_no_entries(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LAYOUT", None)
    assert device.compile_plan(EntryPlan(plus(F4), (F4, F4), F4, "same", ("size",)), np.add) is None


PROGRAM = """
import tensocket as torch, math
a = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])
for _ in range(9000):  # more calls than promotion takes
    b = a + a
print(b.tolist(), (a * 2.0).tolist(), a.sum().item(), a.sum(1).tolist(), a.mean(-1).tolist())
print([round(x, 5) for x in torch.softmax(a, -1).tolist()[0]], torch.where(a > 0, a, b).tolist(), a.relu().tolist())
print((a + a.t().contiguous().t()).tolist(), (a + 1).tolist(), (a[:, :1] + a).tolist(), (a.double() + a).tolist())
"""


def test_programs_give_the_same_with_and_without() -> None:
    outputs = []
    for setting in ("1", "0"):
        environment = {**os.environ, "TENSOCKET_NATIVE": setting, "TENSOCKET_DEVICE": "cpu"}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("[[2.0, -4.0, 6.0], [1.0, 0.0, -2.0]] [[2.0, -4.0, 6.0], [1.0, 0.0, -2.0]] 1.5 ")


#: A function that is freed after all modules; freed memory is overwritten.
LATE = """
import sys
import numpy as np
from tensocket_cpu.device import CpuDevice
from test_native import F4, Recorder, entry_for

class Late:
    def __init__(self):
        self.entry = entry_for(CpuDevice(), F4, Recorder())
        self.operands = np.ones(3, np.float32), np.ones(3, np.float32)

    def __del__(self, ones=np.ones(3, np.float32)):
        assert (self.entry(*self.operands) == ones + ones).all(), "an error here goes to stderr"
        assert self.entry(1, 2) == "fallback"

sys.late = Late()
"""


def test_functions_may_be_called_and_freed_after_all_modules():
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "255", "TENSOCKET_NATIVE": "1",
                   "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run([sys.executable, "-c", LATE], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
