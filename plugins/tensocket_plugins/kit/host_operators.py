"""The operators that the runtime computes with NumPy and SciPy on the host, for profiles that declare all of them."""

from __future__ import annotations

from typing import Final

#: For ``Profile.host_kernels``: scans, sorting, linear algebra, Fourier transforms, random permutations.
HOST_OPERATORS: Final = frozenset({
    "argsort", "cholesky", "cummax", "cummin", "cumprod", "cumsum", "det", "eig", "eigh", "eigvals", "eigvalsh",
    "fft_c2c", "fft_c2r", "fft_r2c", "inv", "isin", "pinv", "qr", "randperm", "repeat_interleave", "searchsorted",
    "slogdet", "solve", "solve_triangular", "svd", "svdvals", "unique",
})
