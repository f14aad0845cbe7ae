"""The gradient tier finds wrong gradients behind right values."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_conformance import ops
from tensocket_conformance.case import Outcome
from tensocket_conformance.numerics import Failure
from tensocket_conformance.record import Operator, kinds, same
from tensocket_conformance.runner import open_run
from tensocket_conformance.subject import Subject
from tensocket_conformance.suite import all_cases
from tensocket_conformance.tiers import gradients

SAMPLES = next(record.samples for record in ops.operators() if record.name == "square")
SUBJECT = Subject("cpu", dtypes=("f32",))


def outcome(call):
    record = Operator("square", call, np.square, SAMPLES, kinds("f"), same)
    return gradients._case(record, "f32", "prime#0").run(SUBJECT)


def test_a_right_gradient_passes():
    assert 0.0 < outcome(lambda x: x * x).error < 1.0


def test_half_a_gradient_fails():
    with pytest.raises(Failure, match="the gradient of argument 0 is off: element"):
        outcome(lambda x: x.detach() * x)


def test_a_slightly_wrong_gradient_fails():
    with pytest.raises(Failure, match="is off"):
        outcome(lambda x: x * x + (x * 1e-3 - x.detach() * 1e-3))


def test_no_gradient_fails():
    with pytest.raises(Failure, match="argument 0 got no gradient"):
        outcome(lambda x: x.detach() * x.detach() + (x * 0).sum().detach() + x.new_zeros(1).requires_grad_())


def test_all_checked_operators_and_samples_exist():
    records = {record.name: record for record in ops.operators()}
    for name, labels in gradients.CHECKED.items():
        assert set(labels) <= records[name].samples.keys(), name


def test_a_failing_operator_blocks_its_gradient():
    cases = [case for case in all_cases(("b8", "i64", "f32")) if case.id == "T4.grad.exp/f32/prime#0"]
    assert cases[0].requires == ("T2.op.exp/f32/prime#0",)
    assert [result.outcome for result in open_run(SUBJECT, cases).all(cases)] == [Outcome.PASS]
