"""From what a case does to its outcome, and from outcomes to report and exit code."""

from __future__ import annotations

import json

import pytest

import tensocket
from tensocket_conformance import report
from tensocket_conformance.case import Case, Excluded, Outcome
from tensocket_conformance.numerics import Failure, Metric
from tensocket_conformance.runner import Run, open_run
from tensocket_conformance.subject import Subject
from tensocket_conformance.suite import Selection

SUBJECT = Subject("cpu", dtypes=("f32",))


def raising(error):
    def run(subject):
        raise error

    return run


def run_all(*cases, subject=SUBJECT):
    return [result.outcome for result in open_run(subject, cases).all(cases)]


def unsupported():
    return tensocket.errors.UnsupportedDtype("add", "float64", "not declared", "use float32")


@pytest.mark.parametrize(("run", "refusal", "outcome"), [
    (lambda subject: None, False, Outcome.PASS),
    (lambda subject: None, True, Outcome.FAIL),
    (raising(Failure("wrong")), False, Outcome.FAIL),
    (raising(Failure("wrong")), True, Outcome.FAIL),
    (raising(ValueError("surprise")), False, Outcome.FAIL),
    (raising(ValueError("surprise")), True, Outcome.FAIL),
    (raising(SystemExit(0)), False, Outcome.FAIL),
    (raising(Excluded("not here")), False, Outcome.EXCLUDED),
    (raising(unsupported()), True, Outcome.UNSUPPORTED),
    (raising(unsupported()), False, Outcome.FAIL),
])
def test_outcomes(run, refusal, outcome):
    assert run_all(Case("T2.x", run, refusal=refusal)) == [outcome]


def test_an_interrupt_is_not_an_outcome():
    with pytest.raises(KeyboardInterrupt):
        run_all(Case("T2.x", raising(KeyboardInterrupt())))


def test_failures_block_what_depends_on_them():
    cases = [Case("T1.a", raising(Failure("no"))), Case("T2.b", lambda s: None, ("T1.a",)),
             Case("T2.c", lambda s: None, ("T2.b",)), Case("T2.d", lambda s: None)]
    run = open_run(SUBJECT, cases)
    results = run.all(reversed(cases))
    assert {result.case.id: result.outcome.value for result in results} == {
        "T1.a": "FAIL", "T2.b": "BLOCKED", "T2.c": "BLOCKED", "T2.d": "PASS"}
    assert run.results["T2.c"].blocked_by == "T2.b"


def test_a_case_runs_once():
    calls = []
    case = Case("T1.a", calls.append)
    run = open_run(SUBJECT, [case])
    run.one(case)
    run.one(case)
    assert len(calls) == 1


def test_without_a_device_nothing_runs_but_loading():
    subject = Subject("cuda", state="unavailable", reason="libcuda.so.1 not found")
    cases = [Case("T0.a", lambda s: None, hardware=False), Case("T1.b", lambda s: None)]
    run = Run(subject, {})
    assert [run.one(case).outcome for case in cases] == [Outcome.PASS, Outcome.NOT_RUN]
    assert run.results["T1.b"].message == "cuda is unavailable: libcuda.so.1 not found"
    assert report.exit_code(list(run.results.values())) == 2


@pytest.mark.parametrize(("outcomes", "code"), [
    ([], 2), (["PASS"], 0), (["PASS", "UNSUPPORTED", "EXCLUDED"], 0), (["PASS", "FAIL"], 1),
    (["FAIL", "NOT_RUN"], 1), (["PASS", "NOT_RUN"], 2), (["FAIL", "BLOCKED"], 1),
])
def test_exit_codes(outcomes, code):
    actions = {"PASS": lambda s: None, "FAIL": raising(Failure("x")), "EXCLUDED": raising(Excluded("x"))}
    results = [report.Result(Case("T1.a", actions["PASS"]), Outcome[name]) for name in outcomes]
    assert report.exit_code(results) == code


def test_the_report_can_be_written_and_read(tmp_path):
    metric = Metric(2.0, 9.0, (1, 2), 1.0, 1.5)
    cases = [Case("T1.a", lambda s: None), Case("T2.op.b/f32/prime#0", raising(Failure("3 of 9 are off", metric))),
             Case("T2.op.b/f32/prime#1", raising(Failure("4 of 7 are off", metric)))]
    run = open_run(SUBJECT, cases)
    results = run.all(cases)
    report.write(tmp_path / "r.json", report.as_dict(run, results, Selection(), 12, 1.25))
    read = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert read["schema"] == "1.0"
    assert (read["totals"]["available"], read["totals"]["selected"], read["totals"]["FAIL"]) == (12, 3, 2)
    assert read["totals"]["by_tier"]["T1"]["PASS"] == 1
    failed = read["cases"][1]
    assert failed["metric"] == {"error": 2.0, "ulp": 9.0, "index": [1, 2], "got": 1.0, "expected": 1.5}
    assert failed["repro"] == "tensocket conformance repro 'T2.op.b/f32/prime#0' --device cpu:0 --seed 0"
    # One cause, two cases.
    assert [group["cases"] for group in read["failures"]] == [["T2.op.b/f32/prime#0", "T2.op.b/f32/prime#1"]]
    assert read["identity"]["backend"] == "tensocket-cpu"


@pytest.mark.parametrize("bad", ["op.add", "T2.Add", "T2.op add", "T2.op.add/", "T2.op.add#x"])
def test_case_ids_have_a_form(bad):
    with pytest.raises(ValueError, match="is not a case id"):
        Case(bad, lambda s: None)


def test_tier_and_family_are_in_the_id():
    case = Case("T2.op.add.operator/f32/prime#0", lambda s: None)
    assert (case.tier, case.family) == ("T2", "op.add.operator")
