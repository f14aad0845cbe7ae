"""Linear algebra and Fourier transforms of well-conditioned input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, same

#: For a handful of multiplications per row, and condition numbers of at most about ten.
_LOOSE = Tolerance(ulp=64.0, factor=256.0)
_FLOATS = ("f32", "f64")


def _largest(*arrays: Any) -> Any:
    return max(float(np.abs(x).max()) for x in arrays if isinstance(x, np.ndarray)) ** 2


def _matrix(*, symmetric: bool = False, right: int = 0) -> Maker:
    """Return matrices near a multiple of the identity, and with ``right`` a right-hand side."""
    def make(draw: Draw) -> Sample:
        values = draw.values((2, 5, 5), -0.5, 0.5) + 3 * np.eye(5)
        values = (values + values.swapaxes(-1, -2)) / 2 if symmetric else values
        given = Given(values.astype(draw.form.numpy), draw.form.short)
        return Sample((given, draw.given((2, 5, right)))) if right else Sample((given,))

    return make


def _record(name: str, call: Callable[..., Any], reference: Callable[..., Any], *, symmetric: bool = False,
            right: int = 0, scale: Callable[..., Any] = _largest, also: tuple[str, ...] = ()) -> Operator:
    return Operator(f"linalg.{name}", call, reference, {"prime#0": _matrix(symmetric=symmetric, right=right)}, _FLOATS,
                    same, _LOOSE, scale, also=also)


def _again(factors: Any) -> Any:
    """Multiply the factors: Q @ R or U @ S @ Vh."""
    return factors[0] @ factors[1] if len(factors) == 2 else (factors[0] * factors[1].unsqueeze(-2)) @ factors[2]


def _identity(x: HostArray) -> HostArray:
    return x


def _det_scale(x: HostArray) -> Any:
    return np.abs(np.linalg.det(x))


def _vectors(*shapes: tuple[int, ...]) -> Maker:
    return lambda draw: Sample(tuple(draw.given(shape) for shape in shapes))


def _sums(name: str, call: Callable[..., Any], reference: Callable[..., Any], *shapes: tuple[int, ...],
          dtypes: tuple[str, ...] = (*_FLOATS, "c64", "c128")) -> Operator:
    """Return an operator of sums of products."""
    def scale(*arrays: Any) -> Any:
        return math.prod(max(float(np.abs(x).max()), 1.0) for x in arrays) * max(x.size for x in arrays)

    return Operator(name, call, reference, {"prime#0": _vectors(*shapes)}, dtypes, same, _LOOSE, scale)


def _lu(x: Any) -> Any:
    p, lower, upper = ts.linalg.lu(x)
    return p @ lower @ upper


def _ldl_solve(a: Any, b: Any) -> Any:
    factors, pivots = ts.linalg.ldl_factor((a + a.mT) / 2)
    return ts.linalg.ldl_solve(factors, pivots, b)


def _from_reflectors(x: Any) -> Any:
    parts, factors = ts.geqrf(x)
    return ts.ormqr(parts, factors, parts.triu())


def _least_squares(a: HostArray, b: HostArray) -> HostArray:
    return np.asarray(np.linalg.pinv(a) @ b)


def _exponential(x: HostArray) -> HostArray:
    """Return the matrix exponential by the eigendecomposition of symmetric matrices."""
    values, vectors = np.linalg.eigh(x)
    return np.asarray((vectors * np.exp(values)[..., None, :]) @ vectors.swapaxes(-1, -2))


#: The records of this family.
OPERATORS = [
    _record("inv", ts.linalg.inv, np.linalg.inv),
    _record("solve", ts.linalg.solve, np.linalg.solve, right=3),
    _record("det", ts.linalg.det, np.linalg.det, scale=_det_scale),
    _record("cholesky", ts.linalg.cholesky, np.linalg.cholesky, symmetric=True),
    _record("qr", lambda x: _again(ts.linalg.qr(x)), _identity),
    _record("svd", lambda x: _again(ts.linalg.svd(x)), _identity),
    _record("svdvals", ts.linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False)),
    _record("eigvalsh", ts.linalg.eigvalsh, np.linalg.eigvalsh, symmetric=True),
    _record("pinv", ts.linalg.pinv, np.linalg.pinv),
    _record("fft", lambda x: ts.fft.irfft(ts.fft.rfft(x), n=5), _identity, also=("c64", "c128")),
    _record("lu", _lu, _identity),
    _record("lu_solve", lambda a, b: ts.lu_solve(b, *ts.linalg.lu_factor(a)), np.linalg.solve, right=3),
    _record("ldl_solve", _ldl_solve,
            lambda a, b: np.linalg.solve((a + a.swapaxes(-1, -2)) / 2, b), right=3),
    _record("cholesky_ex", lambda x: ts.linalg.cholesky_ex(x).L, np.linalg.cholesky, symmetric=True),
    _record("cholesky_solve", lambda a, b: ts.cholesky_solve(b, ts.tril(a)),
            lambda a, b: np.linalg.solve(np.tril(a) @ np.tril(a).swapaxes(-1, -2), b), right=3),
    _record("inv_ex", lambda x: ts.linalg.inv_ex(x).inverse, np.linalg.inv),
    _record("solve_ex", lambda a, b: ts.linalg.solve_ex(a, b).result, np.linalg.solve, right=3),
    _record("lstsq", lambda a, b: ts.linalg.lstsq(a[..., :3], b).solution,
            lambda a, b: _least_squares(a[..., :3], b), right=2),
    _record("reflectors", _from_reflectors, _identity),
    _record("matrix_exp", ts.linalg.matrix_exp, _exponential, symmetric=True,
            scale=lambda x: np.exp(np.abs(x).sum(-1).max()) * 5),
    _record("cond", ts.linalg.cond, np.linalg.cond),
    _sums("einsum", lambda a, b: ts.einsum("bij,bjk->ik", a, b), lambda a, b: np.einsum("bij,bjk->ik", a, b),
          (3, 5, 7), (3, 7, 2)),
    _sums("addbmm", ts.addbmm, lambda x, a, b: x + (a @ b).sum(0), (5, 2), (3, 5, 7), (3, 7, 2)),
    _sums("baddbmm", ts.baddbmm, lambda x, a, b: x + a @ b, (5, 2), (3, 5, 7), (3, 7, 2)),
    _sums("addmv", ts.addmv, lambda x, a, b: x + a @ b, (5,), (5, 7), (7,)),
    _sums("addr", ts.addr, lambda x, a, b: x + np.outer(a, b), (5, 7), (5,), (7,)),
    _sums("inner", ts.inner, np.inner, (5, 7), (3, 7)),
    _sums("kron", ts.kron, np.kron, (5, 3), (2, 7)),
    _sums("cov", ts.cov, np.cov, (5, 7)),
    _sums("trapezoid", ts.trapezoid, np.trapezoid, (5, 7), (7,), dtypes=_FLOATS),
]
