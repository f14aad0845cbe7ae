"""Linear algebra: decompositions, equations, determinants, norms and products of matrices."""

from __future__ import annotations

from tensocket_core import matmul
from tensocket_core._generated.functions import linalg_cholesky as cholesky
from tensocket_core._generated.functions import linalg_cross as cross
from tensocket_core._generated.functions import linalg_det as det
from tensocket_core._generated.functions import linalg_diagonal as diagonal
from tensocket_core._generated.functions import linalg_eig as eig
from tensocket_core._generated.functions import linalg_eigh as eigh
from tensocket_core._generated.functions import linalg_eigvals as eigvals
from tensocket_core._generated.functions import linalg_eigvalsh as eigvalsh
from tensocket_core._generated.functions import linalg_inv as inv
from tensocket_core._generated.functions import linalg_matrix_norm as matrix_norm
from tensocket_core._generated.functions import linalg_matrix_power as matrix_power
from tensocket_core._generated.functions import linalg_matrix_rank as matrix_rank
from tensocket_core._generated.functions import linalg_norm as norm
from tensocket_core._generated.functions import linalg_pinv as pinv
from tensocket_core._generated.functions import linalg_qr as qr
from tensocket_core._generated.functions import linalg_slogdet as slogdet
from tensocket_core._generated.functions import linalg_solve as solve
from tensocket_core._generated.functions import linalg_solve_triangular as solve_triangular
from tensocket_core._generated.functions import linalg_svd as svd
from tensocket_core._generated.functions import linalg_svdvals as svdvals
from tensocket_core._generated.functions import linalg_vecdot as vecdot
from tensocket_core._generated.functions import linalg_vector_norm as vector_norm
from tensocket_plugins.contract.errors import LinAlgError

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]
