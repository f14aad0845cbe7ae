"""Element types of kernels: dtypes in which they compute, and as which they move the elements of an array."""

from __future__ import annotations

from typing import Final

from ..contract import dtypes
from ..contract.dtypes import DType

#: Dtype of the parts, by complex dtype.
COMPONENT: Final[dict[DType, DType]] = {
    dtypes.complex32: dtypes.float16, dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64,
}
#: Integer types that move elements without arithmetic, so that NaN payloads survive; two of 64 bits for complex128.
MOVED_AS: Final[dict[DType, DType]] = {
    dtypes.float16: dtypes.uint16, dtypes.bfloat16: dtypes.uint16, dtypes.complex64: dtypes.uint64,
    dtypes.complex32: dtypes.uint32, dtypes.complex128: dtypes.uint64,
    dtypes.float8_e4m3fn: dtypes.uint8, dtypes.float8_e5m2: dtypes.uint8,
}


def arithmetic_dtype(dtype: DType) -> DType:
    """Return the dtype in which kernels compute: float32 for the narrower floats, complex64 for complex32."""
    if dtype is dtypes.complex32:
        return dtypes.complex64
    return dtypes.float32 if dtype.kind == "float" and dtype.itemsize < 4 else dtype
