"""Every operator of the suite infers on ``meta`` what it computes elsewhere: shape, dtype and strides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tensocket_conformance.numerics import FORMATS
from tensocket_conformance.ops import operators
from tensocket_conformance.record import Draw, Given, Operator
from tensocket_conformance.subject import Subject

#: Their results' shapes depend on values, by the start of the operator's name and of the sample's.
NEEDS_VALUES = (("index.mask", ""), ("index", "scalar"), ("nonzero", ""), ("masked_select", ""),
                ("repeat_interleave", ""), ("unique", ""), ("unique_groups", ""), ("unique_rows", ""),
                ("unique_consecutive", ""), ("bincount", ""), ("bincount_weights", ""))
#: Larger samples are for kernels; shapes show on the others.
LARGEST = 4096
#: Without sparse tensors: how many elements these store depends on values.
OPERATORS = [operator for operator in operators() if not operator.name.startswith("sparse.")]


def samples(operator: Operator, subject: Subject) -> Iterator[tuple[str, list[Any]]]:
    """Case by case what an operator returns on one device."""
    for short in operator.dtypes[:3]:
        for label in operator.samples:
            case = f"{operator.name}/{short}/{label}"
            sample = operator.samples[label](Draw(subject.rng(case), FORMATS[short]))
            if any(isinstance(a, Given) and a.array.size > LARGEST for a in sample.args):
                continue
            if any(operator.name == name and label.startswith(start) for name, start in NEEDS_VALUES):
                continue
            args = [subject.place(a.array, a.short, a.layout) if isinstance(a, Given) else a for a in sample.args]
            got = operator.call(*args, **sample.kwargs)
            results = list(got) if isinstance(got, (tuple, list)) else [got]
            assert all(r.device.type == subject.name for r in results), case
            yield case, [(tuple(r.shape), str(r.dtype), r.stride(), r.storage_offset()) for r in results]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_meta_infers_what_the_reference_device_returns(operator: Operator) -> None:
    inferred = dict(samples(operator, Subject("meta")))
    assert inferred == dict(samples(operator, Subject("ref")))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_meta_infers_shapes_and_dtypes_of_the_host(operator: Operator) -> None:
    inferred = dict(samples(operator, Subject("meta")))
    computed = dict(samples(operator, Subject("cpu")))
    assert {case: [r[:2] for r in results] for case, results in inferred.items()} == {
        case: [r[:2] for r in results] for case, results in computed.items()}


def test_there_is_something_to_compare() -> None:
    cases = [case for operator in OPERATORS for case, _ in samples(operator, Subject("meta"))]
    assert len(cases) > 1000
