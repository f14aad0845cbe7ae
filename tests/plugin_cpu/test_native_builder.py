"""The builder of LLVM IR: values with operators, and functions with structured control flow."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable

import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.native.builder import NULL, Function, Value

DEVICE = CpuDevice()
NUMBERS = (-7, -1, 0, 1, 6)


def compiled(f: Function) -> Callable[..., int]:
    """Return a function of words that returns a word."""
    address, _ = DEVICE.compiler.compile_once(f.text(), f.name)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(f.parameters))(address)


@pytest.mark.parametrize("formula", [
    lambda x, y: x + y * 3 - 5, lambda x, y: x & y | 4 ^ 0, lambda x, y: (x ^ y) + 2, lambda x, y: x - (y + 1)])
def test_operators_compute_as_those_of_python(formula):
    f = Function(None, "formula", "i64 i64", "i64")
    f.returns(formula(*f.parameters))
    assert all(compiled(f)(x, y) == formula(x, y) for x in NUMBERS for y in NUMBERS)


@pytest.mark.parametrize("condition", [
    lambda x, y: x == y, lambda x, y: x != y, lambda x, y: x < y, lambda x, y: (x <= y) & (y > 0),
    lambda x, y: (x >= y) | (x == 6)])
def test_blocks_run_where_conditions_hold(condition):
    f = Function(None, "choose", "i64 i64", "i64")
    x, y = f.parameters
    found = f.variable(0)
    with f.when(condition(x, y)):
        found.value = x + 100
    with f.otherwise():
        found.value = y - 100
    f.returns(found.value)
    run = compiled(f)
    assert all(run(x, y) == (x + 100 if condition(x, y) else y - 100) for x in NUMBERS for y in NUMBERS)


def test_a_branch_that_returns_does_not_join_the_other():
    f = Function(None, "early", "i64", "i64")
    (x,) = f.parameters
    with f.when(x < 0):
        f.returns(1)
    with f.otherwise(), f.when(x == 0):
        f.returns(2)
    f.returns(3)
    assert [compiled(f)(x) for x in (-1, 0, 1)] == [1, 2, 3]


def test_loops_nest_and_requirements_leave_them():
    f = Function(None, "pairs", "i64 i64", "i64")
    n, limit = f.parameters
    total = f.variable(0)
    with f.loop(n) as i:
        with f.loop(i) as j:
            total.value = total.value + i * j
        f.require(total.value <= limit)
    f.returns(total.value)
    f.label("slow")
    f.returns(-1)
    run = compiled(f)
    assert run(5, 1000) == sum(i * j for i in range(5) for j in range(i))
    assert run(5, 10) == -1
    assert run(0, 0) == 0


def test_helpers_are_written_once_and_return_zero_where_they_give_up():
    written = []

    def half(f: Function, x: Value) -> None:
        written.append(x)
        f.require(x & 1 == 0)
        f.returns(x // 2)

    f = Function(None, "quarter", "i64", "i64")
    f.returns(f.call(half, f.call(half, f.parameters[0], returns="i64"), returns="i64"))
    assert [compiled(f)(x) for x in (12, 5, 6)] == [3, 0, 0]
    assert len(written) == 1


def test_words_are_stored_and_loaded():
    f = Function(None, "swapped", "ptr", "i64")
    (words,) = f.parameters
    words[0], words[2] = words[2], words[0]
    f.returns((words != NULL).select(words[1], 0))
    memory = (ctypes.c_int64 * 3)(5, 6, 7)
    assert compiled(f)(ctypes.addressof(memory)) == 6
    assert [*memory] == [7, 6, 5]


def test_values_are_freed_with_their_function():
    gc.disable()
    try:
        f = Function(None, "freed", "i64", "i64")
        kept = weakref.ref(f)
        f.returns(f.parameters[0] + 1)
        f.text()
        del f
        assert kept() is None
    finally:
        gc.enable()
