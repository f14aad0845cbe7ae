"""Matrices above the size of small arrays: results, and errors of the operators that a library computes in one call."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions
from tensocket_plugins.contract.errors import LinAlgError

LONG, SQUARE = (4000, 6), (140, 140)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def tensor(device):
    return lambda x: tc.tensor(x, dtype=tc.float64, device=device)


def host(x):
    return np.array(x.tolist()).reshape(tuple(x.shape))


def near(found, expected, bound=1e-10):
    np.testing.assert_allclose(host(found), expected, rtol=bound, atol=bound)


def positive(rng):
    a = rng.standard_normal(SQUARE)
    return a @ a.T + 140 * np.eye(140)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(4000, 6), (6, 4000), SQUARE])
def test_singular_values(tensor, rng, shape, full):
    if full and shape != SQUARE:
        pytest.skip("a square matrix of 4000 rows takes long")
    a = rng.standard_normal(shape)
    u, s, vh = functions.linalg_svd(tensor(a), full_matrices=full)
    near(s, np.linalg.svd(a, compute_uv=False))
    near((u * s) @ vh, a)
    near(u.T @ u, np.eye(u.shape[1]))
    near(vh @ vh.T, np.eye(vh.shape[0]))
    near(functions.linalg_svdvals(tensor(a)), host(s))


@pytest.mark.parametrize("shape", [LONG, SQUARE])
def test_orthogonal_factors(tensor, rng, shape):
    a = rng.standard_normal(shape)
    q, r = functions.linalg_qr(tensor(a))
    near(q @ r, a)
    near(q.T @ q, np.eye(shape[1]))
    near(r, np.triu(host(r)))
    factors, scales = functions.geqrf(tensor(a))
    near(functions.linalg_householder_product(factors, scales), host(q))


def test_functions_of_singular_values(tensor, rng):
    a = rng.standard_normal(LONG)
    a[:, 5] = a[:, 0]
    near(functions.linalg_pinv(tensor(a)), np.linalg.pinv(a))
    assert functions.linalg_matrix_rank(tensor(a)).item() == 5
    near(functions.linalg_cond(tensor(a[:, :5])), np.linalg.cond(a[:, :5]))
    near(functions.linalg_matrix_norm(tensor(a), "nuc"), np.linalg.norm(a, "nuc"))
    near(functions.linalg_matrix_norm(tensor(a)), np.linalg.norm(a))


def test_pseudoinverse_of_a_hermitian_matrix(tensor, rng):
    a = rng.standard_normal((140, 70))
    a = a @ a.T - 3 * np.ones((140, 140))
    near(functions.linalg_pinv(tensor(a), rtol=1e-10, hermitian=True), np.linalg.pinv(a, rcond=1e-10), 1e-8)


def test_triangular_factors(tensor, rng):
    a, b = positive(rng), rng.standard_normal((140, 3))
    p, lower, upper = functions.linalg_lu(tensor(a))
    near(p @ lower @ upper, a)
    factors, pivots = functions.linalg_lu_factor(tensor(a))
    near(functions.linalg_lu_solve(factors, pivots, tensor(b)), np.linalg.solve(a, b))
    near(functions.linalg_cholesky(tensor(a)), np.linalg.cholesky(a))
    near(functions.linalg_solve(tensor(a), tensor(b)), np.linalg.solve(a, b))
    near(functions.linalg_inv(tensor(a)), np.linalg.inv(a))
    near(functions.linalg_slogdet(tensor(a))[1], np.linalg.slogdet(a)[1])
    near(functions.linalg_ldl_solve(*functions.linalg_ldl_factor(tensor(a)), tensor(b)), np.linalg.solve(a, b))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
def test_least_squares(tensor, rng, driver):
    a, b = rng.standard_normal(LONG), rng.standard_normal((4000, 2))
    found = functions.linalg_lstsq(tensor(a), tensor(b), driver=driver)
    expected = np.linalg.lstsq(a, b)
    near(found.solution, expected[0])
    near(found.residuals, expected[1] if driver != "gelsy" else np.empty(0))


def test_failures_raise(tensor):
    singular = np.eye(140)
    singular[7, 7] = 0
    for call in (functions.linalg_inv, functions.linalg_cholesky, functions.linalg_lu_factor,
                 lambda x: functions.linalg_solve(x, x)):
        with pytest.raises(LinAlgError):
            call(tensor(singular))
    with pytest.raises(LinAlgError):
        functions.linalg_svd(tensor(singular * np.nan))


def test_transforms_of_many_rows(tensor, supports, rng):
    if not supports("complex128"):
        pytest.skip("the device lacks complex numbers")
    a = rng.standard_normal((3000, 6))
    near(functions.fft_fft(tensor(a), n=10, norm="ortho"), np.fft.fft(a, 10, norm="ortho"))
    near(functions.fft_ifft(tensor(a), dim=0), np.fft.ifft(a, axis=0))
    near(functions.fft_rfft(tensor(a), n=5), np.fft.rfft(a, 5))
    near(functions.fft_irfft(tensor(a)), np.fft.irfft(a))
    near(functions.fft_fft2(tensor(a)), np.fft.fft2(a))
