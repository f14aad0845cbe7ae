"""Linear algebra and Fourier transforms of well-conditioned input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, same

#: A handful of multiplications a row, and condition numbers of at most about ten.
_LOOSE = Tolerance(ulp=64.0, factor=256.0)
_FLOATS = ("f32", "f64")


def _largest(*arrays: Any) -> Any:
    return max(float(np.abs(x).max()) for x in arrays if isinstance(x, np.ndarray)) ** 2


def _matrix(*, symmetric: bool = False, right: int = 0) -> Maker:
    """Matrices near a multiple of the identity, and a right-hand side where asked for."""
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
    """Q @ R or U @ S @ Vh."""
    return factors[0] @ factors[1] if len(factors) == 2 else (factors[0] * factors[1].unsqueeze(-2)) @ factors[2]


def _identity(x: HostArray) -> HostArray:
    return x


def _det_scale(x: HostArray) -> Any:
    return np.abs(np.linalg.det(x))


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
]
