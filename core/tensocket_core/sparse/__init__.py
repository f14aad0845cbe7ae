"""Sparse tensors in layouts COO and CSR; ``NAME`` is ``tensocket.sparse.NAME``."""

from __future__ import annotations

from . import inplace as inplace  # registers rules
from .arithmetic import log_softmax, softmax
from .arithmetic import sparse_sum as sum
from .construct import sparse_compressed_tensor, sparse_coo_tensor, sparse_csr_tensor, spdiags
from .gradchecks import as_sparse_gradcheck
from .products import addmm, hspmm, mm, sampled_addmm, smm, sspaddmm
from .tensor import SparseTensor

__all__ = [
           "SparseTensor",
           "addmm",
           "as_sparse_gradcheck",
           "hspmm",
           "log_softmax",
           "mm",
           "sampled_addmm",
           "smm",
           "softmax",
           "sparse_compressed_tensor",
           "sparse_coo_tensor",
           "sparse_csr_tensor",
           "spdiags",
           "sspaddmm",
           "sum",
]
