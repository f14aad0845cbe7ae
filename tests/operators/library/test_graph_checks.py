"""Checks that exported graphs hold, in the namespace ``aten``."""

from __future__ import annotations

import re

import pytest

from tensocket_operators import ones, tensor
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError

aten = ops.aten


def test_checks_that_hold():
    assert aten._assert_scalar.default(1, "no") is aten._assert_async(tensor(2)) is None
    assert aten._assert_async.msg(tensor(True), "no") is None
    x = ones((2, 3))
    assert aten._assert_tensor_metadata(x, [2, 3], (3, 1), x.dtype, device=x.device, layout=x.layout) is None
    assert aten._assert_tensor_metadata(x, device=str(x.device)) is None
    assert aten.sym_constrain_range(-3, max=4) is aten.sym_constrain_range_for_size.default(3, min=3, max=3) is None


def test_values_that_are_zero():
    with pytest.raises(RuntimeError, match=r"^no$"):
        aten._assert_scalar(0, "no")
    with pytest.raises(RuntimeError, match=r"^no$"):
        aten._assert_async.msg(tensor(False), "no")
    with pytest.raises(RuntimeError, match=r"^Expected Tensor with single nonzero value, but got zero$"):
        aten._assert_async(tensor(0.0))


@pytest.mark.parametrize(("form", "text"), [
    ({"size": [3]}, "Expected: [3], Got: [2] — Tensor sizes mismatch!"),
    ({"stride": [2]}, "Expected: [2], Got: [1] — Tensor strides mismatch!"),
    ({"dtype": dtypes.int32}, "— Tensor dtype mismatch! A graph runs on tensors of the form it was made for — pass"),
    ({"device": "meta"}, "— Tensor device mismatch! A graph runs on tensors of the form it was made for — pass"),
    ({"layout": "sparse"}, "— Tensor layout mismatch! A graph runs on tensors of the form it was made for — pass"),
])
def test_tensors_of_other_forms(form, text):
    with pytest.raises(ArgumentError, match=re.escape(text)):
        aten._assert_tensor_metadata(ones((2,)), **form)


@pytest.mark.parametrize(("name", "size", "bounds", "text"), [
    ("sym_constrain_range", 3, {"min": 4}, "Invalid value range for 3 between [4, 9223372036854775807]"),
    ("sym_constrain_range", 3, {"min": 5, "max": 4}, "min=5 max=4 — Max must be greater than or equal to min"),
    ("sym_constrain_range_for_size", -1, {}, "Invalid value range for -1 between [0, 9223372036854775807]"),
    ("sym_constrain_range_for_size", 1, {"max": 2},
     "got: 2 — Max value to constrain_range_for_size must be greater than 2"),
])
def test_numbers_outside_of_ranges(name, size, bounds, text):
    with pytest.raises(ArgumentError, match=re.escape(text)):
        getattr(aten, name)(size, **bounds)


def test_truth_of_all_and_any():
    mixed = tensor([True, False])
    assert [aten._is_all_true(mixed).item(), aten._is_any_true.default(mixed).item()] == [False, True]
    assert aten._is_all_true(tensor([True, True])).item() is True
    for name in ("_is_all_true", "_is_any_true"):
        with pytest.raises(DtypeError, match="the tensor has truth values — compare first"):
            getattr(aten, name)(tensor([1.0]))
