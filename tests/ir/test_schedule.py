"""Every schedule of every form of nest gives what NumPy computes in float64."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import DType, float32, int32
from tensocket_plugins.ir.digest import program_digest
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import (
    Atomic,
    Call,
    Const,
    Expr,
    For,
    IRError,
    Kernel,
    Load,
    Local,
    LoopKind,
    Program,
    Reduce,
    Store,
    Var,
    const,
    loop,
)
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.schedule.cpu import COLUMNS
from tensocket_plugins.ir.schedule.nest import product, unit_step, walk
from tensocket_plugins.ir.schedule.reduce import splittable
from tensocket_plugins.ir.strategies import Strategy, pick_strategy
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.verify import verify

_spec = importlib.util.spec_from_file_location("forms", Path(__file__).with_name("forms.py"))
assert _spec is not None
assert _spec.loader is not None
forms = importlib.util.module_from_spec(_spec)
sys.modules["forms"] = forms
_spec.loader.exec_module(forms)

PARALLEL = LoopKind.PARALLEL
SIMT = Target("simt", group_size=16, max_group_size=64, parallelism=8)
LIMITED = Target("simt", group_size=8, max_group_size=256, max_groups=3, parallelism=8)
BARE = Target("simt", group_size=32, local_bytes=0)
SEQUENTIAL = Target("simt", group_size=64, parallelism=8, sequential=True)
CPU = Target("cpu", parallelism=8)
TARGETS = {"simt": SIMT, "limited": LIMITED, "bare": BARE, "cpu": CPU}

#: Forms and digests of schedules that are right: nearly half of them are those of another target or strategy.
RIGHT: set[tuple[str, str]] = set()

every_form = pytest.mark.parametrize("form", forms.FORMS)
every_target = pytest.mark.parametrize("target", TARGETS)
every_strategy = pytest.mark.parametrize("strategy", Strategy, ids=lambda s: s.value)


def v(name: str, dtype: DType = int32) -> Var:
    return Var(name, dtype)


@every_form
@pytest.mark.parametrize("n", forms.SIZES)
def test_unscheduled_nest_is_right(form: str, n: int) -> None:
    case = forms.FORMS[form](n)
    verify(case.program)
    case.check(case.program)


@every_form
@every_target
@every_strategy
def test_schedule_is_right(form: str, target: str, strategy: Strategy) -> None:
    scheduled = schedule(forms.FORMS[form](1).program, TARGETS[target], strategy)
    verify(scheduled)
    known = form, program_digest(scheduled)
    if known not in RIGHT:
        for n in forms.SIZES:
            forms.FORMS[form](n).check(scheduled)
        RIGHT.add(known)


@every_form
@every_target
@every_strategy
def test_scheduled_kernels_use_only_what_the_target_has(form: str, target: str,
                                                        strategy: Strategy) -> None:
    scheduled = schedule(forms.FORMS[form](1).program, TARGETS[target], strategy)
    for kernel in scheduled.kernels:
        kinds = {statement.kind for statement in walk(kernel.body) if isinstance(statement, For)}
        assert not any(isinstance(statement, Reduce) for statement in walk(kernel.body))
        if target == "cpu":
            assert not kinds & {LoopKind.GROUP, LoopKind.LANE}
        else:
            assert LoopKind.PARALLEL not in kinds
            group = kernel.body[0]
            assert isinstance(group, For)
            assert group.kind is LoopKind.GROUP
            lane = group.body[0]
            assert isinstance(lane, For)
            assert lane.kind is LoopKind.LANE
        if target == "bare":
            assert all(local.private for local in kernel.locals)


def test_long_reduction_is_split_over_parts_that_cover_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length beyond the grain, not divisible by the number of parts; the interpreter needs a small one."""
    monkeypatch.setattr("tensocket_plugins.ir.schedule.strategy.GRAIN", 1 << 9)
    n = 1_051
    for target in (SIMT, LIMITED, SEQUENTIAL, CPU):
        case = forms.row_sum(n)
        scheduled = schedule(case.program, target, Strategy.SPLIT)
        assert len(scheduled.kernels) == 2
        assert len(scheduled.temporaries) == 1
        case.check(scheduled)
        case = forms.argmax(541)
        scheduled = schedule(case.program, target, Strategy.SPLIT)
        assert len(scheduled.temporaries) == 2
        case.check(scheduled)


