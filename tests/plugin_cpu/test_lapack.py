"""Decompositions and equations by the backend's own library, against what defines them in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.linear import blas
from tensocket_cpu.linear.batches import BatchCaller
from tensocket_cpu.linear.lapack import Lapack, install_lapack
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.kit import host_linalg

BOUNDS = {"float32": 1e-4, "float64": 1e-12, "complex64": 1e-4, "complex128": 1e-12}
SHAPES = [(30, 30), (40, 25), (25, 40), (3, 30, 28), (2, 2, 26, 26), (100, 100)]


def without_compiler():
    raise KernelError("compile", "cpu", "LLVM cannot be loaded", "install llvmlite anew")


@pytest.fixture(params=["compiled", "called"])
def lapack(request, device):
    """Once with machine code around the routines, once with calls from Python."""
    library = blas.best_library()
    if library is None or not library.private:
        pytest.skip("the package scipy-openblas64 is not there")
    return Lapack(library, BatchCaller((lambda: device.compiler) if request.param == "compiled" else without_compiler))


def values(rng, shape, dtype):
    made = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def near(x, y, bound):
    np.testing.assert_allclose(x, y, rtol=0, atol=bound * (1 + np.abs(y).max()))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(lapack, rng, dtype, shape, full):
    a, bound = values(rng, shape, dtype), BOUNDS[dtype]
    kept = a.copy()
    u, s, vh = lapack.svd(a, full)
    rows, columns = shape[-2:]
    k = min(rows, columns)
    np.testing.assert_array_equal(a, kept)
    assert u.shape == (*shape[:-2], rows, rows if full else k)
    assert vh.shape == (*shape[:-2], columns if full else k, columns)
    assert u.dtype == vh.dtype == a.dtype
    assert s.dtype == a.real.dtype
    assert (np.diff(s) <= 0).all()
    assert (s >= 0).all()
    near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, bound)
    near(adjoint(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *u.shape[-1:] * 2)), bound)
    near(vh @ adjoint(vh), np.broadcast_to(np.eye(vh.shape[-2]), (*shape[:-2], *vh.shape[-2:-1] * 2)), bound)
    near(lapack.svdvals(a), np.linalg.svd(a.astype(np.complex128), compute_uv=False), bound)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(30, 30), (3, 25, 25), (100, 100)])
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvalues(lapack, rng, dtype, shape, triangle):
    a, bound = values(rng, shape, dtype), BOUNDS[dtype]
    part = np.tril(a) if triangle == "L" else np.triu(a)
    whole = part + adjoint(part)
    whole[..., np.arange(shape[-1]), np.arange(shape[-1])] = np.diagonal(part, 0, -2, -1).real
    w, v = lapack.eigh(a, triangle)
    assert w.dtype == a.real.dtype
    assert v.dtype == a.dtype
    assert (np.diff(w) >= 0).all()
    near(whole @ v, v * w[..., None, :], bound)
    near(adjoint(v) @ v, np.broadcast_to(np.eye(shape[-1]), shape), bound)
    near(lapack.eigvalsh(a, triangle), np.linalg.eigvalsh(whole.astype(np.complex128)), bound)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(30, 30), (2, 3, 25, 25), (100, 100)])
def test_cholesky(lapack, rng, dtype, shape):
    a = values(rng, shape, dtype)
    a = a @ adjoint(a) + 10 * np.eye(shape[-1], dtype=dtype)
    garbage = a + np.triu(values(rng, shape, dtype), 1)
    factor = lapack.cholesky(garbage)
    assert factor.dtype == a.dtype
    np.testing.assert_array_equal(factor, np.tril(factor))
    assert (np.diagonal(factor, 0, -2, -1).real > 0).all()
    near(factor @ adjoint(factor), a, BOUNDS[dtype])
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        lapack.cholesky(a - 1e4 * np.eye(shape[-1], dtype=dtype))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("left", "right"), [((30, 30), (30, 7)), ((3, 25, 25), (25, 2)), ((25, 25), (2, 25, 3)),
                                             ((100, 100), (100, 100))])
def test_equations(lapack, rng, dtype, left, right):
    a, b, bound = values(rng, left, dtype), values(rng, right, dtype), 10 * BOUNDS[dtype]
    a = a + 20 * np.eye(left[-1], dtype=dtype)
    kept = a.copy(), b.copy()
    x = lapack.solve(a, b)
    assert x.dtype == a.dtype
    near(a @ x, np.broadcast_to(b, x.shape), bound)
    near(lapack.inv(a) @ a, np.broadcast_to(np.eye(left[-1]), left), bound)
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(b, kept[1])
    a[..., 3, :] = 0
    for run in (lambda: lapack.inv(a), lambda: lapack.solve(a, b)):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            run()


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_orthogonal_factors(lapack, rng, dtype, shape, mode):
    a, bound = values(rng, shape, dtype), BOUNDS[dtype]
    q, r = lapack.qr(a, mode)
    expected = np.linalg.qr(a, mode)
    assert (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
    assert q.dtype == r.dtype == a.dtype
    np.testing.assert_array_equal(r, np.triu(r))
    near(q @ r, a, bound)
    near(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)), bound)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(4100, 1), (1, 4100), (2, 4100, 2), (1100, 4)])
def test_long_matrices(lapack, rng, dtype, shape):
    a, bound = values(rng, shape, dtype), BOUNDS[dtype]
    q, r = lapack.qr(a, "reduced")
    near(q @ r, a, bound)
    near(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)), bound)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("left", "right"), [((1, 1), (1, 1)), ((30, 30), (30, 7)), ((5, 4, 4), (4, 3)),
                                             ((3, 3), (2, 5, 3, 1)), ((1, 6, 6), (9, 6, 2)), ((2, 1, 4, 4), (3, 4, 4))])
@pytest.mark.parametrize("turned", [False, True])
def test_triangles(lapack, rng, dtype, left, right, turned):
    """The other triangle is not read, nor the diagonal of ones."""
    a, b, bound = values(rng, left, dtype) / left[-1], values(rng, right, dtype), 20 * BOUNDS[dtype]
    a = a + 2 * np.eye(left[-1], dtype=dtype)
    a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2) if turned else a
    kept = a.copy(), b.copy()
    for upper in (False, True):
        part = np.triu(a) if upper else np.tril(a)
        x = lapack.solve_triangular(a, b, upper, False)
        assert x.dtype == a.dtype
        near(part @ x, np.broadcast_to(b, x.shape), bound)
        one = (np.triu(a, 1) if upper else np.tril(a, -1)) + np.eye(left[-1], dtype=dtype)
        near(one @ lapack.solve_triangular(a, b, upper, True), np.broadcast_to(b, x.shape), bound)
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(b, kept[1])


def test_a_zero_on_a_diagonal_divides(lapack):
    a, b = np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([[4.0], [5.0]])
    np.testing.assert_array_equal(lapack.solve_triangular(a, b, False, False), [[2.0], [np.inf]])
    assert lapack.solve_triangular(a, b[:, :0], False, False).shape == (2, 0)
    assert lapack.solve_triangular(np.zeros((3, 0, 0)), np.zeros((0, 5)), True, False).shape == (3, 0, 5)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(1, 1), (30, 30), (7, 5, 4, 4), (2, 3, 6), (2, 6, 3), (0, 3, 3)])
def test_triangular_factors(lapack, rng, dtype, shape):
    a, k = values(rng, shape, dtype), min(shape[-2:])
    factors, swaps, info = lapack.lu(a)
    assert (factors.dtype, swaps.dtype, info.dtype) == (a.dtype, np.int32, np.int32)
    assert (factors.shape, swaps.shape, info.shape) == (shape, (*shape[:-2], k), shape[:-2])
    assert not info.any()
    lower = np.tril(factors[..., :, :k], -1) + np.eye(shape[-2], k)
    product = (lower @ np.triu(factors[..., :k, :])).reshape(-1, *shape[-2:])
    for got, want, order in zip(product, a.reshape(product.shape), swaps.reshape(-1, k), strict=True):
        for row in range(k):
            want = want.copy()
            want[[row, order[row] - 1]] = want[[order[row] - 1, row]]
        near(got, want, BOUNDS[dtype])


def test_the_first_zero_of_each_matrix(lapack):
    a = np.stack([np.eye(3), np.diag([1.0, 0.0, 0.0]), np.diag([1.0, 1.0, 0.0])])
    assert lapack.lu(a)[2].tolist() == [0, 2, 3]


@pytest.mark.parametrize("shape", [(30, 40), (2, 30, 30)])
def test_strided_matrices(lapack, rng, shape):
    a = values(rng, (*shape[:-2], 2 * shape[-1], shape[-2]), np.float64)[..., ::2, :].swapaxes(-1, -2)
    u, s, vh = lapack.svd(a, False)
    near(u * s[..., None, :] @ vh, a, 1e-12)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(3, 3), (40, 7), (7, 40), (1, 4), (4, 1)])
def test_least_squares(lapack, rng, dtype, shape):
    a, b = values(rng, shape, dtype), values(rng, (shape[0], 3), dtype)
    kept = a.copy(), b.copy()
    found, info = lapack.least_squares(a, b)
    assert (info, found.dtype) == (0, a.dtype)
    wide = np.result_type(dtype, np.float64)
    near(found, np.linalg.lstsq(a.astype(wide), b.astype(wide))[0], 100 * BOUNDS[dtype])
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(b, kept[1])


def test_least_squares_without_full_rank_and_of_other_operands(lapack):
    a = np.zeros((3, 2))
    a[:, 0] = 1
    assert lapack.least_squares(a, np.ones((3, 1)))[1] == 2
    assert lapack.least_squares(np.stack([a, a]), np.ones((2, 3, 1))) is NotImplemented
    assert lapack.least_squares(a, np.ones((3, 1), np.float32)) is NotImplemented
    assert lapack.least_squares(a, np.ones((3, 0))) is NotImplemented


def test_not_a_number_is_refused(lapack):
    a = np.ones((30, 30), np.float32)
    a[3, 4] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        lapack.svd(a, True)


@pytest.mark.parametrize("matrix", [np.ones((5, 500)), np.ones((0, 30)), np.ones((30, 30), np.float16),
                                    np.ones((30, 30), ">f8")])
def test_what_numpy_serves(lapack, matrix):
    assert lapack.svd(matrix, True) is NotImplemented
    assert lapack.svdvals(matrix) is NotImplemented
    assert lapack.eigh(matrix, "L") is NotImplemented
    assert lapack.eigvalsh(matrix, "L") is NotImplemented
    assert lapack.cholesky(matrix) is NotImplemented
    assert lapack.inv(matrix) is NotImplemented
    assert lapack.solve(matrix, matrix) is NotImplemented
    assert lapack.qr(matrix, "reduced") is NotImplemented


@pytest.mark.parametrize("library", [None, blas.Library(None, "{}_", False)])
def test_without_a_private_library_numpy_serves(monkeypatch, rng, library):
    monkeypatch.setattr(host_linalg, "_INSTALLED", {})
    install_lapack(lambda: library, without_compiler)
    a = values(rng, (30, 30), np.float64)
    a = a + a.T
    for mine, theirs in [(host_linalg.svd(a, True), np.linalg.svd(a)), (host_linalg.eigh(a, "L"), np.linalg.eigh(a))]:
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(x, y)
    b = a + 30 * np.eye(30)
    np.testing.assert_array_equal(host_linalg.cholesky(b), np.linalg.cholesky(b))
    np.testing.assert_array_equal(host_linalg.inv(b), np.linalg.inv(b))
    np.testing.assert_array_equal(host_linalg.solve(b, a), np.linalg.solve(b, a))
    np.testing.assert_array_equal(host_linalg.qr(b, "complete")[0], np.linalg.qr(b, "complete")[0])
    np.testing.assert_array_equal(host_linalg.svdvals(a), np.linalg.svd(a, compute_uv=False))
    np.testing.assert_array_equal(host_linalg.eigvalsh(a, "U"), np.linalg.eigvalsh(a, "U"))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(1500, 5), (2000, 30), (4096, 1), (5000, 9)])
def test_matrices_with_many_more_rows(lapack, rng, dtype, shape):
    a, bound = values(rng, shape, dtype), BOUNDS[dtype]
    given = a.copy()
    found = lapack.svd(a, False)
    if found is NotImplemented:  # few columns of complex numbers, or no compiler
        assert shape[1] < 24
        return
    u, s, vh = found
    expected = np.linalg.svd(a.astype(np.complex128), compute_uv=False)
    assert (u.shape, s.shape, vh.shape) == (shape, shape[1:], 2 * shape[1:])
    assert (u.dtype, s.dtype, vh.dtype) == (a.dtype, a.real.dtype, a.dtype)
    near(s, expected, bound)
    near(lapack.svdvals(a), expected, bound)
    near(u * s @ vh, a, bound)
    near(adjoint(u) @ u, np.eye(shape[1]), bound)
    near(vh @ adjoint(vh), np.eye(shape[1]), bound)
    np.testing.assert_array_equal(a, given)


def test_long_columns_whose_length_overflows(lapack):
    a = np.full((4096, 30), 3e37, np.float32)
    assert lapack._svd_of_long(a, "N") is NotImplemented


def test_long_matrices_of_low_rank(lapack, rng):
    a = values(rng, (3000, 2), np.float64) @ values(rng, (2, 6), np.float64)
    found = lapack.svdvals(a)
    if found is not NotImplemented:
        near(found, np.linalg.svd(a, compute_uv=False), 1e-12)
        assert (found[2:] < 1e-10).all()


@pytest.mark.parametrize("shape", [(1500, 3), (1500, 12), (40, 30)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_of_long_matrices(lapack, rng, shape, mode):
    a = values(rng, shape, np.float64)
    q, r = lapack.qr(a, mode)
    expected = np.linalg.qr(a, "complete" if mode == "complete" else "reduced")
    near(r, expected[1], 1e-12)
    assert r.flags.c_contiguous
    if mode == "r":
        assert q is None
    else:
        near(q @ r, a, 1e-12)
        near(q.T @ q, np.eye(q.shape[1]), 1e-12)
        assert q.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 2), (500, 7), (30, 1)])
def test_least_squares_of_long_matrices(lapack, rng, dtype, shape):
    a, b = values(rng, shape, dtype), values(rng, (shape[0], 3), dtype)
    given = a.copy(), b.copy()
    x, failed = lapack.least_squares(a, b)
    near(x, np.linalg.lstsq(a.astype(np.float64), b.astype(np.float64))[0], BOUNDS[dtype])
    assert (x.dtype, failed) == (a.dtype, 0)
    np.testing.assert_array_equal((a, b)[0], given[0])
    np.testing.assert_array_equal(b, given[1])


def test_least_squares_of_long_matrices_without_full_rank(lapack):
    a = np.zeros((40, 3))
    a[:, 0] = a[:, 2] = 1
    assert lapack.least_squares(a, np.ones((40, 1)))[1] == 2


def test_least_squares_of_large_elements_are_scaled(lapack, rng):
    a, b = values(rng, (40, 3), np.float32), values(rng, (40, 1), np.float32)
    large = np.float32(2.0 ** 124)
    expected = np.linalg.lstsq(a.astype(np.float64), b.astype(np.float64))[0]
    near(lapack.least_squares(a * large, b * large)[0], expected, BOUNDS["float32"])
