"""Small matrices: the recorded launches of LAPACK's routines against the first call and NumPy's and SciPy's results."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.differentiation.gradcheck import gradcheck
from tensocket_plugins.contract.errors import ArgumentError, LinAlgError

linalg = pytest.importorskip("scipy.linalg")

RNG = np.random.default_rng(8)
SQUARE = RNG.standard_normal((4, 4)) + 4 * np.eye(4)
SYMMETRIC = SQUARE @ SQUARE.T
LOWER = np.linalg.cholesky(SYMMETRIC)
TALL, WIDE = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 5))
RIGHT = RNG.standard_normal((4, 2))
BOUNDS = {np.float32: 2e-4, np.float64: 1e-10}
#: More calls than a recording needs.
CALLS = 12
REFLECTORS, FACTORS = linalg.qr(TALL, mode="raw")[0]


def joined(*matrices):
    """Return the product of tensors."""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = result @ matrix
    return result


#: By name: a function of tensors, one of arrays in double precision, and the operands.
CASES = {
    "cholesky": (f.linalg_cholesky, np.linalg.cholesky, [SYMMETRIC]),
    "cholesky_ex": (lambda x: f.linalg_cholesky_ex(x, upper=True).L, lambda x: np.linalg.cholesky(x).T, [SYMMETRIC]),
    "cholesky_solve": (lambda b, x: f.cholesky_solve(b, x), lambda b, x: np.linalg.solve(x @ x.T, b), [RIGHT, LOWER]),
    "cholesky_inverse": (lambda x: f.cholesky_inverse(x, True), lambda x: np.linalg.inv(x.T @ x), [LOWER.T.copy()]),
    "lu": (lambda x: joined(*f.linalg_lu(x)), lambda x: x, [TALL]),
    "lu_of_wide": (lambda x: f.linalg_lu(x).L, lambda x: linalg.lu(x)[1], [WIDE]),
    "lu_permutation": (lambda x: f.linalg_lu(x).P, lambda x: linalg.lu(x)[0], [SQUARE[::-1].copy()]),
    "lu_unpack": (lambda x: joined(*f.lu_unpack(*f.linalg_lu_factor(x))), lambda x: x, [SQUARE[[2, 3, 1, 0]]]),
    "lu_solve": (lambda x, b: f.linalg_lu_solve(*f.linalg_lu_factor(x), b), np.linalg.solve,
                 [SQUARE[::-1].copy(), RIGHT]),
    "lu_solve_adjoint": (lambda x, b: f.linalg_lu_solve(*f.linalg_lu_factor(x), b, adjoint=True),
                         lambda x, b: np.linalg.solve(x.T, b), [SQUARE[::-1].copy(), RIGHT]),
    "ldl": (lambda x, b: f.linalg_ldl_solve(*f.linalg_ldl_factor(x), b), np.linalg.solve, [SYMMETRIC, RIGHT]),
    "solve": (f.linalg_solve, np.linalg.solve, [SQUARE, RIGHT]),
    "solve_ex": (lambda x, b: f.linalg_solve_ex(x, b).result, np.linalg.solve, [SQUARE, RIGHT]),
    "solve_triangular": (lambda x, b: f.linalg_solve_triangular(x, b, upper=False), np.linalg.solve, [LOWER, RIGHT]),
    "triangular_solve": (lambda b, x: f.triangular_solve(b, x, False, True)[0], lambda b, x: np.linalg.solve(x.T, b),
                         [RIGHT, LOWER]),
    "inv": (f.linalg_inv, np.linalg.inv, [SQUARE]),
    "qr": (lambda x: joined(*f.linalg_qr(x)), lambda x: x, [TALL]),
    "qr_complete": (lambda x: f.linalg_qr(x, "complete").R.abs(), lambda x: np.abs(np.linalg.qr(x, "complete")[1]),
                    [TALL]),
    "geqrf": (lambda x: f.geqrf(x)[0], lambda x: linalg.qr(x, mode="raw")[0][0], [TALL]),
    "householder_product": (f.linalg_householder_product, lambda v, tau: np.linalg.qr(TALL)[0], [REFLECTORS, FACTORS]),
    "ormqr": (lambda v, tau, x: f.ormqr(v, tau, x, True, True)[:3], lambda v, tau, x: np.linalg.qr(TALL)[0].T @ x,
              [REFLECTORS, FACTORS, TALL]),
    "svd": (lambda x: (lambda u, s, vh: (u * s) @ vh)(*f.linalg_svd(x, False)), lambda x: x, [WIDE]),
    "svdvals": (f.linalg_svdvals, lambda x: np.linalg.svd(x, compute_uv=False), [TALL]),
    "eigh": (lambda x: (lambda w, v: (v * w) @ v.mT)(*f.linalg_eigh(x)), lambda x: x, [SYMMETRIC]),
    "eigvalsh": (f.linalg_eigvalsh, np.linalg.eigvalsh, [SYMMETRIC]),
    "pinv": (f.linalg_pinv, np.linalg.pinv, [TALL]),
    "pinv_of_wide": (f.linalg_pinv, np.linalg.pinv, [WIDE]),
    "pinv_hermitian": (lambda x: f.linalg_pinv(x, hermitian=True), np.linalg.inv, [SYMMETRIC]),
    "pinv_low_rank": (lambda x: f.linalg_pinv(x, atol=1e-3), np.linalg.pinv, [np.outer(TALL[:, 0], WIDE[0])]),
    "lstsq": (lambda x, b: f.linalg_lstsq(x, b).solution, lambda x, b: np.linalg.lstsq(x, b)[0], [TALL, TALL[:, :2]]),
    "lstsq_gels": (lambda x, b: f.linalg_lstsq(x, b, driver="gels").solution, lambda x, b: np.linalg.lstsq(x, b)[0],
                   [WIDE, RIGHT[:3].copy()]),
}


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", CASES)
def test_recorded_calls(name, dtype):
    function, reference, operands = CASES[name]
    given = [tc.tensor(np.ascontiguousarray(x, dtype)) for x in operands]
    expected = reference(*operands)
    first = function(*given)
    for _ in range(CALLS):
        found = function(*given)
        assert found.tolist() == first.tolist()
    np.testing.assert_allclose(np.array(found.tolist()), expected, 0, BOUNDS[dtype] * max(1, np.abs(expected).max()))
    halves = [x * 0.5 if x.dtype.kind == "float" else x for x in given]
    assert [x.tolist() for x in given] == [np.asarray(x, dtype).tolist() for x in operands]
    function(*halves)
    assert found.tolist() == first.tolist()  # results do not share the memory of later ones


def warmed(function, *operands):
    """Return a function after calls on operands that a factorisation accepts."""
    for _ in range(CALLS):
        function(*[tc.tensor(x) for x in operands])
    return function


@pytest.mark.parametrize(("function", "good", "bad"), [
    (f.linalg_cholesky, SYMMETRIC, -SYMMETRIC),
    (f.linalg_svd, SQUARE, np.where(np.eye(4) > 0, np.nan, SQUARE)),
    (f.linalg_svdvals, SQUARE, np.where(np.eye(4) > 0, np.inf, SQUARE)),
    (f.linalg_lu_factor, SQUARE, np.zeros((4, 4))),
    (f.linalg_inv, SQUARE, np.zeros((4, 4))),
    (f.linalg_pinv, SQUARE, np.full((4, 4), np.inf)),
    (lambda x: f.linalg_lstsq(x, x, driver="gels"), SQUARE, np.diag([1.0, 0.0, 0.0, 0.0])),
    (lambda x: f.linalg_lstsq(x, x, driver="gels"), SQUARE, np.full((4, 4), np.inf)),
    (f.cholesky_inverse, LOWER, np.zeros((4, 4)))])
def test_recorded_calls_report_failures(function, good, bad):
    function = warmed(function, good)
    with pytest.raises(LinAlgError):
        function(tc.tensor(bad))
    function(tc.tensor(good))


@pytest.mark.parametrize("swap", [0, -3, 5, 1 << 20])
def test_recorded_calls_refuse_impossible_exchanges(swap):
    factors, pivots = f.linalg_lu_factor(tc.tensor(SQUARE))
    right, wrong = tc.tensor(RIGHT), tc.tensor([swap, 2, 3, 4], dtype=tc.int32)
    for function in (lambda p: f.linalg_lu_solve(factors, p, right), lambda p: f.lu_unpack(factors, p)):
        for _ in range(CALLS):
            function(pivots)
        with pytest.raises(ArgumentError):
            function(wrong)


def test_what_failed_is_reported_after_recordings():
    for _ in range(CALLS):
        assert f.linalg_cholesky_ex(tc.tensor(SYMMETRIC)).info.item() == 0
    assert f.linalg_cholesky_ex(tc.tensor([[1.0, 2.0], [2.0, 1.0]])).info.item() == 2
    for _ in range(CALLS):
        assert f.linalg_solve_ex(tc.tensor(SQUARE), tc.tensor(RIGHT)).info.item() == 0
    result, info = f.linalg_solve_ex(tc.zeros((4, 4), dtype=tc.float64), tc.tensor(RIGHT))
    assert info.item() == 1
    assert result.isnan().all().item()


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_gradients_of_solutions_from_factors(left, adjoint):
    factors, pivots = f.linalg_lu_factor(tc.tensor(SQUARE[::-1].copy()))
    right = tc.tensor(RIGHT if left else RIGHT.T.copy(), requires_grad=True)
    assert gradcheck(lambda a, b: f.linalg_lu_solve(a, pivots, b, left=left, adjoint=adjoint),
                     (factors.detach().requires_grad_(), right))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("factors", [FACTORS, np.array([0.3, 0.0, 1.7])])
def test_gradients_of_reflectors(factors, turned):
    """Also for factors that do not make a product orthogonal, and that are zero."""
    operands = [tc.tensor(np.ascontiguousarray(x), requires_grad=True) for x in (REFLECTORS, factors, TALL)]
    assert gradcheck(lambda v, tau, x: f.ormqr(v, tau, x, True, turned), operands)
    assert gradcheck(f.linalg_householder_product, operands[:2])


def test_gradients_that_are_replayed():
    x, b = tc.tensor(SQUARE, requires_grad=True), tc.tensor(RIGHT, requires_grad=True)
    inverse = np.linalg.inv(SQUARE).T
    for _ in range(80):
        x.grad = b.grad = None
        f.linalg_solve(x, b).sum().backward()
        back = inverse @ np.ones((4, 2))
        np.testing.assert_allclose(np.array(b.grad.tolist()), back, 1e-10)
        np.testing.assert_allclose(np.array(x.grad.tolist()), -back @ np.linalg.solve(SQUARE, RIGHT).T, 1e-9)


def test_results_have_names_in_every_call():
    x = tc.tensor(SQUARE)
    for _ in range(CALLS):
        assert f.linalg_svd(x).S.shape == f.linalg_eigh(x).eigenvalues.shape == (4,)
        assert type(f.lu(x)) is tuple
        assert f.nanmedian(x).shape == ()  # a tensor, or results with names
        assert f.nanmedian(x, 1).indices.shape == (4,)
