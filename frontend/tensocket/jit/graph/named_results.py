"""Names of the results of operators that return several tensors."""

from __future__ import annotations

from typing import Final

_VALUES: Final = ("values", "indices")
#: By operator, the names of its results.
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("max", "min", "median", "nanmedian", "sort", "topk", "kthvalue", "mode", "cummax", "cummin"),
                    _VALUES),
    "qr": ("Q", "R"), "slogdet": ("sign", "logabsdet"), "frexp": ("mantissa", "exponent"), "aminmax": ("min", "max"),
    "geqrf": ("a", "tau"), "histogram": ("hist", "bin_edges"), "triangular_solve": ("solution", "cloned_coefficient"),
    "eigh": ("eigenvalues", "eigenvectors"), "eig": ("eigenvalues", "eigenvectors"), "svd": ("U", "S", "V"),
    "linalg::svd": ("U", "S", "Vh"), "lu_unpack": ("P", "L", "U"), "cholesky_ex": ("L", "info"),
    "inv_ex": ("inverse", "info"), "lu_factor": ("LU", "pivots"), "ldl_factor": ("LD", "pivots"),
    "lstsq": ("solution", "residuals", "rank", "singular_values"),
}


def fields_of_results(kind: str) -> tuple[str, ...]:
    """Return the names of an operator's results; empty if they have none.

    Args:
        kind: The kind of its nodes in graphs.
    """
    return _FIELDS.get(kind) or _FIELDS.get(kind.rpartition("::")[2], ())


__all__ = ["fields_of_results"]
