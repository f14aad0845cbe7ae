"""LAPACK on kept memory, for single small matrices, against NumPy, SciPy and the definitions in double precision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg

from tensocket_cpu.linear import blas
from tensocket_cpu.linear.batches import BatchCaller
from tensocket_cpu.linear.lapack import Lapack
from tensocket_cpu.linear.small_lapack import SmallLapack
from tensocket_cpu.linear.small_routines import is_small
from tensocket_cpu.linear.small_solvers import SmallSolvers
from tensocket_plugins.contract.errors import KernelError

BOUNDS = {"float32": 2e-5, "float64": 1e-12}
SHAPES = [(1, 1), (3, 5), (5, 3), (7, 7), (32, 32), (2, 500)]
SQUARES = [1, 2, 7, 23, 32]


@pytest.fixture
def library():
    found = blas.best_library()
    if found is None or not found.private:
        pytest.skip("the package scipy-openblas64 is not there")
    return found


@pytest.fixture
def small(device, library):
    return SmallLapack(library.address, BatchCaller(lambda: device.compiler))


@pytest.fixture
def solvers(device, library):
    return SmallSolvers(library.address, BatchCaller(lambda: device.compiler))


def values(rng, shape, dtype, order="C"):
    return np.asarray(rng.standard_normal(shape), dtype, order)


def near(x, y, dtype):
    np.testing.assert_allclose(x, y, rtol=0, atol=BOUNDS[dtype] * (1 + np.abs(y).max()))


def invertible(rng, size, dtype):
    return values(rng, (size, size), dtype) + size * np.eye(size, dtype=dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu(small, rng, shape, dtype, order):
    for _ in range(3):
        a = values(rng, shape, dtype, order)
        given = a.copy()
        factors, swaps, info = small.lu(a)
        expected, pivots = scipy.linalg.lapack.dgetrf(a.astype(np.float64))[:2]
        near(factors, expected, dtype)
        np.testing.assert_array_equal(swaps, pivots + 1)
        np.testing.assert_array_equal(a, given)
        assert (factors.dtype, swaps.dtype, info.dtype, info.shape, info.item()) == (a.dtype, np.int32, np.int32, (), 0)
        assert factors.flags.c_contiguous


def test_lu_reports_the_first_zero(small):
    assert small.lu(np.diag([1.0, 0.0, 2.0]))[2] == 2
    assert small.lu(np.eye(3))[2] == 0


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("size", SQUARES)
def test_ldl(small, rng, size, dtype):
    for _ in range(2):
        a = values(rng, (size, size), dtype)
        factors, swaps, info = small.ldl(a)
        expected, pivots, failed = scipy.linalg.lapack.dsytrf(np.tril(a).astype(np.float64), lower=1)
        near(factors, np.tril(expected), dtype)
        np.testing.assert_array_equal(swaps, pivots)
        assert info == failed == 0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_triangular_systems(solvers, rng, dtype, unit, upper, columns, order):
    for size in (1, 4, 9):
        a = np.asarray(invertible(rng, size, dtype), order=order)
        b = values(rng, (size, columns), dtype)
        given = b.copy()
        triangle = np.triu(a, 1) if upper else np.tril(a, -1)
        whole = triangle + (np.eye(size) if unit else np.diag(np.diagonal(a)))
        near(solvers.solve_triangular(a, b, upper, unit), np.linalg.solve(whole.astype(np.float64), b), dtype)
        np.testing.assert_array_equal(b, given)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("size", SQUARES)
def test_cholesky(small, rng, size, dtype):
    for _ in range(2):
        a = invertible(rng, size, dtype)
        a = a @ a.T
        lower = small.cholesky(a)
        near(lower, np.linalg.cholesky(a.astype(np.float64)), dtype)
        assert lower.dtype == a.dtype
        assert not np.triu(lower, 1).any()


def test_cholesky_refuses_indefinite_matrices(small):
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        small.cholesky(np.diag([1.0, -1.0]))
    near(small.cholesky(np.diag([4.0, 9.0])), np.diag([2.0, 3.0]), "float64")


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(small, rng, shape, dtype, mode):
    for _ in range(2):
        a = values(rng, shape, dtype)
        q, r = small.qr(a, mode)
        for found, expected in zip((q, r), np.linalg.qr(a.astype(np.float64), mode), strict=True):
            near(found, expected, dtype)
            assert found.shape == expected.shape
            assert found.dtype == a.dtype
            assert found.flags.c_contiguous


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(small, rng, shape, dtype):
    for _ in range(2):
        a = values(rng, shape, dtype)
        expected = np.linalg.svd(a.astype(np.float64), compute_uv=False)
        near(small.svd(a, "N")[1], expected, dtype)
        for job, full in (("A", True), ("S", False)):
            u, s, vh = small.svd(a, job)
            k, shapes = len(s), [x.shape for x in np.linalg.svd(a, full)]
            assert [x.shape for x in (u, s, vh)] == shapes
            assert {x.dtype for x in (u, s, vh)} == {a.dtype}
            near(s, expected, dtype)
            near(u[:, :k] * s @ vh[:k], a, dtype)
            near(u.T @ u, np.eye(u.shape[1]), dtype)
            near(vh @ vh.T, np.eye(len(vh)), dtype)


def test_results_are_not_the_kept_memory(small, solvers, rng):
    a = invertible(rng, 4, np.float64)
    results = [*small.lu(a), *small.ldl(a), solvers.solve_triangular(a, a, True, False), *small.qr(a, "reduced"),
               *small.svd(a, "A"), small.cholesky(a @ a.T)]
    copies = [x.copy() for x in results]
    b = invertible(rng, 4, np.float64)
    small.lu(b), small.ldl(b), solvers.solve_triangular(b, b, True, False), small.qr(b, "reduced")
    small.svd(b, "A"), small.cholesky(b @ b.T)
    for result, copy in zip(results, copies, strict=True):
        np.testing.assert_array_equal(result, copy)


def test_threads_do_not_share_memory(small, rng):
    matrices = [invertible(rng, 12, np.float64) for _ in range(8)]
    expected = [small.lu(a)[0] for a in matrices]

    def run(k):
        return all(np.array_equal(small.lu(matrices[k])[0], expected[k]) for _ in range(300))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(8)))


@pytest.mark.parametrize("matrix", [np.ones((2, 3, 3)), np.ones((0, 3)), np.ones((40, 40)), np.ones((3, 3), ">f8"),
                                    np.ones((3, 3), np.complex64), np.ones((3, 3), np.float16)])
def test_other_matrices_are_not_small(matrix):
    assert not is_small(matrix)


def test_a_batch_and_its_matrices_have_the_same_bits(device, library, rng):
    lapack = Lapack(library, BatchCaller(lambda: device.compiler))
    a, b = values(rng, (6, 5, 5), np.float32), values(rng, (6, 5, 2), np.float32)
    for found, each in zip(lapack.lu(a), zip(*map(lapack.lu, a), strict=True), strict=True):
        np.testing.assert_array_equal(found, np.stack(each))
    each = [lapack.solve_triangular(x, y, True, False) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(lapack.solve_triangular(a, b, True, False), np.stack(each))


def test_without_a_compiler_numpy_serves(library, rng):
    def refuse():
        raise KernelError("compile", "cpu", "LLVM cannot be loaded", "install llvmlite anew")

    lapack = Lapack(library, BatchCaller(refuse))
    a = invertible(rng, 4, np.float64)
    assert lapack.svd(a, True) is lapack.qr(a, "reduced") is lapack.cholesky(a @ a.T) is NotImplemented
    near(lapack.lu(a)[0], scipy.linalg.lapack.dgetrf(a)[0], "float64")
