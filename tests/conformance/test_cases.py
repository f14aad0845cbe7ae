"""The list of cases: complete, unambiguous, repeatable; and its references against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from tensocket_conformance import ops, suite
from tensocket_conformance.numerics import FORMATS, Failure
from tensocket_conformance.ops import nn, pointwise
from tensocket_conformance.record import Draw, Given
from tensocket_conformance.subject import LAYOUTS, Subject

ALL = tuple(FORMATS)
CASES = suite.all_cases(ALL)
#: Operators that every backend has from the first release on.
FIRST_RELEASE = """
add sub mul div neg abs pow sqrt rsqrt reciprocal exp expm1 log log1p sin cos tanh erf sigmoid relu gelu silu
floor ceil round trunc sign square maximum minimum clamp floor_divide remainder eq ne lt le gt ge logical_and
logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not isnan where masked_fill sum
mean prod amax amin max min argmax argmin any all var std matmul mm bmm linear reshape view transpose permute t
expand unsqueeze squeeze slice select flip cat stack split chunk contiguous index index_select gather embedding
scatter_add index_put softmax log_softmax logsumexp cross_entropy nll_loss mse_loss clone copy_ fill_ zero_ add_
mul_
"""


def test_prerequisites_exist_and_come_first():
    seen = set()
    for case in CASES:
        assert set(case.requires) <= seen, case.id
        seen.add(case.id)


def test_the_operators_of_the_first_release_are_covered():
    names = {record.name.partition(".")[0] for record in ops.operators()}
    assert set(FIRST_RELEASE.split()) <= names
    families = {case.family for case in CASES}
    assert {"op.rand", "op.randn", "op.randint", "op.randperm", "op.dropout", "op.zeros", "op.ones", "op.full",
            "op.arange", "op.eye", "op.tensor"} <= families


def test_pointwise_operators_get_every_sample_class():
    labels = {case.id.rpartition("/")[2].partition("#")[0] for case in CASES
              if case.family == "op.add" and case.tier == "T2"}
    assert labels == {"prime", "scalar", "one", "empty", "broadcast", "expanded", "transposed", "offset", "step",
                      "large", "number", "grid"}


def test_undeclared_dtypes_leave_one_refusal_each():
    cases = suite.all_cases(("b8", "i64", "f32"))
    doubles = [case for case in cases if case.family == "op.add" and case.dtype == "f64"]
    assert [(case.id, case.refusal) for case in doubles] == [("T2.op.add/f64/undeclared", True)]
    # Also where only the result, or the second operand, would have the undeclared dtype.
    assert {case.id for case in cases if case.id.startswith("T2.op.promotion_f64/")} == {
        f"T2.op.promotion_f64/{short}/undeclared" for short in ("i32", "f32")}


def test_samples_repeat_and_depend_on_case_and_seed():
    def drawn(case_id, seed=0):
        return Draw(Subject("cpu", seed=seed).rng(case_id), FORMATS["f32"]).values((5,)).tolist()

    assert drawn("T2.op.add/f32/prime#0") == drawn("T2.op.add/f32/prime#0")
    assert drawn("T2.op.add/f32/prime#0") != drawn("T2.op.add/f32/prime#1")
    assert drawn("T2.op.add/f32/prime#0") != drawn("T2.op.add/f32/prime#0", seed=1)


def test_every_layout_keeps_the_values():
    subject = Subject("cpu", dtypes=("f32",))
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    for layout in LAYOUTS:
        values = np.repeat(array[:1], 4, axis=0) if layout == "expanded" else array
        tensor = subject.place(values, "f32", layout)
        assert tensor.is_contiguous() == (layout in ("plain", "offset")), layout
        assert np.array_equal(subject.get(tensor), values), layout


def test_results_elsewhere_are_refused():
    with pytest.raises(Failure, match="the result is on cpu, not on cuda:0"):
        Subject("cuda").get(Subject("cpu").put(np.zeros(1), "f32"))


def _quick():
    return suite.quick_sample(CASES)


def test_quick_takes_every_family_tier_and_sample_class():
    quick = _quick()
    assert {case.tier for case in quick} == {case.tier for case in CASES}
    for tier in ("T0", "T1", "T2", "T4"):  # of compiled programs, it takes those in ``QUICK``
        areas = {case.area for case in CASES if case.tier == tier}
        assert {case.area for case in quick if case.tier == tier} == areas
    assert {case.area for case in quick} > {"pointwise", "reduction", "matmul", "nn", "random", "creation", "sparse"}
    per_area = [len({case.family for case in quick if case.area == area}) for area in {case.area for case in quick}]
    assert min(per_area) >= 2
    classes = {case.id.rpartition("/")[2].partition("#")[0] for case in quick if case.family.startswith("op.")}
    assert {"prime", "scalar", "one", "empty", "broadcast", "expanded", "transposed", "offset", "step", "large",
            "grid"} <= classes


def test_quick_takes_every_class_of_element_types():
    operators = [case for case in _quick() if case.tier == "T2" and case.dtype is not None]
    for shorts in ({"b8"}, {"i8", "i16", "i32", "i64", "u8"}, {"f32"}, {"f64"}, {"f16", "bf16"}, {"c64", "c128"},
                   {"u16", "u32", "u64"}):
        assert shorts & {case.dtype for case in operators}, shorts


def test_quick_takes_few_cases_and_the_same_in_any_order():
    ids = [case.id for case in _quick()]
    assert len(set(ids)) == len(ids) < 300
    assert {case.id for case in suite.quick_sample(CASES[::-1])} == set(ids)


def test_quick_leaves_costly_operators_to_the_full_run():
    assert {f"op.{name}" for name in suite.COSTLY} <= {case.family for case in CASES}
    assert not {f"op.{name}" for name in suite.COSTLY} & {case.family for case in _quick()}


def test_quick_takes_a_refusal_where_element_types_are_missing():
    partial = suite.all_cases(("b8", "i64", "f32"))
    assert any(case.refusal and case.tier == "T2" for case in suite.quick_sample(partial))


def test_selection_brings_prerequisites():
    chosen = suite.Selection(pattern="T2.op.add/f32/prime#0").apply(CASES)
    assert [case.id for case in chosen] == ["T0.load.state", "T0.load.open", "T1.memory.roundtrip/f32/values",
                                            "T2.op.add/f32/prime#0"]


def test_selection_by_tier():
    assert {case.tier for case in suite.Selection("T1").apply(CASES)} == {"T0", "T1"}


def test_references_agree_with_scipy():
    x = np.linspace(-6, 6, 101).reshape(1, -1)
    assert np.allclose(pointwise._gelu(x), x * scipy.special.ndtr(x), rtol=1e-13)
    assert np.allclose(pointwise._sigmoid(x), scipy.special.expit(x), rtol=1e-14)
    assert np.allclose(nn._softmax(x, 1), scipy.special.softmax(x, 1), rtol=1e-14)
    assert np.allclose(nn._log_softmax(x, 1), scipy.special.log_softmax(x, 1), rtol=1e-13)
    assert np.allclose(nn._logsumexp(x, 1), scipy.special.logsumexp(x, 1), rtol=1e-14)


@pytest.mark.parametrize("record", ops.operators(), ids=lambda record: record.name)
def test_every_sample_can_be_drawn_and_has_a_reference(record):
    for short in record.dtypes:
        for label, make in record.samples.items():
            sample = make(Draw(np.random.default_rng(3), FORMATS[short]))
            given = [arg for arg in sample.args if isinstance(arg, Given)]
            assert given, label
            assert all(arg.array.dtype == FORMATS[arg.short].numpy for arg in given), (short, label)
