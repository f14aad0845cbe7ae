"""The samples of conformance, with their references in NumPy, on every kind of device; nothing here restates them.

Skipped where the suite is not installed.
"""

from __future__ import annotations

import numpy as np
import pytest

ops = pytest.importorskip("tensocket_conformance.ops")
suite = pytest.importorskip("tensocket_conformance.suite")
RECORDS = ops.operators()
#: Pointwise functions of floats, which compute with whole numbers and bools as floats.
OF_FLOATS = [record for record in ops.pointwise.OPERATORS
             if "i64" in record.dtypes and record.result("i64") == "f32" and record.name != "div"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
@pytest.mark.filterwarnings("ignore")
def test_samples(device, record):
    """All samples of one operator, in all dtypes that the device has."""
    subject = suite.subject(device)
    for case in record.cases(subject.dtypes):
        if not case.refusal:
            case.run(subject)


@pytest.mark.parametrize("record", OF_FLOATS, ids=lambda record: record.name)
@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_bytes_and_bools_are_computed_as_floats(device, make, near, record, dtype):
    values = np.array([1, 0, 1]) if dtype == "bool" else np.arange(1, 10)
    with np.errstate(divide="ignore"):
        near(record.call(make(values, dtype)), record.reference(values.astype(float)), dtype="float32")


def test_functions_of_floats_are_found():
    assert {"exp", "log1p", "sqrt", "reciprocal", "tanh", "erf", "sigmoid"} <= {record.name for record in OF_FLOATS}
