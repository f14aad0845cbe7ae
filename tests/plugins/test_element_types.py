"""Element types and what programs pass in their place."""

from __future__ import annotations

import pytest

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import DtypeError


def test_python_types_of_numbers():
    assert [dtypes.as_dtype(x) for x in (bool, int, float, complex)] == [
        dtypes.bool_, dtypes.int64, dtypes.float64, dtypes.complex128]
    assert dtypes.as_dtype(dtypes.int8) is dtypes.int8
    assert [dtypes.as_dtype(x) for x in (str, "int64", 3, [1])] == [None] * 4


def test_the_complex_type_of_a_real_one_and_back():
    for real, pair in (("float32", "complex64"), ("float64", "complex128"), ("bfloat16", "complex64")):
        assert dtypes.BY_NAME[real].to_complex() is dtypes.BY_NAME[pair]
    assert dtypes.complex128.to_complex() is dtypes.complex128
    assert [x.to_real() for x in (dtypes.complex64, dtypes.complex128, dtypes.int32)] == [
        dtypes.float32, dtypes.float64, dtypes.int32]
    with pytest.raises(DtypeError, match="parts of complex numbers are floats"):
        dtypes.int32.to_complex()
