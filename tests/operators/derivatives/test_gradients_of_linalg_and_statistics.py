"""Derivatives of linear algebra, products, statistics, masked reductions, rearrangements and copies of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators import functions as F

Case = tuple[Any, ...]
Composed = dict[str, list[tuple[Callable[..., Any], *Case]]]
Check = Callable[..., Any]
# Distinct values, away from zero, integers and each other, where nothing has a kink.
X = np.array([[0.7, -1.3, 1.6], [-0.4, 2.3, -2.6]])
Y = np.array([[1.2, 0.45, -0.85], [2.4, -1.7, 0.55]])
Z = np.array([[-0.65, 1.45, 2.2], [0.3, -1.1, 1.75]])
P = np.abs(X) + 0.25
ROW, PAIR = Y[0], np.array([0.8, -1.45])
MASK = np.array([[True, False, True], [False, True, True]])
CUBE = np.linspace(-1.9, 2.1, 12).reshape(2, 2, 3) + np.cos(np.arange(12)).reshape(2, 2, 3)
SQUARE = np.array([[2.1, 0.3, -0.7], [0.4, -1.8, 0.6], [-0.2, 0.9, 1.3]])
DEFINITE = SQUARE @ SQUARE.T  # symmetric and positive definite
LOWER = np.tril(SQUARE)
TALL = X.T
WITH_ZERO = np.where(MASK, X, 0.0)
SIGNAL = np.sin(np.arange(9) * 1.3) + 0.1 * np.arange(9)
SPACES = np.array([0.5, 1.3, 2.9])
QUANTILES = torch.tensor([0.3, 0.75], dtype=torch.float64, device="ref")
#: A constant: derivatives in factors of LDL are not known.
CONSTANT = torch.tensor(SQUARE + SQUARE.T, device="ref")
REFLECTORS = np.array([[1.7, 0.4], [0.6, -1.1], [-0.8, 0.9]])
FACTORS = np.array([1.2, 0.7])


def symmetric(x: Any) -> Any:
    return (x + x.mT) * 0.5


def seeded(function: Callable[[], Any]) -> Any:
    torch.manual_seed(5)
    return function()


#: Arguments by position; every float64 array among them is differentiated. Of several results all floats are.
RECORDS: dict[str, list[Case]] = {
    "inv_ex": [(SQUARE,)],
    "solve_ex": [(SQUARE, TALL)],
    "lu_factor": [(SQUARE, True), (X, True), (TALL, True)],
    "matrix_exp": [(SQUARE,), (SQUARE * 3,)],
    "ormqr": [(REFLECTORS, FACTORS, SQUARE, True), (REFLECTORS, FACTORS, TALL, False)],
    "nansum": [(X, None, False), (CUBE, (0, 2), True), (WITH_ZERO, (1,), False)],
    "logcumsumexp": [(X, 1), (CUBE, 0)],
    "logcumsumexp_adjoint": [(X, Y, Z, 1)],
    "logcumsumexp_tangent": [(X, Y, Z, 1)],
}
#: Below: of a symmetric matrix, of one of several results, of a constant, and zero for parameters of samples.
ELSEWHERE_RECORDS = {"cholesky_ex", "lstsq", "lu_exchange", "ldl_solve", "drawn_from", "log_total"}

MATRICES: Composed = {
    "cholesky": [(lambda x: F.cholesky(symmetric(x), True), DEFINITE)],
    "cholesky_inverse": [(lambda x: F.cholesky_inverse(x.tril()), LOWER), (
        lambda x: F.cholesky_inverse(x.triu(), True), SQUARE)],
    "cholesky_solve": [(lambda b, x: F.cholesky_solve(b, x.tril()), TALL, SQUARE)],
    "linalg_cholesky_ex": [(lambda x: F.linalg_cholesky_ex(symmetric(x)).L, DEFINITE)],
    "linalg_cond": [(F.linalg_cond, SQUARE), (lambda x: F.linalg_cond(x, 1), SQUARE)],
    "linalg_householder_product": [(F.linalg_householder_product, REFLECTORS, FACTORS)],
    "linalg_inv_ex": [(lambda x: F.linalg_inv_ex(x).inverse, SQUARE)],
    "linalg_ldl_solve": [(lambda b: F.linalg_ldl_solve(*F.linalg_ldl_factor(CONSTANT), b), TALL)],
    "linalg_lstsq": [(lambda a, b: F.linalg_lstsq(a, b).solution, TALL, SQUARE), (
        lambda a, b: F.linalg_lstsq(a, b, driver="gelsd").solution, TALL, SQUARE)],
    "linalg_lu": [(lambda x: F.linalg_lu(x)[1:], SQUARE), (lambda x: F.linalg_lu(x)[1:], X)],
    "linalg_lu_factor": [(lambda x: F.linalg_lu_factor(x).LU, SQUARE)],
    "linalg_lu_factor_ex": [(lambda x: F.linalg_lu_factor_ex(x).LU, TALL)],
    "linalg_lu_solve": [(lambda a, b: F.linalg_lu_solve(*F.linalg_lu_factor(a), b), SQUARE, TALL), (
        lambda a, b: F.linalg_lu_solve(*F.linalg_lu_factor(a), b, left=False, adjoint=True), SQUARE, X)],
    "linalg_matrix_exp": [(F.linalg_matrix_exp, SQUARE)],
    "linalg_solve_ex": [(lambda a, b: F.linalg_solve_ex(a, b).result, SQUARE, TALL)],
    "linalg_tensorinv": [(lambda x: F.linalg_tensorinv(x.reshape(1, 3, 3), 2), SQUARE)],
    "linalg_tensorsolve": [(lambda a, b: F.linalg_tensorsolve(a.reshape(3, 1, 3), b.reshape(3, 1)), SQUARE, ROW)],
    "logdet": [(F.logdet, DEFINITE)],
    "lu": [(lambda x: F.lu(x)[0], SQUARE)],
    "lu_solve": [(lambda b, a: F.lu_solve(b, *F.linalg_lu_factor(a)), TALL, SQUARE)],
    "lu_unpack": [(lambda x: F.lu_unpack(*F.linalg_lu_factor(x))[1:], SQUARE)],
    "matrix_exp": [(F.matrix_exp, SQUARE)],
    "matrix_power": [(lambda x: F.matrix_power(x, 3), SQUARE)],
    "norm": [(F.norm, X), (lambda x: F.norm(x, 3, 1), X), (lambda x: F.norm(x, "nuc"), X)],
    "orgqr": [(F.orgqr, REFLECTORS, FACTORS)],
    "ormqr": [(F.ormqr, REFLECTORS, FACTORS, TALL), (lambda v, t, x: F.ormqr(v, t, x, False, True),
                                                     REFLECTORS, FACTORS, X)],
    "pca_lowrank": [(lambda x: seeded(lambda: F.pca_lowrank(x, 2)[1]), SQUARE[:, :2])],
    "pinverse": [(F.pinverse, X)],
    "qr": [(F.qr, TALL)],
    "slogdet": [(lambda x: F.slogdet(x)[1], SQUARE)],
    "svd": [(lambda x: F.svd(x)[1], X), (lambda x: F.svd(x)[0], TALL)],
    "svd_lowrank": [(lambda x: seeded(lambda: F.svd_lowrank(x, 2)[1]), X)],
    "triangular_solve": [(lambda b, a: F.triangular_solve(b, a)[0], TALL, SQUARE)],
}
PRODUCTS: Composed = {
    "addbmm": [(lambda x, a, b: F.addbmm(x, a, b, beta=0.5, alpha=2), X[:, :2], CUBE, CUBE.transpose(0, 2, 1))],
    "addbmm_": [(lambda x, a, b: (x * 1).addbmm_(a, b, beta=0.5, alpha=2), X[:, :2], CUBE, CUBE.transpose(0, 2, 1))],
    "addmv": [(lambda x, a, b: F.addmv(x, a, b, beta=0.5, alpha=2), PAIR, X, ROW)],
    "addmv_": [(lambda x, a, b: (x * 1).addmv_(a, b, beta=0.5, alpha=2), PAIR, X, ROW)],
    "baddbmm": [(lambda x, a, b: F.baddbmm(x, a, b, beta=0.5, alpha=2), X[:, :2], CUBE, CUBE.transpose(0, 2, 1))],
    "baddbmm_": [(lambda x, a, b: (x * 1).baddbmm_(a, b, beta=0.5), CUBE[:, :, :2], CUBE, CUBE.transpose(0, 2, 1))],
    "block_diag": [(F.block_diag, X, PAIR)],
    "chain_matmul": [(F.chain_matmul, X, SQUARE, TALL)],
    "einsum": [(lambda x, y: F.einsum("ij,kj->ki", x, y), X, Y), (lambda x: F.einsum("ii->i", x), SQUARE),
               (lambda x, y, z: F.einsum("ij,bik,k", x, y, z), X, CUBE, ROW)],
    "inner": [(F.inner, X, Y), (F.inner, CUBE, ROW)],
    "kron": [(F.kron, X, Y)],
    "linalg_multi_dot": [(lambda x, y, z: F.linalg_multi_dot([x, y, z]), X, SQUARE, TALL)],
    "linalg_vander": [(F.linalg_vander, ROW)],
    "vander": [(lambda x: F.vander(x, 4, True), ROW)],
}
STATISTICS: Composed = {
    "aminmax": [(lambda x: F.aminmax(x, dim=1), X), (F.aminmax, X)],
    "corrcoef": [(F.corrcoef, CUBE[0] + X)],
    "cov": [(F.cov, X), (lambda x, w: F.cov(x, correction=0, aweights=w), X, P[0])],
    "cumulative_trapezoid": [(F.cumulative_trapezoid, X, SPACES), (lambda y: F.cumulative_trapezoid(y, dx=0.3), X)],
    "gradient": [(lambda x: F.gradient(x, spacing=0.5), CUBE[..., :2].repeat(2, 2)),
                 (lambda x: F.gradient(x, dim=1, edge_order=2), X)],
    "kthvalue": [(lambda x: F.kthvalue(x, 2).values, X)],
    "logcumsumexp": [(lambda x: F.logcumsumexp(x, -1), X)],
    "median": [(F.median, X), (lambda x: F.median(x, 1).values, X)],
    "mode": [(lambda x: F.mode(x, 1).values, X)],
    "msort": [(F.msort, X)],
    "nanmean": [(F.nanmean, X), (lambda x: F.nanmean(x, (1,), True), X)],
    "nanmedian": [(F.nanmedian, X), (lambda x: F.nanmedian(x, 0).values, X)],
    "nanquantile": [(lambda x: F.nanquantile(x, QUANTILES, 1), X)],
    "quantile": [(lambda x: F.quantile(x, QUANTILES, 1), X), (lambda x: F.quantile(x, 0.4, interpolation="lower"), X)],
    "renorm": [(lambda x: F.renorm(x, 2, 0, 2.5), X), (lambda x: F.renorm(x, 1, 1, 2.5), X)],
    "renorm_": [(lambda x: (x * 1).renorm_(2, 0, 2.5), X)],
    "std_mean": [(F.std_mean, X), (lambda x: F.std_mean(x, 1), X)],
    "trapezoid": [(F.trapezoid, X, SPACES), (lambda y: F.trapezoid(y, dx=0.3, dim=0), X)],
    "var_mean": [(F.var_mean, X), (lambda x: F.var_mean(x, 1), X)],
    "stft": [(lambda x, w: F.view_as_real(F.stft(x, 4, 2, window=w, return_complex=True)), SIGNAL, P[:, :2].ravel())],
    "istft": [(lambda x, w: F.istft(F.complex(x[0], x[1]), 4, 2, window=w), np.cos(np.arange(24)).reshape(2, 3, 4),
               P[:, :2].ravel())],
}
MASKED: Composed = {
    f"masked_{name}": [(lambda x, m, name=name: getattr(F, f"masked_{name}")(x, 1, mask=m), X, MASK)]
    for name in ("amax", "amin", "cumprod", "cumsum", "logsumexp", "mean", "median", "prod", "softmax",
                 "softmin", "std", "sum", "var")
} | {
    "masked_log_softmax": [(lambda x, m: F.masked_log_softmax(x, 1, mask=m)[m], X, MASK)],
    "masked_logaddexp": [(lambda x, y, m: F.masked_logaddexp(x, y, input_mask=m), X, Y, MASK)],
    "masked_norm": [(lambda x, m: F.masked_norm(x, 3.0, 1, mask=m), X, MASK)],
    "masked_normalize": [(lambda x, m: F.masked_normalize(x, 2.0, 1, mask=m), X, MASK)],
}
REARRANGED: Composed = {
    "cartesian_prod": [(F.cartesian_prod, ROW, PAIR)],
    "combinations": [(lambda x: F.combinations(x, 2, True), ROW)],
    "diag": [(lambda x: F.diag(x, 1), X), (lambda x: F.diag(x, -1), ROW)],
    "diag_embed": [(lambda x: F.diag_embed(x, 1), X)],
    "diagflat": [(lambda x: F.diagflat(x, -1), X)],
    "fliplr": [(F.fliplr, X)],
    "flipud": [(F.flipud, X)],
    "rot90": [(lambda x: F.rot90(x, 3, (0, 2)), CUBE)],
}
COPIES: Composed = {
    "alias_copy": [(F.alias_copy, X)],
    "as_strided_copy": [(lambda x: F.as_strided_copy(x, (2, 2), (1, 2), 1), X)],
    "detach_copy": [(F.detach_copy, X)],
    "diagonal_copy": [(lambda x: F.diagonal_copy(x, 1), X)],
    "expand_copy": [(lambda x: F.expand_copy(x, (2, 3)), ROW)],
    "permute_copy": [(lambda x: F.permute_copy(x, (2, 0, 1)), CUBE)],
    "select_copy": [(lambda x: F.select_copy(x, 1, -1), X)],
    "slice": [(lambda x: call(COMPOSITES["slice"], x, 1, 0, 3, 2), X)],
    "slice_copy": [(lambda x: F.slice_copy(x, 1, 1), X)],
    "split_copy": [(lambda x: F.split_copy(x, 2, 1), X)],
    "split_with_sizes_copy": [(lambda x: F.split_with_sizes_copy(x, [1, 2], 1), X)],
    "squeeze_copy": [(F.squeeze_copy, X[:, :1])],
    "t_copy": [(F.t_copy, X)],
    "transpose_copy": [(lambda x: F.transpose_copy(x, 0, 2), CUBE)],
    "unbind_copy": [(lambda x: F.unbind_copy(x, 1), X)],
    "unfold_copy": [(lambda x: F.unfold_copy(x, 1, 2, 1), X)],
    "unsafe_chunk": [(lambda x: F.unsafe_chunk(x, 2, 1), X)],
    "unsafe_split": [(lambda x: F.unsafe_split(x, 2, 1), X)],
    "unsafe_split_with_sizes": [(lambda x: F.unsafe_split_with_sizes(x, [1, 2], 1), X)],
    "unsqueeze_copy": [(lambda x: F.unsqueeze_copy(x, 1), X)],
    "view_as_complex_copy": [(lambda x: F.view_as_complex_copy(x).abs(), X[:, :2])],
    "view_as_real_copy": [(lambda x, y: F.view_as_real_copy(F.complex(x, y)), X, Y)],
    "view_copy": [(lambda x: F.view_copy(x, (3, 2)), X)],
}
COMPOSED: Composed = MATRICES | PRODUCTS | STATISTICS | MASKED | REARRANGED | COPIES
#: Counts, positions, fingerprints, and what is cut off from the graph or, like LDL, has no known derivative.
NO_GRADIENT = {"bincount", "geqrf", "hash_tensor", "histc", "histogram", "histogramdd",
               "linalg_ldl_factor", "linalg_ldl_factor_ex", "masked_argmax", "masked_argmin", "nonzero_static",
               "unravel_index"}


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, cases in RECORDS.items() for k in range(len(cases))])
def test_derivatives_of_records(check: Check, check_twice: Check, record_function: Check, name: str, k: int) -> None:
    check(record_function(name), RECORDS[name][k])
    check_twice(record_function(name), RECORDS[name][k])


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, cases in COMPOSED.items() for k in range(len(cases))])
def test_derivatives_of_composites(check: Check, name: str, k: int) -> None:
    function, *args = COMPOSED[name][k]
    check(function, args)


@pytest.mark.parametrize("name", ["linalg_cholesky_ex", "linalg_lstsq", "linalg_ldl_solve", "renorm", "masked_std"])
def test_second_derivatives_of_composites(check_twice: Check, name: str) -> None:
    function, *args = COMPOSED[name][0]
    check_twice(function, args)


def test_derivatives_of_a_logarithm_and_its_sum(check: Check, check_twice: Check) -> None:
    """Differentiate both results; the largest element, which is the third, is a constant that they cancel."""
    def both(x: Any) -> Any:
        log, top, total = call(OPERATORS["log_total"], x, (-1,))
        return log * (total.log() + top)

    check(both, (X,))
    check_twice(both, (X,))


def test_samples_do_not_depend_on_their_parameters() -> None:
    parameters = torch.tensor(P, requires_grad=True)
    samples = call(OPERATORS["drawn_from"], torch.tensor(X), parameters)
    samples.sum().backward()
    assert samples.tolist() == X.tolist()
    assert parameters.grad.tolist() == np.zeros_like(P).tolist()


@pytest.mark.parametrize(("function", "values"), [
    (F.histc, X), (F.hash_tensor, X), (lambda x: F.masked_argmax(x, 1), X), (lambda x: F.masked_argmin(x, 1), X),
    (lambda x: F.nonzero_static(x, size=3), X),
])
def test_results_without_a_gradient(function: Callable[..., Any], values: np.ndarray) -> None:
    result = function(torch.tensor(values, requires_grad=True))
    assert not any(part.requires_grad for part in (result if isinstance(result, tuple) else (result,)))
