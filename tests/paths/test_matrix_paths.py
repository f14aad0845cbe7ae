"""Shortcuts of linear algebra for one matrix: the bits of the composition, for all shapes, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket as ts
import tensocket.linalg as la
from tensocket import dispatch

from . import rungs

pytestmark = pytest.mark.filterwarnings("ignore")


def _square(dtype: Any, size: int = 4) -> Any:
    ts.manual_seed(size)
    return ts.randn(size, size, dtype=dtype)


def _definite(dtype: Any) -> Any:
    a = _square(dtype)
    return a @ a.mT + ts.eye(4, dtype=dtype)


def _wide(dtype: Any) -> Any:
    ts.manual_seed(9)
    return ts.randn(3, 5, dtype=dtype)


def _factored(dtype: Any) -> tuple[Any, Any]:
    factors, swaps = la.lu_factor(_square(dtype))
    return factors, swaps


def _reflectors(dtype: Any) -> tuple[Any, Any]:
    ts.manual_seed(8)
    vectors, factors = ts.geqrf(ts.randn(5, 3, dtype=dtype))
    return vectors, factors


def _right(dtype: Any) -> Any:
    ts.manual_seed(7)
    return ts.randn(4, 2, dtype=dtype)


CALLS: dict[str, Callable[[Any], Any]] = {
    "linalg.svd": lambda t: la.svd(_wide(t)), "linalg.svd thin": lambda t: la.svd(_wide(t).mT, False),
    "linalg.svd empty": lambda t: la.svd(ts.zeros(0, 3, dtype=t)),
    "linalg.svd empty thin": lambda t: la.svd(ts.zeros(3, 0, dtype=t), False),
    "linalg.svd none": lambda t: la.svd(ts.zeros(0, 0, dtype=t)),
    "svd empty": lambda t: ts.svd(ts.zeros(4, 0, dtype=t), False), "svd": lambda t: ts.svd(_wide(t)),
    "linalg.svdvals": lambda t: la.svdvals(_wide(t)), "linalg.cond": lambda t: la.cond(_square(t)),
    "linalg.cond inverse": lambda t: la.cond(_wide(t), -2), "linalg.matrix_rank": lambda t: la.matrix_rank(_wide(t)),
    "linalg.matrix_rank number": lambda t: la.matrix_rank(_square(t), atol=1.0, rtol=0.2),
    "linalg.matrix_rank hermitian": lambda t: la.matrix_rank(_definite(t), hermitian=True),
    "linalg.pinv": lambda t: la.pinv(_wide(t)),
    "linalg.pinv hermitian": lambda t: la.pinv(_definite(t), hermitian=True),
    "pinverse": lambda t: ts.pinverse(_wide(t), 0.1), "linalg.eigh": lambda t: la.eigh(_definite(t)),
    "linalg.eigh upper": lambda t: la.eigh(_definite(t), "U"), "linalg.eigvalsh": lambda t: la.eigvalsh(_definite(t)),
    "linalg.eig": lambda t: la.eig(_square(t)), "linalg.eig real": lambda t: la.eig(_definite(t)),
    "linalg.eigvals": lambda t: la.eigvals(_square(t)), "linalg.qr": lambda t: la.qr(_wide(t)),
    "linalg.qr tall": lambda t: la.qr(_wide(t).mT), "linalg.qr complete": lambda t: la.qr(_wide(t).mT, "complete"),
    "qr": lambda t: ts.qr(_wide(t)), "geqrf": lambda t: ts.geqrf(_wide(t)),
    "linalg.cholesky": lambda t: la.cholesky(_definite(t)),
    "linalg.cholesky upper": lambda t: la.cholesky(_definite(t), upper=True),
    "cholesky": lambda t: ts.cholesky(_definite(t), True), "linalg.cholesky_ex": lambda t: la.cholesky_ex(_definite(t)),
    "linalg.cholesky_ex upper": lambda t: la.cholesky_ex(-_definite(t), upper=True),
    "linalg.inv": lambda t: la.inv(_square(t)), "inverse": lambda t: ts.inverse(_square(t)),
    "linalg.inv_ex": lambda t: la.inv_ex(_square(t)),
    "linalg.inv_ex singular": lambda t: la.inv_ex(ts.zeros(2, 2, dtype=t)),
    "linalg.det": lambda t: la.det(_square(t)), "det": lambda t: ts.det(_square(t)),
    "linalg.det empty": lambda t: la.det(ts.zeros(0, 0, dtype=t)),
    "linalg.slogdet": lambda t: la.slogdet(_square(t)),
    "slogdet": lambda t: ts.slogdet(_square(t)), "logdet": lambda t: ts.logdet(_definite(t)),
    "logdet negative": lambda t: ts.logdet(-_square(t, 3) @ _square(t, 3).mT),
    "linalg.solve": lambda t: la.solve(_square(t), _right(t)),
    "linalg.solve vector": lambda t: la.solve(_square(t), _right(t)[:, 0]),
    "linalg.solve_ex": lambda t: la.solve_ex(_square(t), _right(t)),
    "linalg.solve_triangular": lambda t: la.solve_triangular(_square(t), _right(t), upper=True),
    "linalg.solve_triangular column": lambda t: la.solve_triangular(_square(t), _right(t)[:, :1], upper=False,
                                                                    unitriangular=True),
    "triangular_solve": lambda t: ts.triangular_solve(_right(t), _square(t), False, True),
    "cholesky_solve": lambda t: ts.cholesky_solve(_right(t), la.cholesky(_definite(t))),
    "cholesky_solve upper": lambda t: ts.cholesky_solve(_right(t), _square(t), True),
    "cholesky_inverse": lambda t: ts.cholesky_inverse(la.cholesky(_definite(t))),
    "linalg.lu_factor": lambda t: la.lu_factor(_square(t)), "linalg.lu_factor_ex": lambda t: la.lu_factor_ex(_wide(t)),
    "linalg.lu_factor_ex plain": lambda t: la.lu_factor_ex(_wide(t), pivot=False),
    "linalg.lu": lambda t: la.lu(_wide(t)), "linalg.lu tall": lambda t: la.lu(_wide(t).mT),
    "lu": lambda t: ts.lu(_wide(t), True, True), "lu_unpack": lambda t: ts.lu_unpack(*_factored(t)),
    "linalg.lu_solve": lambda t: la.lu_solve(*_factored(t), _right(t)),
    "linalg.lu_solve adjoint": lambda t: la.lu_solve(*_factored(t), _right(t), adjoint=True),
    "lu_solve": lambda t: ts.lu_solve(_right(t), *_factored(t)),
    "linalg.ldl_factor": lambda t: la.ldl_factor(_definite(t)),
    "linalg.ldl_factor_ex": lambda t: la.ldl_factor_ex(_definite(t)),
    "linalg.householder_product": lambda t: la.householder_product(*_reflectors(t)),
    "orgqr": lambda t: ts.orgqr(*_reflectors(t)),
    "ormqr": lambda t: ts.ormqr(*_reflectors(t), _wide(t).mT, True, True),
    "linalg.lstsq": lambda t: la.lstsq(_wide(t).mT, _square(t, 5)), "linalg.lstsq cut": lambda t: la.lstsq(
        _wide(t), _square(t, 3), 0.3),
    "linalg.lstsq gels": lambda t: la.lstsq(_wide(t), _square(t, 3), driver="gels"),
    "linalg.matrix_power": lambda t: la.matrix_power(_square(t), 0),
}


@pytest.mark.parametrize("dtype", [ts.float32, ts.float64])
@pytest.mark.parametrize("name", CALLS)
def test_shortcuts_compute_the_bits_of_the_composition(name: str, dtype: Any) -> None:
    report, operator = rungs.Report(), name.partition(" ")[0].replace(".", "_")
    calls = [call for call in rungs.collected(report, lambda: CALLS[name](dtype)) if call.operator.name == operator]
    assert calls
    rungs.compare_call(calls[-1], report)
    assert report.compared["host kernel"]
    assert not report.differences
    last = [step for step in dispatch.explain(CALLS[name], dtype) if step.operator == operator][-1]
    assert last.path == "host kernel"


@pytest.mark.parametrize("run", [
    lambda: la.inv(ts.zeros(3, 3)), lambda: la.cholesky(-ts.eye(3)), lambda: la.solve(ts.zeros(3, 3), ts.ones(3)),
    lambda: la.svd(ts.full((2, 2), ts.inf)), lambda: la.eig(ts.full((2, 2), ts.nan)),
    lambda: la.lu_factor(ts.zeros(3, 3)), lambda: la.inv_ex(ts.zeros(2, 2), check_errors=True),
    lambda: ts.cholesky_inverse(ts.zeros(2, 2)), lambda: la.lstsq(
        ts.tensor([[1.0, 0.0], [1.0, 0.0]]), ts.ones(2, 1), driver="gels")])
def test_the_composition_raises_errors(run: Callable[[], Any]) -> None:
    with pytest.raises(la.LinAlgError):
        run()


def test_a_call_with_gradients_takes_the_composition() -> None:
    a = _square(ts.float64).requires_grad_()
    la.det(a).backward()
    assert ts.allclose(a.grad, la.det(a.detach()) * la.inv(a.detach()).mT)
