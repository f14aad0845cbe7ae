"""Factorisations, solvers and functions of matrices against NumPy and SciPy, with gradients and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.differentiation.gradcheck import gradcheck, gradgradcheck
from tensocket_operators.transforms import vmap
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, LinAlgError, ShapeError

linalg = pytest.importorskip("scipy.linalg")

pytestmark = pytest.mark.usefixtures("place")
RNG = np.random.default_rng(3)
SQUARE = RNG.normal(size=(2, 4, 4))
TALL = RNG.normal(size=(2, 5, 3))
WIDE = TALL.transpose(0, 2, 1).copy()
POSITIVE = SQUARE @ SQUARE.transpose(0, 2, 1) + np.eye(4)
RIGHT = RNG.normal(size=(2, 4, 3))
COMPLEX = SQUARE + 1j * RNG.normal(size=(2, 4, 4))
LOW = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])


def host(tensor):
    return np.array(tensor.detach().tolist()).reshape(tuple(tensor.shape))


def same(tensor, reference):
    np.testing.assert_allclose(host(tensor), reference, 1e-9, 1e-10)


def t(array, grad=False):
    return tc.tensor(np.ascontiguousarray(array), requires_grad=grad)


def test_cholesky_with_info():
    lower, info = f.linalg_cholesky_ex(t(POSITIVE))
    same(lower, np.linalg.cholesky(POSITIVE))
    assert info.tolist() == [0, 0]
    assert info.dtype is tc.int32
    same(f.linalg_cholesky_ex(t(POSITIVE), upper=True).L, np.linalg.cholesky(POSITIVE).transpose(0, 2, 1))
    assert f.linalg_cholesky_ex(tc.tensor([[1.0, 2.0], [2.0, 1.0]])).info.item() == 2
    same(f.cholesky(t(POSITIVE)), np.linalg.cholesky(POSITIVE))
    factor = t(np.linalg.cholesky(POSITIVE))
    same(f.cholesky_solve(t(RIGHT), factor), np.linalg.solve(POSITIVE, RIGHT))
    same(f.cholesky_solve(t(RIGHT), factor.mT, upper=True), np.linalg.solve(POSITIVE, RIGHT))
    same(f.cholesky_inverse(factor), np.linalg.inv(POSITIVE))


@pytest.mark.parametrize("a", [SQUARE, TALL, WIDE, COMPLEX, LOW[None]])
def test_lu(a):
    rows, columns = a.shape[-2:]
    inner = min(rows, columns)
    p, lower, upper = f.linalg_lu(t(a))
    same(p.to(lower.dtype) @ lower @ upper, a)
    expected = [linalg.lu(x) for x in a]
    same(lower, np.stack([x[1] for x in expected]))
    same(upper, np.stack([x[2] for x in expected]))
    factors, pivots, info = f.linalg_lu_factor_ex(t(a))
    assert pivots.shape == (*a.shape[:-2], inner)
    assert info.tolist() == ([3] if len(a) == 1 else [0, 0])
    p, lower, upper = f.lu_unpack(factors, pivots)
    same(p @ lower @ upper, a)
    assert [x.shape for x in f.lu_unpack(factors, pivots, unpack_data=False)[1:]] == [(0,), (0,)]
    assert f.lu_unpack(factors, pivots, unpack_pivots=False)[0].shape == (0,)
    assert len(f.lu(t(a), get_infos=True)) == 3
    dominant = a[..., :inner, :inner] + 9 * np.eye(inner)
    p, lower, upper = f.linalg_lu(t(dominant), pivot=False)
    assert p.shape == (0,)
    same(lower @ upper, dominant)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_solutions_from_factors(left, adjoint):
    right = COMPLEX[:, :3] if not left else COMPLEX[:, :, :3]
    factors, pivots = f.linalg_lu_factor(t(COMPLEX))
    a = COMPLEX.conj().transpose(0, 2, 1) if adjoint else COMPLEX
    expected = np.linalg.solve(a, right) if left else np.linalg.solve(
        a.transpose(0, 2, 1), right.transpose(0, 2, 1)).transpose(0, 2, 1)
    same(f.linalg_lu_solve(factors, pivots, t(right), left=left, adjoint=adjoint), expected)
    if left and not adjoint:
        same(f.lu_solve(t(right), factors, pivots), expected)
        solution, copy = f.triangular_solve(t(right), t(COMPLEX), upper=False, transpose=True)
        same(copy, COMPLEX)
        same(solution, np.linalg.solve(np.tril(COMPLEX.transpose(0, 2, 1).swapaxes(1, 2)).swapaxes(1, 2), right))


@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(hermitian):
    a = COMPLEX + (COMPLEX.conj() if hermitian else COMPLEX).transpose(0, 2, 1)
    factors, pivots = f.linalg_ldl_factor(t(a), hermitian=hermitian)
    right = t(COMPLEX[:, :, :2], grad=True)
    got = f.linalg_ldl_solve(factors, pivots, right, hermitian=hermitian)
    same(got, np.linalg.solve(a, COMPLEX[:, :, :2]))
    real = t(POSITIVE)
    saddle = np.array([[0.0, 1.0], [1.0, 0.0]])  # has a block of two rows
    same(f.linalg_ldl_solve(*f.linalg_ldl_factor(t(saddle)), t(np.eye(2))), saddle)
    ex = f.linalg_ldl_factor_ex(real)
    assert ex.info.tolist() == [0, 0]
    same(f.linalg_ldl_solve(ex.LD, ex.pivots, t(RIGHT)), np.linalg.solve(POSITIVE, RIGHT))
    got.abs().sum().backward()
    assert right.grad.shape == right.shape


@pytest.mark.parametrize("a", [SQUARE, TALL, COMPLEX])
def test_reflectors(a):
    parts, scales = f.geqrf(t(a))
    q, r = np.linalg.qr(a)
    same(parts.triu()[:, : a.shape[-1]], r)
    same(f.linalg_householder_product(parts, scales), q)
    same(f.orgqr(parts, scales), q)
    whole = np.linalg.qr(a, "complete")[0]
    other = RNG.normal(size=(2, a.shape[-2], 2)).astype(a.dtype)
    same(f.ormqr(parts, scales, t(other)), whole @ other)
    same(f.ormqr(parts, scales, t(other), transpose=True), whole.conj().transpose(0, 2, 1) @ other)
    flat = other.transpose(0, 2, 1)
    same(f.ormqr(parts, scales, t(flat), left=False), flat @ whole)


def test_inverses_and_solutions_with_info():
    result, info = f.linalg_inv_ex(t(SQUARE))
    same(result, np.linalg.inv(SQUARE))
    assert info.tolist() == [0, 0]
    same(f.linalg_solve_ex(t(SQUARE), t(RIGHT)).result, np.linalg.solve(SQUARE, RIGHT))
    same(f.linalg_solve_ex(t(SQUARE), t(RIGHT.transpose(0, 2, 1)), left=False).result,
         np.linalg.solve(SQUARE.transpose(0, 2, 1), RIGHT).transpose(0, 2, 1))
    vector = f.linalg_solve_ex(t(SQUARE[0]), t(RIGHT[0, :, 0]))
    same(vector.result, np.linalg.solve(SQUARE[0], RIGHT[0, :, 0]))
    assert f.linalg_inv_ex(t(LOW)).info.item() == 3
    assert f.linalg_inv_ex(t(LOW)).inverse.isnan().all()


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("a", [SQUARE, TALL, WIDE])
def test_least_squares(a, driver):
    right = RNG.normal(size=(2, a.shape[-2], 2))
    found, residuals, rank, values = f.linalg_lstsq(t(a), t(right), driver=driver)
    expected = np.stack([np.linalg.lstsq(x, y)[0] for x, y in zip(a, right, strict=True)])
    same(found, expected)
    if driver in ("gelsd", "gelss"):
        same(values, np.linalg.svd(a, compute_uv=False))
    else:
        assert values.shape == (0,)
    assert rank.tolist() == ([] if driver == "gels" else [min(a.shape[1:])] * 2)
    if a is TALL and driver in ("gels", "gelsd", "gelss"):
        same(residuals, ((a @ expected - right) ** 2).sum(1))
    else:
        assert residuals.shape == (0,)


def test_tensors_as_matrices():
    a = RNG.normal(size=(2, 3, 6))
    same(f.linalg_tensorinv(t(a), ind=2), np.linalg.tensorinv(a, 2))
    b = RNG.normal(size=(2, 3))
    same(f.linalg_tensorsolve(t(a), t(b)), np.linalg.tensorsolve(a, b))
    moved = a.transpose(2, 0, 1).copy()
    same(f.linalg_tensorsolve(t(moved), t(b), dims=(0,)), np.linalg.tensorsolve(a, b))


@pytest.mark.parametrize("size", [0.1, 1.0, 20.0])
def test_exponentials(size):
    for a in (SQUARE, COMPLEX, POSITIVE):
        scaled = a * (size / np.abs(a).sum(1).max())
        np.testing.assert_allclose(host(f.linalg_matrix_exp(t(scaled))), linalg.expm(scaled), 1e-9, 1e-9)
    assert f.matrix_exp(tc.zeros(0, 0)).shape == (0, 0)
    assert f.matrix_exp(tc.zeros(2, 2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc"])
def test_condition_numbers(p):
    same(f.linalg_cond(t(SQUARE), p), np.linalg.cond(SQUARE, p))
    if p in (1, "fro"):
        assert math.isinf(f.linalg_cond(tc.zeros(2, 2), p).item())
    assert f.linalg_cond(tc.zeros(0, 0)).item() == 0


def test_older_names():
    same(f.logdet(t(POSITIVE)), np.linalg.slogdet(POSITIVE)[1])
    assert math.isnan(f.logdet(-tc.eye(3)).item())
    same(f.logdet(t(COMPLEX)).exp(), np.linalg.det(COMPLEX))
    same(f.slogdet(t(SQUARE))[0], np.linalg.slogdet(SQUARE)[0])
    same(t(SQUARE).matrix_power(3), np.linalg.matrix_power(SQUARE, 3))
    same(f.pinverse(t(TALL)), np.linalg.pinv(TALL))
    q, r = f.qr(t(TALL), some=False)
    assert q.shape == (2, 5, 5)
    same(q @ r, TALL)
    u, s, v = f.svd(t(TALL))
    same((u * s.unsqueeze(-2)) @ v.mT, TALL)
    u, s, v = f.svd(t(TALL), compute_uv=False)
    assert not u.any()
    assert not v.any()
    same(s, np.linalg.svd(TALL, compute_uv=False))
    same(f.norm(t(TALL)), np.linalg.norm(TALL.ravel()))
    same(f.norm(t(TALL), 3, (1, 2), True), (np.abs(TALL) ** 3).sum((1, 2), keepdims=True) ** (1 / 3))
    same(t(TALL).norm("nuc", dim=(1, 2)), np.linalg.norm(TALL, "nuc", (1, 2)))
    assert f.norm(tc.tensor([3.0, 4.0]), dtype=tc.float64).dtype is tc.float64
    assert f.linalg_norm(tc.zeros(0, 3), math.inf).item() == 0


def test_approximations_of_low_rank():
    low = RNG.normal(size=(2, 7, 2)) @ RNG.normal(size=(2, 2, 5))
    u, s, v = f.svd_lowrank(t(low), q=3)
    same((u * s.unsqueeze(-2)) @ v.mT, low)
    same(s[:, :2], np.linalg.svd(low, compute_uv=False)[:, :2])
    shift = np.ones((2, 7, 5))
    u, s, v = f.svd_lowrank(t(low + 1), q=3, M=t(shift))
    same((u * s.unsqueeze(-2)) @ v.mT, low)
    u, s, v = f.pca_lowrank(t(low), q=3)
    same((u * s.unsqueeze(-2)) @ v.mT, low - low.mean(1, keepdims=True))


GRADIENTS = [
    (lambda a: f.linalg_cholesky_ex(a @ a.mT + tc.eye(2, dtype=tc.float64)).L, [(2, 2)]),
    (lambda a: f.linalg_lu(a)[1:], [(2, 2)]), (lambda a: f.linalg_lu(a)[1:], [(3, 2)]),
    (lambda a: f.linalg_lu(a)[1:], [(2, 3)]), (lambda a: f.linalg_inv_ex(a).inverse, [(2, 2)]),
    (lambda a, b: f.linalg_solve_ex(a, b).result, [(2, 2), (2, 1)]),
    (lambda a, b: f.lu_solve(b, *f.linalg_lu_factor(a)), [(2, 2), (2, 1)]),
    (f.linalg_householder_product, [(3, 2), (2,)]), (lambda a, x, c: f.ormqr(a, x, c, True, True),
                                                     [(3, 2), (2,), (3, 1)]),
    (lambda a, b: f.linalg_lstsq(a, b).solution, [(3, 2), (3, 1)]),
    (lambda a, b: f.linalg_lstsq(a, b).solution, [(2, 3), (2, 1)]),
    (f.linalg_matrix_exp, [(2, 2)]), (f.linalg_cond, [(2, 2)]), (lambda a: f.logdet(a @ a.mT), [(2, 2)]),
    (lambda a: f.linalg_vector_norm(a, 3, 1), [(2, 2)]), (lambda a: f.svd(a)[1], [(3, 2)]),
]


@pytest.mark.parametrize(("function", "shapes"), GRADIENTS)
def test_gradients_and_theirs(function, shapes, place):
    if place == "ref":
        pytest.skip("the same formulas; once is enough")
    rng = np.random.default_rng(8)
    for kind in (np.float64, np.complex128):
        arrays = [rng.normal(size=s) + (0 if kind is np.float64 else 1j * rng.normal(size=s)) for s in shapes]
        if kind is np.complex128 and function in (GRADIENTS[0][0], GRADIENTS[13][0]):
            continue
        inputs = tuple(t(x.astype(kind), grad=True) for x in arrays)
        assert gradcheck(function, inputs)
        if kind is np.float64:
            assert gradgradcheck(function, inputs)


def test_batches():
    square, right = t(SQUARE), t(RIGHT)
    same(vmap(lambda a: f.linalg_inv_ex(a).inverse)(square), np.linalg.inv(SQUARE))
    same(vmap(lambda a, b: f.lu_solve(b, *f.lu(a)))(square, right), np.linalg.solve(SQUARE, RIGHT))
    same(vmap(lambda a: f.linalg_householder_product(*f.geqrf(a)))(square), np.linalg.qr(SQUARE)[0])
    same(vmap(f.linalg_matrix_exp)(square), linalg.expm(SQUARE))


def test_shapes_without_data():
    a = tc.ones(2, 4, 3, device="meta")
    factors, pivots, info = f.linalg_lu_factor_ex(a)
    assert [(x.shape, x.dtype) for x in (factors, pivots, info)] == [
        ((2, 4, 3), tc.float32), ((2, 3), tc.int32), ((2,), tc.int32)]
    assert [x.shape for x in f.geqrf(a)] == [(2, 4, 3), (2, 3)]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: f.linalg_cholesky_ex(-tc.eye(2), check_errors=True), LinAlgError,
     "a matrix whose leading minor is not positive definite at position 1 — a factorisation exists for every matrix of "
     "the batch"),
    (lambda: f.linalg_lu_factor(t(LOW)), LinAlgError, "U has a zero on its diagonal at position 3"),
    (lambda: f.linalg_lu_factor_ex(t(LOW), check_errors=True), LinAlgError, "linalg.lu_factor_ex"),
    (lambda: f.linalg_inv_ex(t(LOW), check_errors=True), LinAlgError, "linalg.inv_ex"),
    (lambda: f.linalg_solve_ex(t(LOW), tc.ones(3, dtype=tc.float64), check_errors=True), LinAlgError, "solve_ex"),
    (lambda: f.linalg_ldl_factor(tc.zeros(2, 2)), LinAlgError, "D has a zero block"),
    (lambda: f.linalg_ldl_factor_ex(tc.zeros(2, 2), check_errors=True), LinAlgError, "D has a zero block"),
    (lambda: f.linalg_householder_product(tc.ones(2, 3), tc.ones(2)), ShapeError,
     "there are at least as many rows as columns"),
    (lambda: f.ormqr(tc.ones(3, 2), tc.ones(3), tc.ones(3, 2)), ShapeError,
     "there are at most as many factors as rows and columns"),
    (lambda: f.ormqr(tc.ones(3, 2), tc.ones(2), tc.ones(2, 2)), ShapeError,
     r"other has as many rows \(from the right: columns\) as the reflectors"),
    (lambda: f.linalg_solve_ex(tc.eye(3), tc.ones(2, 2)), ShapeError, "B has as many rows as A"),
    (lambda: f.linalg_lu_solve(tc.eye(3), tc.ones(3, dtype=tc.int32), tc.ones(2, 2)), ShapeError,
     r"B has as many rows \(from the right: columns\) as the factors"),
    (lambda: f.linalg_ldl_solve(tc.eye(3), tc.ones(3, dtype=tc.int32), tc.ones(2, 2)), ShapeError,
     "B has as many rows as the factors, and there is a pivot for each"),
    (lambda: f.linalg_ldl_solve(tc.eye(2), tc.tensor([1, -2], dtype=tc.int32), tc.ones(2, 2)), ArgumentError,
     "pivots are exchanges of rows from 1, as the factorisation returns them"),
    (lambda: f.lu_unpack(tc.eye(2), tc.tensor([1, 3], dtype=tc.int32)), ArgumentError, "pivots are exchanges of rows"),
    (lambda: f.lu_unpack(tc.eye(2), tc.tensor([1], dtype=tc.int32)), ShapeError,
     "there is a pivot for every row that may be exchanged"),
    (lambda: f.linalg_lstsq(tc.ones(3, 2), tc.ones(3, 2), driver="x"), ArgumentError,
     "the driver is 'gels', 'gelsy', 'gelsd' or 'gelss'"),
    (lambda: f.linalg_lstsq(tc.ones(3, 2), tc.ones(2)), ShapeError, "B has as many rows as A"),
    (lambda: f.linalg_tensorinv(tc.ones(2, 3, 6), 0), ArgumentError, "ind is positive"),
    (lambda: f.linalg_tensorinv(tc.ones(2, 3, 5)), ShapeError, "both groups of dimensions have as many elements"),
    (lambda: f.linalg_tensorsolve(tc.ones(2, 3, 5), tc.ones(2, 2)), ShapeError,
     "A is a square matrix with B's elements as rows"),
    (lambda: f.matrix_exp(tc.ones(2, 2, dtype=tc.int32)), DtypeError, "elements are floats or complex numbers"),
    (lambda: f.linalg_cond(tc.eye(2), "x"), ArgumentError,
     "the order is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2"),
    (lambda: f.norm(tc.eye(2), "x"), ArgumentError, "the order is a number, 'fro' or 'nuc'"),
    (lambda: f.norm(tc.ones(2), "nuc"), ShapeError, "the nuclear norm is one of matrices"),
    (lambda: f.linalg_vector_norm(tc.ones(0), math.inf), ShapeError, "no elements have no extreme value"),
    (lambda: f.pca_lowrank(tc.ones(3, 2), q=3), ArgumentError,
     "q is at most the smaller size, and niter is not negative"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [
    "svd", "linalg_svd", "linalg_svdvals", "linalg_pinv", "linalg_matrix_rank", "linalg_cond"])
def test_singular_values_of_what_is_not_finite_are_refused(name: str, value: float) -> None:
    matrices = np.ones((4, 5, 4), np.float32)
    matrices[2, 1, 3] = value  # LAPACK's iteration never ends with some of these
    with pytest.raises(LinAlgError, match="an element is not finite"):
        getattr(f, name)(tc.tensor(matrices))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss"])
def test_least_squares_of_what_is_not_finite_are_refused(driver: str, value: float) -> None:
    matrices = np.sin(np.arange(24, dtype=np.float32)).reshape(2, 4, 3)
    matrices[1, 1, 1] = value
    message = (r"\[linalg.lstsq\] an element is not finite — "
               "infinities and NaN have no such decomposition or inverse — "
               r"replace them, as torch.nan_to_num\(\) does")
    with pytest.raises(LinAlgError, match=message):
        f.linalg_lstsq(tc.tensor(matrices), tc.ones(2, 4, 1), driver=driver)


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (3, 4)])
def test_least_squares_without_full_rank(rows: int, columns: int) -> None:
    matrix = np.sin(np.arange(rows * columns)).reshape(rows, columns)
    matrix[(1,) if rows < columns else (slice(None), 1)] = 0
    with pytest.raises(LinAlgError, match=r"\[linalg.lstsq\] .* does not have full rank \(error code: 2\)"):
        f.linalg_lstsq(tc.tensor(matrix), tc.ones(rows, 1, dtype=tc.float64), driver="gels")
    found = f.linalg_lstsq(tc.tensor(matrix), tc.ones(rows, 1, dtype=tc.float64), driver="gelsd").solution
    same(found, np.linalg.lstsq(matrix, np.ones((rows, 1)))[0])
