"""Names of tensors with two of four elements, for which only NVIDIA's libraries have kernels."""

from __future__ import annotations

from typing import Any, NoReturn

from tensocket.errors import UnsupportedOperator
from tensocket_operators import Tensor


def _refuse(name: str, given: str) -> NoReturn:
    raise UnsupportedOperator(name, given, "no backend has kernels for matrices with two of four elements",
                              "keep the dense tensor, or use to_sparse_csr()")


class SparseSemiStructuredTensor(Tensor):
    """The class of these tensors, which has no instances."""

    def __new__(cls, *args: Any, **kwargs: Any) -> SparseSemiStructuredTensor:  # noqa: D102
        _refuse(cls.__name__, "a new tensor")

    @classmethod
    def from_dense(cls, original_tensor: Tensor) -> SparseSemiStructuredTensor:
        """Refuse to compress a tensor.

        Raises:
            UnsupportedOperator: Always.
        """
        _refuse(f"{cls.__name__}.from_dense", f"a tensor of shape {list(original_tensor.shape)}")


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """The class of those that CUTLASS multiplies."""


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """The class of those that cuSPARSELt multiplies."""


def to_sparse_semi_structured(original_tensor: Tensor, transposed: bool = False) -> SparseSemiStructuredTensor:
    """Refuse to compress a tensor.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("to_sparse_semi_structured", f"a tensor of shape {list(original_tensor.shape)}")
