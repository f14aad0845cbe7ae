"""Sparse tensors in layouts COO and CSR; ``NAME`` is ``tensocket.sparse.NAME``."""

from __future__ import annotations

from .arithmetic import log_softmax, softmax
from .arithmetic import sparse_sum as sum
from . import inplace as _inplace
from .construct import sparse_compressed_tensor, sparse_coo_tensor, sparse_csr_tensor
from .products import addmm, mm, sampled_addmm
from .tensor import SparseTensor

__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "sparse_compressed_tensor",
           "sparse_coo_tensor", "sparse_csr_tensor", "sum"]