@pytest.mark.parametrize(("target", "strategy", "n"), [
    (CPU, Strategy.GROUP, 40_000), (SIMT, Strategy.GROUP, 100_000), (CPU, Strategy.SERIAL, 20_000),
    (SIMT, Strategy.SERIAL, 20_000),
])
def test_rounding_errors_of_long_float32_sums_stay_small(target: Target, strategy: Strategy, n: int) -> None:
    """Equal numbers make all errors point the same way; one after the other they are off by more than 5e-5 here."""
    a = np.full((1, n), 0.1, np.float32)
    exact = np.float64(np.float32(0.1)) * n
    out = np.zeros(1, np.float32)
    interpret(schedule(forms.row_sum(1).program, target, strategy), [a, out], [1, n])
    assert abs(out[0] * 2 / exact - 1) < 3e-6
    assert abs(np.cumsum(a[0])[-1] / exact - 1) > 2e-5


def test_rows_are_not_split() -> None:
    for form in (forms.softmax, forms.normalize):
        kernel = form(1).program.kernels[0]
        assert not splittable(kernel)
        assert len(schedule(form(1).program, SIMT, Strategy.SPLIT).kernels) == 1


def test_matrix_product_is_tiled_where_the_target_can() -> None:
    scheduled = schedule(forms.matmul(1).program, SIMT, Strategy.SERIAL)
    assert len(scheduled.kernels[0].locals) == 2
    small = Target("simt", group_size=32, max_group_size=32)
    case = forms.matmul(40)
    untiled = schedule(case.program, small, Strategy.SERIAL)
    assert not untiled.kernels[0].locals
    case.check(untiled)


def test_sum_of_something_else_is_not_a_matrix_product() -> None:
    """sum of (left + right) must not be padded with zeros."""
    product = forms.matmul_nest(float32, bias=False)
    nest_ = product.kernels[0].body
    (batch,) = nest_
    assert isinstance(batch, For)
    rows = batch.body[0]
    assert isinstance(rows, For)
    columns = rows.body[0]
    assert isinstance(columns, For)
    reduce, store = columns.body
    assert isinstance(reduce, Reduce)
    value = reduce.values[0]
    assert isinstance(value, Call)
    other = Reduce(reduce.results, reduce.loops, reduce.body, (value.args[0] + value.args[1],), reduce.identity,
                   reduce.combine)
    body = loop(batch.var, batch.stop, [loop(rows.var, rows.stop, [
        loop(columns.var, columns.stop, [other, store], PARALLEL)], PARALLEL)], PARALLEL)
    scheduled = schedule(Program("p", product.params, (Kernel("p", (body,)),)), SIMT, Strategy.SERIAL)
    assert not scheduled.kernels[0].locals


def test_neighbouring_outputs_are_reduced_together_on_a_processor() -> None:
    columns = schedule(forms.sum_columns(1).program, CPU, Strategy.GROUP).kernels[0]
    assert [array.size for array in columns.locals] == [COLUMNS]
    assert not schedule(forms.row_sum(1).program, CPU, Strategy.SERIAL).kernels[0].locals


@pytest.mark.parametrize(("index", "unit"), [
    (v("i"), True), (v("i") * 1, True), (1 * v("i") + v("k") * v("s"), True), (v("k") * 2 + v("i"), True),
    (v("k"), False), (v("i") * 2, False), (v("i") * v("s") + v("k"), False), (v("i") + v("i"), False),
    (v("i") + v("i") * 2, False), (const(3, int32), False),
])
def test_steps_of_one_element_are_recognised(index: Expr, unit: bool) -> None:
    assert unit_step(index, "i") is unit


