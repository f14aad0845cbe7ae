"""Low-rank approximations by random projections (N. Halko, P. G. Martinsson, J. A. Tropp, 2009)."""

from __future__ import annotations

from typing import Any

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_plugins.contract.errors import ArgumentError

from ..kinds.composite import composite
from .decompositions import adjoint, check_matrix, svd


def _range(matrix: Any, count: int, rounds: int) -> Any:
    """Return orthonormal columns that span most of the range: algorithm 4.4 of Halko et al., for real vectors."""
    tests = matrix.detach().new_empty((matrix.shape[-1], count)).normal_()
    q = functions.linalg_qr(matrix @ tests)[0]
    for _ in range(rounds):
        q = functions.linalg_qr(adjoint(matrix) @ q)[0]
        q = functions.linalg_qr(matrix @ q)[0]
    return q


def _factors(matrix: Any, count: int, rounds: int) -> tuple[Any, Any, Any]:
    """Return U, S and V; the longer side is projected."""
    if matrix.shape[-2] < matrix.shape[-1]:
        u, s, v = _factors(adjoint(matrix), count, rounds)
        return v, s, u
    q = _range(matrix, count, rounds)
    u, s, vh = call(svd, adjoint(q) @ matrix, False)
    return q @ u, s, adjoint(vh)


@composite("svd_lowrank(Tensor A, int? q=6, int? niter=2, Tensor? M=None) -> any", method=False)
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """Return U, S and V with A (minus M) close to U @ diag(S) @ V.mH, for q singular values.

    Args:
        A: [..., m, n].
        q: Number of singular values, slightly above the expected rank.
        niter: Iterations that sharpen the projection.
        M: Subtracted from A; the shapes broadcast.
    """
    check_matrix("svd_lowrank", A)
    return _factors(A if M is None else A - M.broadcast_to(tuple(A.shape)), 6 if q is None else q,
                    2 if niter is None else niter)


@composite("pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> any", method=False)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Return principal components: ``svd_lowrank`` of the matrix minus the means of its columns.

    Raises:
        ArgumentError: q or niter is out of range.
    """
    check_matrix("pca_lowrank", A)
    rows, columns = A.shape[-2:]
    count = min(6, rows, columns) if q is None else q
    if not 0 <= count <= min(rows, columns) or niter < 0:
        raise ArgumentError("pca_lowrank", f"q={q}, niter={niter} for {rows} x {columns} matrices",
                            "q is at most the smaller size, and niter is not negative", "pass smaller numbers")
    return _factors(A - A.mean((-2,), True) if center else A, count, niter)
