"""Operators of sparse tensors: products, sums, softmax."""

from __future__ import annotations

from typing import Any, Final

from tensocket_operators import sparse_coo_tensor
from tensocket_operators.sparse import (
    addmm,
    as_sparse_gradcheck,
    check_sparse_tensor_invariants,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    spdiags,
    sum,
)
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType

from .semi_structured import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)


class _Kind(type):
    """Metaclass of classes whose instances are the sparse tensors of one dtype, although they create none."""

    dtype: DType

    def __instancecheck__(cls, instance: object) -> bool:
        return bool(getattr(instance, "is_sparse", False)) and getattr(instance, "dtype", None) is cls.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        """Return a tensor of indices, values and sizes, or an empty one of the given sizes."""
        if not data or isinstance(data[0], int):
            sizes = data or (0,)
            return sparse_coo_tensor([[]] * len(sizes), [], sizes, dtype=cls.dtype, device=device)
        return sparse_coo_tensor(*data, dtype=cls.dtype, device=device)


def _kind(name: str, dtype: DType) -> Any:
    return _Kind(name, (), {"dtype": dtype, "__doc__": f"Sparse tensors of {dtype.name}.", "__module__": __name__})


FloatTensor: Final = _kind("FloatTensor", dtypes.float32)
DoubleTensor: Final = _kind("DoubleTensor", dtypes.float64)
HalfTensor: Final = _kind("HalfTensor", dtypes.float16)
LongTensor: Final = _kind("LongTensor", dtypes.int64)
IntTensor: Final = _kind("IntTensor", dtypes.int32)

__all__ = ["DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "SparseSemiStructuredTensor",
           "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS", "addmm", "as_sparse_gradcheck",
           "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum",
           "to_sparse_semi_structured"]
