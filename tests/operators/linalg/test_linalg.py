"""Linear algebra against NumPy, its errors, and gradients of complex matrices against differences."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.optional import require
from tensocket_plugins.contract.errors import (
    ArgumentError,
    AutogradError,
    DtypeError,
    LinAlgError,
    MissingPackage,
    ShapeError,
)
from tensocket_plugins.kit import host_linalg

pytestmark = pytest.mark.usefixtures("place")
RNG = np.random.default_rng(11)
SQUARE = RNG.normal(size=(2, 4, 4))
TALL = RNG.normal(size=(2, 5, 3))
WIDE = TALL.transpose(0, 2, 1).copy()
COMPLEX = RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def matrices(dtype, shape):
    values = RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else 0)
    return values.astype(dtype)


def bound(dtype):
    return 2e-4 if np.dtype(dtype).itemsize // (2 if np.dtype(dtype).kind == "c" else 1) == 4 else 1e-10


def same(tensor, reference, dtype):
    got = np.array(tensor.detach().tolist(), dtype=reference.dtype).reshape(reference.shape)
    np.testing.assert_allclose(got, reference, rtol=bound(dtype), atol=bound(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_determinants_and_solutions(dtype):
    a, b = matrices(dtype, (2, 4, 4)), matrices(dtype, (2, 4, 3))
    x = tc.tensor(a)
    same(f.linalg_inv(x), np.linalg.inv(a), dtype)
    same(f.linalg_det(x), np.linalg.det(a), dtype)
    same(f.linalg_solve(x, tc.tensor(b)), np.linalg.solve(a, b), dtype)
    same(f.linalg_solve(x, tc.tensor(b[:, :, 0])), np.linalg.solve(a, b[:, :, :1])[..., 0], dtype)
    same(f.linalg_pinv(tc.tensor(b)), np.linalg.pinv(b), dtype)
    sign, size = f.linalg_slogdet(x)
    expected = np.linalg.slogdet(a)
    same(sign, expected.sign, dtype)
    same(size, expected.logabsdet, dtype)
    assert f.linalg_inv(x).dtype is x.dtype
    assert not size.dtype.is_complex


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 5, 3), (2, 3, 5)])
def test_decompositions_give_the_matrix_back(dtype, shape):
    a = matrices(dtype, shape)
    x = tc.tensor(a)
    for mode in ("reduced", "complete"):
        q, r = f.linalg_qr(x, mode)
        same(q @ r, a, dtype)
        assert tuple(r.shape) == np.linalg.qr(a, mode).R.shape
        same(r.tril(-1), np.zeros(r.shape, a.dtype), dtype)
    for full in (False, True):
        u, s, vh = f.linalg_svd(x, full)
        k = min(shape[1:])
        same((u[..., :k] * s.unsqueeze(-2)) @ vh[:, :k], a, dtype)
        assert [tuple(part.shape) for part in (u, s, vh)] == [part.shape for part in np.linalg.svd(a, full)]
    same(f.linalg_svdvals(x), np.linalg.svd(a, compute_uv=False), dtype)
    assert f.linalg_qr(x, "r").Q.numel() == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_decompositions_of_hermitian_matrices(dtype):
    a = matrices(dtype, (2, 4, 4))
    positive = a @ a.conj().swapaxes(-1, -2) + np.eye(4, dtype=dtype)
    x = tc.tensor(positive)
    same(f.linalg_cholesky(x), np.linalg.cholesky(positive), dtype)
    same(f.linalg_cholesky(x, upper=True), np.linalg.cholesky(positive).conj().swapaxes(-1, -2), dtype)
    values, vectors = f.linalg_eigh(x)
    same(values, np.linalg.eigvalsh(positive), dtype)
    same(x @ vectors, np.array((vectors * values.unsqueeze(-2)).tolist()), dtype)
    same(f.linalg_eigvalsh(x, "U"), np.linalg.eigvalsh(positive), dtype)
    values, vectors = f.linalg_eig(x)
    same((x + 0j) @ vectors, np.array((vectors * values.unsqueeze(-2)).tolist()), dtype)
    assert sorted(v.real for v in f.linalg_eigvals(x[0]).tolist()) == pytest.approx(
        list(np.linalg.eigvalsh(positive[0])), rel=bound(dtype))


def test_triangular_solutions(place):
    a, b = SQUARE[0], TALL[0, :4]
    for upper in (False, True):
        for unit in (False, True):
            got = f.linalg_solve_triangular(tc.tensor(a), tc.tensor(b), upper=upper, unitriangular=unit)
            used = np.triu(a) if upper else np.tril(a)
            if unit:
                np.fill_diagonal(used, 1)
            same(got, np.linalg.solve(used, b), np.float64)
    left = f.linalg_solve_triangular(tc.tensor(a), tc.tensor(b.T.copy()), upper=True, left=False)
    same(left @ tc.tensor(np.triu(a)), b.T, np.float64)


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    monkeypatch.setattr(host_linalg, "_INSTALLED", {})  # functions that other devices of this process install
    with pytest.raises(MissingPackage, match="an environment without scipy — this operator needs an optional package — "
                       r'pip install "tensocket-core\[scipy\]"') as caught:
        f.linalg_solve_triangular(tc.ones(2, 2), tc.ones(2, 1), upper=True)
    assert isinstance(caught.value, ImportError)
    assert caught.value.operator == "linalg.solve_triangular"
    monkeypatch.undo()
    assert f.linalg_solve_triangular(tc.ones(1, 1), tc.ones(1, 1), upper=True).tolist() == [[1.0]]


def test_errors_inside_of_optional_packages_are_theirs(tmp_path, monkeypatch):
    (tmp_path / "scipy_of_a_test.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there") as caught:
        require("scipy_of_a_test", "test")
    assert type(caught.value) is ModuleNotFoundError


@pytest.mark.parametrize("order", ["fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf])
def test_norms_of_matrices(order):
    for keep in (False, True):
        expected = np.linalg.norm(TALL, order, (-2, -1), keepdims=keep)
        same(f.linalg_matrix_norm(tc.tensor(TALL), order, keepdim=keep), np.asarray(expected), np.float64)
    first = f.linalg_matrix_norm(tc.tensor(TALL), order, (0, 2))
    same(first, np.linalg.norm(TALL, order, (0, 2)), np.float64)


@pytest.mark.parametrize("order", [0, 1, 2, 3, -1, 0.5, math.inf, -math.inf])
def test_norms_of_vectors(order):
    same(f.linalg_vector_norm(tc.tensor(TALL), order, 1), np.linalg.norm(TALL, order, 1), np.float64)
    same(f.linalg_vector_norm(tc.tensor(TALL), order), np.asarray(np.linalg.norm(TALL.ravel(), order)), np.float64)
    same(f.linalg_norm(tc.tensor(TALL), order, 2), np.linalg.norm(TALL, order, 2), np.float64)


def test_other_functions():
    same(f.linalg_norm(tc.tensor(TALL)), np.asarray(np.linalg.norm(TALL.ravel())), np.float64)
    for n in (0, 1, 5, -2):
        same(f.linalg_matrix_power(tc.tensor(SQUARE), n), np.linalg.matrix_power(SQUARE, n), np.float64)
    low = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 0.0])
    assert f.linalg_matrix_rank(tc.tensor(np.stack([low, np.eye(3)]))).tolist() == [1, 3]
    assert f.linalg_matrix_rank(tc.tensor(np.diag([1.0, 0.1])), rtol=0.5).item() == 1
    assert f.linalg_matrix_rank(tc.tensor(np.diag([1.0, -0.1])), atol=0.5, hermitian=True).item() == 1
    turned = COMPLEX.T.copy()
    same(f.linalg_vecdot(tc.tensor(COMPLEX), tc.tensor(turned)), np.vecdot(COMPLEX, turned), np.complex128)
    same(f.linalg_diagonal(tc.tensor(SQUARE), offset=1), np.diagonal(SQUARE, 1, -2, -1), np.float64)
    same(f.linalg_cross(tc.tensor(WIDE), tc.tensor(WIDE), dim=1), np.cross(WIDE, WIDE, axis=1), np.float64)
    same(f.linalg_inv(tc.tensor(SQUARE)), np.array(f.inverse(tc.tensor(SQUARE)).tolist()), np.float64)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: f.linalg_inv(tc.ones(3)), ShapeError, r"\[linalg.inv\] a tensor of shape \[3\] — matrices are square"),
    (lambda: f.linalg_qr(tc.ones(3)), ShapeError, r"\[linalg.qr\] a tensor of shape \[3\] — matrices have at least 2"),
    (lambda: f.linalg_inv(tc.ones(2, 2)), LinAlgError, r"\[linalg.inv\] singular matrix — the matrix has no such"),
    (lambda: f.linalg_cholesky(-tc.ones(2, 2)), LinAlgError, r"\[linalg.cholesky\] matrix is not positive definite"),
    (lambda: f.linalg_inv(tc.ones(2, 2, dtype=tc.int32)), DtypeError, r"\[linalg.inv\] dtype int32 — linalg.inv is"),
    (lambda: f.linalg_inv(tc.ones(2, 2, dtype=tc.float16)), DtypeError, r"\[linalg.inv\] dtype float16"),
    (lambda: f.linalg_qr(tc.ones(2, 2), "x"), ArgumentError, r"\[linalg.qr\] mode='x' — the mode is 'reduced'"),
    (lambda: f.linalg_eigh(tc.ones(2, 2), "X"), ArgumentError, r"\[linalg.eigh\] UPLO='X' — the triangle is"),
    (lambda: f.linalg_matrix_norm(tc.ones(2, 2), 3), ArgumentError, r"\[linalg.matrix_norm\] ord=3 — the order is"),
    (lambda: f.linalg_solve(tc.ones(2, 2), tc.ones(3)), ShapeError, r"\[linalg.solve\] shapes \[2, 2\] and \[3\]"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_complete_q_has_no_gradient():
    x = tc.tensor(TALL, requires_grad=True)
    with pytest.raises(AutogradError, match=r"\[linalg.qr\] mode='complete' of 5 x 3 matrices"):
        f.linalg_qr(x, "complete").R.sum().backward()


WEIGHTS = RNG.normal(size=64) + 1j * RNG.normal(size=64)


def number_of(tensor):
    """A real number that depends on both parts of every element."""
    weights = tc.tensor(WEIGHTS[:tensor.numel()].reshape(tuple(tensor.shape)))
    return tc.real((tensor + 0j) * weights).sum()


def together(parts, function):
    """A function of one decomposition: its parts turn by the same phases."""
    return function(*parts)


def hermitian(x):
    return x @ x.mT.conj() + tc.tensor(np.eye(4) + 0j)


@pytest.mark.parametrize("function", [
    f.linalg_inv, f.linalg_det, f.linalg_pinv, lambda x: f.linalg_slogdet(x).sign, lambda x: f.linalg_slogdet(x)[1],
    lambda x: f.linalg_qr(x).Q, lambda x: f.linalg_qr(x).R, f.linalg_svdvals, lambda x: f.linalg_cholesky(hermitian(x)),
    lambda x: f.linalg_solve(x, x * x), lambda x: f.linalg_eigvalsh(hermitian(x)), f.linalg_eigvals,
    # Values that do not depend on the phases of vectors.
    lambda x: together(f.linalg_svd(x), lambda u, s, vh: (u * s) @ vh),
    lambda x: together(f.linalg_svd(x), lambda u, s, vh: u[:, :1] @ vh[:1]),
    lambda x: f.linalg_eigh(hermitian(x)).eigenvectors.abs(), lambda x: f.linalg_eig(x).eigenvectors.abs(),
    lambda x: f.cumprod(x, 0), lambda x: f.cumsum(x, 1), f.tan, f.asin, f.acosh, f.atanh, f.log2, f.exp2,
])
def test_gradients_of_complex_matrices(function, place):
    if place == "ref":
        pytest.skip("the same formulas; once is enough")
    x = tc.tensor(COMPLEX, requires_grad=True)
    number_of(function(x)).backward()
    got, step = np.array(x.grad.tolist()), 1e-6
    with tc.no_grad():
        for place_, direction in (((0, 1), 1), ((2, 3), 1j), ((3, 3), 1), ((1, 0), 1j), ((2, 2), 1j)):
            ends = []
            for sign in (1, -1):
                moved = COMPLEX.copy()
                moved[place_] += sign * step * direction
                ends.append(number_of(function(tc.tensor(moved))).item())
            slope = (ends[0] - ends[1]) / (2 * step)
            part = got[place_].imag if direction == 1j else got[place_].real
            assert part == pytest.approx(slope, rel=2e-5, abs=2e-6)
