"""Linear algebra: decompositions, equations, determinants, norms and products of matrices."""

from __future__ import annotations

from tensocket_operators import matmul
from tensocket_operators.functions import linalg_cholesky as cholesky
from tensocket_operators.functions import linalg_cholesky_ex as cholesky_ex
from tensocket_operators.functions import linalg_cond as cond
from tensocket_operators.functions import linalg_cross as cross
from tensocket_operators.functions import linalg_det as det
from tensocket_operators.functions import linalg_diagonal as diagonal
from tensocket_operators.functions import linalg_eig as eig
from tensocket_operators.functions import linalg_eigh as eigh
from tensocket_operators.functions import linalg_eigvals as eigvals
from tensocket_operators.functions import linalg_eigvalsh as eigvalsh
from tensocket_operators.functions import linalg_householder_product as householder_product
from tensocket_operators.functions import linalg_inv as inv
from tensocket_operators.functions import linalg_inv_ex as inv_ex
from tensocket_operators.functions import linalg_ldl_factor as ldl_factor
from tensocket_operators.functions import linalg_ldl_factor_ex as ldl_factor_ex
from tensocket_operators.functions import linalg_ldl_solve as ldl_solve
from tensocket_operators.functions import linalg_lstsq as lstsq
from tensocket_operators.functions import linalg_lu as lu
from tensocket_operators.functions import linalg_lu_factor as lu_factor
from tensocket_operators.functions import linalg_lu_factor_ex as lu_factor_ex
from tensocket_operators.functions import linalg_lu_solve as lu_solve
from tensocket_operators.functions import linalg_matrix_exp as matrix_exp
from tensocket_operators.functions import linalg_matrix_norm as matrix_norm
from tensocket_operators.functions import linalg_matrix_power as matrix_power
from tensocket_operators.functions import linalg_matrix_rank as matrix_rank
from tensocket_operators.functions import linalg_multi_dot as multi_dot
from tensocket_operators.functions import linalg_norm as norm
from tensocket_operators.functions import linalg_pinv as pinv
from tensocket_operators.functions import linalg_qr as qr
from tensocket_operators.functions import linalg_slogdet as slogdet
from tensocket_operators.functions import linalg_solve as solve
from tensocket_operators.functions import linalg_solve_ex as solve_ex
from tensocket_operators.functions import linalg_solve_triangular as solve_triangular
from tensocket_operators.functions import linalg_svd as svd
from tensocket_operators.functions import linalg_svdvals as svdvals
from tensocket_operators.functions import linalg_tensorinv as tensorinv
from tensocket_operators.functions import linalg_tensorsolve as tensorsolve
from tensocket_operators.functions import linalg_vander as vander
from tensocket_operators.functions import linalg_vecdot as vecdot
from tensocket_operators.functions import linalg_vector_norm as vector_norm
from tensocket_plugins.contract.errors import LinAlgError

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