def test_atomics_of_a_row_count_once() -> None:
    i, k, r = v("i"), v("k"), v("sum")
    body = forms.nest([("i", v("m"))], [
        forms.total(r, [("k", v("n"))], Load("a", i * v("n") + k, int32)), Atomic("add", "out", const(0, int32), r)])
    program = forms.program("p", {"a": int32}, {"out": int32}, ["m", "n"], body)
    a = np.arange(60, dtype=np.int32).reshape(4, 15)
    for target in TARGETS.values():
        for strategy in Strategy:
            out = np.array([7], np.int32)
            interpret(schedule(program, target, strategy), [a, out], [4, 15])
            assert out[0] == 7 + a.sum()


def test_interpreter_gets_the_nest_itself() -> None:
    nest_ = forms.softmax(3).program
    assert schedule(nest_, Target("interpreter"), Strategy.GROUP) is nest_


def test_scheduled_program_is_not_scheduled_again() -> None:
    done = Program("p", (), (Kernel("p", (), (Local("shared", float32, 4),)),))
    with pytest.raises(IRError, match="scheduled already"):
        schedule(done, SIMT, Strategy.SERIAL)


def test_names_of_the_nest_do_not_clash_with_new_ones() -> None:
    """A nest that uses the names that schedules like best."""
    group, lane = v("group"), v("lane")
    body = forms.nest([("group", v("id"))], [
        forms.total(v("shared_f32", float32), [("lane", v("at"))], Load("a", group * v("at") + lane, float32)),
        Store("out", group, v("shared_f32", float32)),
    ])
    a = forms.data(9, 50)
    case = forms.Case(forms.program("p", {"a": float32}, {"out": float32}, ["id", "at"], body), [a],
                [a.astype(np.float64).sum(1)], [9, 50])
    for target in TARGETS.values():
        for strategy in Strategy:
            case.check(schedule(case.program, target, strategy))


@pytest.mark.parametrize(("outer", "length", "target", "expected"), [
    (10, 1, SIMT, Strategy.SERIAL),
    (10, 64, SIMT, Strategy.SERIAL),
    (10, 65, SIMT, Strategy.GROUP),
    (7, 10**6, SIMT, Strategy.SPLIT),
    (8, 10**6, SIMT, Strategy.GROUP),
    (8 * 16, 1000, SIMT, Strategy.SERIAL),
    (10, 1000, BARE, Strategy.SERIAL),
    (1, 10**6, BARE, Strategy.SPLIT),
    (100, 1000, SEQUENTIAL, Strategy.SERIAL),
    (1, 10**6, SEQUENTIAL, Strategy.SPLIT),
    (10**6, 1000, CPU, Strategy.GROUP),
    (10**6, 8, CPU, Strategy.SERIAL),
    (10**6, 128, CPU, Strategy.SMALL),
    (10**6, 129, CPU, Strategy.GROUP),
    (1, 10**6, CPU, Strategy.SPLIT),
])
def test_strategy_follows_sizes(outer: int, length: int, target: Target, expected: Strategy) -> None:
    assert pick_strategy(outer, length, target) is expected


def test_the_innermost_loop_decides_on_lanes() -> None:
    assert pick_strategy(100, 64 * 196, CPU, 196) is Strategy.GROUP
    assert pick_strategy(100, 64 * 16, CPU, 16) is Strategy.SMALL


def test_constant_sizes_are_folded() -> None:
    assert isinstance(product([const(3, int32), const(5, int32)], int32), Const)
    sized = product([v("n"), const(3, int32), const(5, int32)], int32)
    assert isinstance(sized, Call)
    assert isinstance(sized.args[1], Const)
    assert sized.args[1].value == 15
