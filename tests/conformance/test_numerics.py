"""The comparison: what it lets pass and what it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensocket_conformance.numerics import (
    FORMATS,
    Failure,
    Tolerance,
    compare,
    spacing,
    to_bfloat16,
    to_format,
)

F32 = FORMATS["f32"]
FOUR = Tolerance(ulp=4.0)


def verdict(got, reference, form=F32, tolerance=FOUR, condition=0.0):
    try:
        return compare(np.asarray(got, form.numpy), np.asarray(reference), form, tolerance, condition)
    except Failure as failure:
        return str(failure)


@pytest.mark.parametrize("short", ["f16", "f32", "f64"])
def test_formats_agree_with_numpy(short):
    form, info = FORMATS[short], np.finfo(FORMATS[short].numpy)
    assert (form.tiny, form.largest, form.eps) == (float(info.tiny), float(info.max), float(info.eps) / 2)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_spacing_agrees_with_numpy(value):
    x = np.float32(abs(value))
    # NumPy's spacing of the largest float is infinite upwards; ours is the distance downwards.
    expected = np.spacing(x) if x < np.finfo(np.float32).max else x - np.nextafter(x, np.float32(0))
    assert float(spacing(np.float64(value), F32)) == float(expected)


@given(st.floats(width=32))
def test_bfloat16_rounds_to_nearest_even(value):
    x = np.array([value], np.float32)
    got = to_bfloat16(x)[0]
    if np.isnan(value):
        assert np.isnan(got)
        return
    bits = int(x.view(np.uint32)[0])
    below = np.array([bits & 0xFFFF0000, (bits & 0xFFFF0000) + 0x10000], np.uint64).astype(np.uint32).view(np.float32)
    if np.isinf(value):
        assert got == value
    elif (bits & 0xFFFF) != 0x8000:
        assert got == below[int((bits & 0xFFFF) > 0x8000)]
    else:
        assert got == below[(bits >> 16) & 1]


def test_equal_results_pass():
    assert verdict([1.0, np.nan, np.inf, -np.inf], [1.0, np.nan, np.inf, -np.inf]).error == 0.0


def test_four_units_pass_and_five_do_not():
    one = np.float32(1.0)
    eps = np.finfo(np.float32).eps
    assert verdict([one + 4 * eps], [1.0]).error == 1.0
    message = verdict([one + 5 * eps], [1.0])
    assert "1 of 1 elements are off; element [0] is" in message
    assert "(5.0 ULP off)" in message


def test_rounding_of_the_reference_is_not_counted():
    third = np.float32(1.0) / np.float32(3.0)
    assert verdict([third], [1.0 / 3.0], tolerance=Tolerance()).error == 0.0


@pytest.mark.parametrize(("got", "reference"), [
    (np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (-np.inf, np.inf), (1.0, np.inf), (0.0, 1e-30), (-1.0, 1.0),
])
def test_special_values_are_not_confused(got, reference):
    assert isinstance(verdict([got], [reference]), str)


def test_overflow_edge_passes_on_both_sides():
    largest = float(np.finfo(np.float32).max)
    assert verdict([np.inf], [largest * (1 + 1e-8)]).error == 0.0
    assert verdict([largest], [largest * (1 + 4e-8)]).error <= 1.0
    assert isinstance(verdict([np.inf], [largest * 0.99]), str)
    assert isinstance(verdict([-np.inf], [largest * (1 + 1e-8)]), str)


def test_condition_widens_the_bound():
    assert isinstance(verdict([1e-7], [0.0]), str)
    assert verdict([1e-7], [0.0], tolerance=Tolerance(factor=2.0), condition=1.0).error < 1.0
    # A condition that overflows must not let everything pass.
    assert isinstance(verdict([1.0], [0.0], tolerance=Tolerance(factor=2.0), condition=np.inf), str)


def test_flushing_is_allowed_only_where_it_is_declared():
    assert isinstance(verdict([0.0], [1e-38 * 0.9]), str)
    assert verdict([0.0], [1e-38 * 0.9], tolerance=Tolerance(flush=True)).error <= 1.0


def test_integers_are_compared_exactly():
    form = FORMATS["i64"]
    big = np.array([(1 << 60) + 1])
    with pytest.raises(Failure, match=r"1 of 1 elements differ; element \[0\] is 1152921504606846976"):
        compare(big - 1, big, form)
    assert compare(big, big, form).error == 0.0


def test_shapes_must_agree():
    with pytest.raises(Failure, match=r"the result has shape \[2\], expected \[1, 2\]"):
        compare(np.zeros(2), np.zeros((1, 2)), F32)


def test_nothing_to_compare_passes():
    assert compare(np.zeros((0, 3)), np.zeros((0, 3)), F32).index is None


def test_the_worst_element_is_reported():
    with pytest.raises(Failure) as caught:
        compare(np.array([[1.0, 1.1], [3.0, 1.0]], np.float32), np.ones((2, 2)), F32, FOUR)
    assert caught.value.metric.index == (1, 0)
    assert (caught.value.metric.got, caught.value.metric.expected) == (3.0, 1.0)


def test_values_are_rounded_to_the_format():
    assert to_format(np.array([1.0 + 2**-9]), FORMATS["bf16"])[0] == 1.0
    assert to_format(np.array([70000.0]), FORMATS["f16"])[0] == np.inf
