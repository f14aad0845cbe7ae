"""The operators that the runtime computes with NumPy and SciPy on the host, for profiles that declare all of them."""

from __future__ import annotations

from typing import Final

#: For ``Profile.host_kernels``: factorisations, operators based on them, Fourier transforms.
HOST_OPERATORS: Final = frozenset({
    "cholesky", "cholesky_ex", "det", "eig", "eigh", "eigvals", "eigvalsh", "fft_c2c", "fft_c2r", "fft_r2c",
    "geqrf", "inv", "inv_ex", "ldl_factor", "ldl_solve", "lstsq", "lu_factor", "lu_exchange", "lu_triangles",
    "ormqr", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals",
})
#: Operators that devices with a code generator run as kernels, and that devices without one declare too: scans,
#: sorting, search, sets, random permutations.
SEQUENCE_OPERATORS: Final = frozenset({
    "argsort", "cummax", "cummin", "cumprod", "cumsum", "isin", "logcumsumexp", "randperm", "repeat_interleave",
    "searchsorted", "select_position", "unique",
})
