"""The tier of compiled programs finds wrong kernels of graphs and wrong tapes behind right operators."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tensocket as ts
from tensocket_compiler.calls import variant
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_conformance import ops
from tensocket_conformance.case import NotRun, Outcome
from tensocket_conformance.cli import main
from tensocket_conformance.numerics import Failure
from tensocket_conformance.subject import Subject
from tensocket_conformance.suite import Selection, all_cases
from tensocket_conformance.tiers import compiled
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch
from tensocket_plugins.contract.plans import TapePlan
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.kit import ref
from tensocket_plugins.kit.plans import launch_tape

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

SUBJECT = Subject("cpu", dtypes=("b8", "i64", "f32"))
RECORDS = {record.name: record for record in ops.operators()}


def kernels_of_graphs(change):
    """A device whose kernels named ``a_b``, which only graphs have, end with ``change(results, scalars)``."""
    class Device(ref.RefDevice):
        def __init__(self, index):
            super().__init__(index, ref.MEMORY)

        def compile_ir(self, program):
            written = [buffer.writable for buffer in program.buffers]
            if program.name not in ("neg_add", "neg_exp", "softmax_rows_mul_sum", "mul_sub", "clone_neg_copy_relu"):
                return super().compile_ir(program)

            def run(buffers, scalars, stream):
                if RECORDERS:
                    note_launch(run, buffers, written, tuple(scalars))
                interpret(program, buffers, scalars)
                for array, writes in zip(buffers, written, strict=True):
                    if writes:
                        values = np.frombuffer(array.storage.buffer, array.dtype.numpy)
                        change(values[array.offset:array.offset + array.size])

            return run

    return Device


def tapes(change):
    """A device whose tapes are those of ``change(plan)``."""
    class Device(ref.RefDevice):
        def __init__(self, index):
            super().__init__(index, ref.MEMORY)

        def compile_plan(self, plan, next_path):
            return launch_tape(change(plan)) if type(plan) is TapePlan else super().compile_plan(plan, next_path)

    return Device


def rounded(values):
    values[...] = values.astype(np.float16)


def without_tail(values):
    values[values.size - values.size % 4:] = 0


#: By name: the device, and the case that finds the defect.
MUTANTS = {
    "half precision": (kernels_of_graphs(rounded), "add/f32/behind"),
    "half precision of rows": (kernels_of_graphs(rounded), "softmax/f32/reduced"),
    "half precision of gradients": (kernels_of_graphs(rounded), "tanh/f32/grad"),
    "no tail": (kernels_of_graphs(without_tail), "exp/f32/behind"),
    "no tail in place": (kernels_of_graphs(without_tail), "relu_/f32/mutated"),
    "no last launch": (tapes(lambda plan: replace(plan, calls=plan.calls[:-1])), "sum/f32/before"),
    "launches in reverse": (tapes(lambda plan: replace(plan, calls=plan.calls[::-1])), "sum/f32/before"),
    "memory of the first call": (tapes(lambda plan: replace(plan, changing=plan.changing[:1])), "cat/f32/behind"),
}


def run(double, run_cases, device, case):
    """Run a case of the tier, and what it depends on, on a device; the results by id."""
    return run_cases(double(device=device, profile=vars_of(ref.PROFILE)), f"T5.op.{case}")


def vars_of(profile):
    return {name: getattr(profile, name) for name in ("dtypes", "features", "host_kernels", "limits")}


@pytest.mark.parametrize("defect", MUTANTS)
def test_only_the_compiled_program_is_wrong(defect, double, run_cases):
    device, case = MUTANTS[defect]
    results = run(double, run_cases, device, case)
    assert {name for name, result in results.items() if result.outcome is not Outcome.PASS} == {f"T5.op.{case}"}
    assert results[f"T5.op.{case}"].outcome is Outcome.FAIL


@pytest.mark.parametrize("case", sorted({case for _, case in MUTANTS.values()}))
def test_the_same_device_without_defects_passes(case, double, run_cases):
    results = run(double, run_cases, tapes(lambda plan: plan), case)
    assert {name for name, result in results.items() if result.outcome is not Outcome.PASS} == set()


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_quick_cases_pass(device, run_cases):
    results = run_cases(device, "T5.*", quick=True)
    own = {name: result.message for name, result in results.items() if name.startswith("T5.")}
    assert own == dict.fromkeys(f"T5.op.{name}/f32/{form}" for name, form in compiled.QUICK.items()) | dict.fromkeys(
        own, "")


def test_a_program_that_stays_eager_is_noted_or_fails():
    reading = replace(RECORDS["exp"], call=lambda x: x.exp() if float(x.sum()) < 1e9 else x)
    with pytest.raises(Failure, match="must become a graph, yet calls run eagerly: elements of a tensor are read"):
        compiled._check(SUBJECT, reading, "pointwise", "f32", "alone", "T5.op.exp/f32/alone")
    subject = Subject("cpu", dtypes=("f32",))
    compiled._check(subject, reading, "arrays", "f32", "alone", "T5.op.exp/f32/alone")
    assert subject.graphs["T5.op.exp/f32/alone"].startswith("elements of a tensor are read")


def test_a_failure_of_the_compiler_fails(monkeypatch):
    def fail(*args):
        raise RuntimeError("no idea")
    monkeypatch.setattr(variant, "_variant", fail)
    with pytest.warns(RuntimeWarning), pytest.raises(Failure, match="the compiler failed: RuntimeError: no idea"):
        compiled._check(SUBJECT, RECORDS["exp"], "arrays", "f32", "alone", "T5.op.exp/f32/alone")


def test_without_a_compiler_nothing_runs(monkeypatch):
    with pytest.raises(NotRun, match="makes no graphs"):
        compiled._finish(SUBJECT, "T5.op.exp/f32/alone", ts.compile(RECORDS["exp"].call), True)
    monkeypatch.delattr(ts.compiler, "compiled")
    case = next(case for case in all_cases(("f32",)) if case.id == "T5.op.exp/f32/alone")
    with pytest.raises(NotRun, match="not installed"):
        case.run(SUBJECT)


def test_versions_of_arguments_count():
    calls = []

    def changing(x):
        calls.append(0)
        if len(calls) % 2:
            x.add_(0)
        return x.exp()
    record = replace(RECORDS["exp"], call=changing)
    with pytest.raises(Failure, match="has version"):
        compiled._check(SUBJECT, record, "arrays", "f32", "alone", "T5.op.exp/f32/alone")


def test_other_forms_of_results_count():
    calls = []

    def changing(x):
        calls.append(0)
        return x.exp().t() if len(calls) % 2 else x.exp().t().contiguous()
    record = replace(RECORDS["exp"], call=changing, reference=lambda x: np.exp(x).T)
    with pytest.raises(Failure, match="that of an eager call is"):
        compiled._check(SUBJECT, record, "arrays", "f32", "alone", "T5.op.exp/f32/alone")


@pytest.mark.parametrize("features", [frozenset(), frozenset({"deterministic"})])
def test_sums_in_the_order_of_threads_may_differ_in_rounding(features):
    assert set(RECORDS) >= compiled.SUMS
    calls = []

    def rounded(x, *args):
        calls.append(0)
        found = RECORDS["scatter_add"].call(x, *args)
        return found * (1 + 1e-7 * (len(calls) % 2))
    record = replace(RECORDS["scatter_add"], call=rounded)
    subject = replace(SUBJECT, features=features)
    if features:
        with pytest.raises(Failure, match="differs from that of an eager call"):
            compiled._check(subject, record, "indexing", "f32", "aliased", "T5.op.scatter_add/f32/aliased")
    else:
        compiled._check(subject, record, "indexing", "f32", "aliased", "T5.op.scatter_add/f32/aliased")


def test_every_record_is_compiled_in_every_form_that_it_has():
    cases = [case for case in all_cases(("b8", "i64", "f32")) if case.id.startswith("T5.op.")]
    assert {case.family.partition(".")[2] for case in cases} >= {
        record.name for record in ops.operators() if {"f32", *record.also, record.result("f32")} <= {"b8", "i64", "f32"}
        and "f32" in record.dtypes and isinstance(record.result("f32"), str)}
    assert {case.id.rpartition("/")[2] for case in cases} == {*compiled.FORMS, "grad"}


def test_a_run_that_names_no_tier_leaves_programs_out():
    cases = all_cases(("b8", "i64", "f32"))
    assert {case.tier for case in Selection().apply(cases)} == {"T0", "T1", "T2", "T4"}
    assert "T5" in {case.tier for case in Selection(quick=True).apply(cases)}
    assert {case.tier for case in Selection(pattern="T5.op.add/f32/alone").apply(cases)} >= {"T0", "T2", "T5"}
    assert {case.tier for case in Selection(tier="T5").apply(cases)} == {"T0", "T1", "T2", "T4", "T5"}


def test_the_report_counts_graphs(capsys, tmp_path):
    assert main(["cpu", "--select", "T5.op.exp/f32/*", "--report", str(tmp_path / "r.json")]) == 0
    found = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert found["totals"]["by_tier"]["T5"]["PASS"] == found["graphs"]["served"] + sum(
        map(len, found["graphs"]["eager"].values()))
    assert f"graphs served {found['graphs']['served']} of" in capsys.readouterr().out
