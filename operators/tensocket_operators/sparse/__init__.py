"""Sparse tensors in COO and compressed layouts; ``NAME`` is ``tensocket.sparse.NAME``."""

from __future__ import annotations

from . import inplace as inplace  # registers rules
from . import masked as masked
from .arithmetic import log_softmax, softmax
from .arithmetic import sparse_sum as sum
from .compressed import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from .construct import sparse_coo_tensor, spdiags
from .gradchecks import as_sparse_gradcheck
from .invariants import check_sparse_tensor_invariants
from .products import addmm, hspmm, mm, sampled_addmm, smm, sspaddmm
from .tensor import SparseTensor

__all__ = [
           "SparseTensor",
           "addmm",
           "as_sparse_gradcheck",
           "check_sparse_tensor_invariants",
           "hspmm",
           "log_softmax",
           "mm",
           "sampled_addmm",
           "smm",
           "softmax",
           "sparse_bsc_tensor",
           "sparse_bsr_tensor",
           "sparse_compressed_tensor",
           "sparse_coo_tensor",
           "sparse_csc_tensor",
           "sparse_csr_tensor",
           "spdiags",
           "sspaddmm",
           "sum",
]
