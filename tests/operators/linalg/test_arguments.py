"""Linear algebra: tolerances, drivers, orders and dims of norms, gradients that do not exist."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import linalg

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import (
    ArgumentError,
    AutogradError,
    DimensionError,
    DtypeError,
    LinAlgError,
    ShapeError,
)

_KINDS = "dtype is real for real elements, and complex for complex ones"
SQUARE = np.random.default_rng(3).normal(size=(2, 3, 3))


def t(array):
    return tc.tensor(np.asarray(array))


def test_tolerances_by_position_and_by_their_older_names():
    diagonal = t(np.diag([4.0, 1.0, 0.25]))
    assert f.linalg_matrix_rank(diagonal, 0.5).item() == 2
    assert f.linalg_matrix_rank(diagonal, tol=2).item() == 1
    assert f.linalg_matrix_rank(diagonal, t(0.5), True).item() == 2
    assert f.linalg_matrix_rank(diagonal, atol=t([0.5, 0.1])).tolist() == [2, 3]
    np.testing.assert_allclose(f.linalg_pinv(diagonal, 0.1).tolist(), np.diag([0.25, 1, 0]))
    np.testing.assert_allclose(f.linalg_pinv(diagonal, rcond=0.5, hermitian=True).tolist(), np.diag([0.25, 0, 0]))


def test_no_driver_is_the_only_driver():
    assert f.linalg_svd(tc.eye(2), driver=None).S.tolist() == [1, 1]
    assert f.linalg_svdvals(tc.eye(2), driver=None).tolist() == [1, 1]


def test_exponentials_of_matrices_that_are_not_finite_are_nan():
    bad = SQUARE.copy()
    bad[0, 1, 1] = np.nan
    result = np.array(f.linalg_matrix_exp(t(bad)).tolist())
    assert np.isnan(result[0]).all()
    np.testing.assert_allclose(result[1], linalg.expm(SQUARE[1]), rtol=1e-12)
    assert np.isnan(f.linalg_matrix_exp(t([[math.inf, 0], [0, 0]])).tolist()).all()


@pytest.mark.parametrize("order", ["nuc", "fro", 1, -1, 2, math.inf])
def test_singular_matrices_have_infinite_condition(order):
    assert f.linalg_cond(t(np.diag([1.0, 1.0, 0.0])), order).item() == math.inf


def test_norms_of_matrices_keep_the_order_of_dims():
    for dim in ((0, 1), (1, 0), (-1, 0)):
        for order in (1, math.inf):
            expected = np.linalg.norm(SQUARE, order, dim)
            np.testing.assert_allclose(f.linalg_matrix_norm(t(SQUARE), order, dim).tolist(), expected)


def test_reflectors_are_stored_by_columns():
    found = f.geqrf(t(SQUARE))
    assert found.a.mT.is_contiguous()
    np.testing.assert_allclose(np.triu(np.array(found.a[0].tolist())), linalg.qr(SQUARE[0])[1], rtol=1e-12)


def test_an_ellipsis_in_pieces_is_none():
    with pytest.raises(ArgumentError, match="subscripts are letters, with at most one"):
        tc.einsum(". ..", tc.ones(2))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: f.cholesky_inverse(t(np.diag([1.0, 0.0]))), LinAlgError, "such a matrix has no inverse"),
    (lambda: f.linalg_lstsq(tc.eye(2), tc.ones(2, 2, dtype=tc.int64)), DtypeError, "A and B have the same dtype"),
    (lambda: f.lu_unpack(tc.eye(2), tc.tensor([1, 2])), DtypeError, "pivots have torch.int32 dtype"),
    (lambda: f.linalg_svd(tc.eye(2), driver="gesvd"), ArgumentError, "the driver is a choice of CUDA's library alone"),
    (lambda: f.linalg_svdvals(tc.eye(2), driver="gesvd"), ArgumentError, "a choice of CUDA's library alone"),
    (lambda: f.linalg_matrix_rank(tc.eye(2), tc.tensor(1j)), DtypeError, "a tolerance is a real number"),
    (lambda: f.linalg_pinv(tc.eye(2), tc.tensor(1j)), DtypeError, "a tolerance is a real number"),
    (lambda: f.linalg_pinv(tc.ones(2, 3), hermitian=True), ShapeError, "matrices are square"),
    (lambda: f.linalg_norm(tc.ones(2, 2), "fro", 0), ArgumentError, "dim must be a 2-tuple"),
    (lambda: f.linalg_matrix_norm(tc.ones(2, 2), dim=(0,)), ArgumentError, "dim must be a 2-tuple"),
    (lambda: f.linalg_matrix_norm(tc.ones(2, 2), dim=(0, -2)), ShapeError, "a dim appears at most once"),
    (lambda: f.linalg_norm(tc.ones(2, 2), 2, (0, 4)), DimensionError, "dim 4 of a 2-dimensional tensor"),
    (lambda: f.linalg_norm(tc.ones(2, 2, 2), 1), ArgumentError, "an order is one of vectors or of matrices"),
    (lambda: f.linalg_norm(tc.ones(2, 2, 2), 1, (0, 1, 2)), ArgumentError, "a norm is over one dim or two"),
    (lambda: f.linalg_norm(tc.ones(2, 2), dim=()), ArgumentError, "a norm is over one dim or two"),
    (lambda: f.linalg_norm(tc.ones(2, 2, 2), None, (0, 1, 2)), ArgumentError, "a norm is over one dim or two"),
    (lambda: f.linalg_norm(tc.ones(2), dtype=tc.int64), DtypeError, _KINDS),
    (lambda: f.linalg_norm(tc.ones(2), dtype=tc.complex64), DtypeError, _KINDS),
    (lambda: f.linalg_norm(tc.ones(2), dtype=tc.float16), DtypeError, "elements convert to dtype without narrowing"),
    (lambda: f.linalg_vector_norm(tc.ones(2, dtype=tc.int64)), DtypeError, "elements are floats or complex numbers"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("loss", [
    lambda x: (f.linalg_svd(x, False).U + f.linalg_svd(x, False).Vh).sum().abs(),
    lambda x: f.linalg_eig(x).eigenvectors.sum().abs(),
    lambda x: f.linalg_eigh(x + x.mT.conj()).eigenvectors.sum().abs(),
])
def test_losses_that_depend_on_phases_have_no_gradient(loss):
    x = t(SQUARE[0] + 1j * SQUARE[1]).requires_grad_()
    rule = "vectors are unique up to a factor of length 1, so that such a loss is ill-defined"
    with pytest.raises(AutogradError, match=rule):
        loss(x).backward()


def test_a_factor_alone_has_no_gradient():
    x = t(SQUARE[0]).requires_grad_()
    with pytest.raises(AutogradError, match="the derivative depends on Q, which is left out"):
        f.linalg_qr(x, "r").R.sum().backward()
