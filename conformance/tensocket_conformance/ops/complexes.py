"""Complex numbers: parts, conjugates, magnitudes and angles; also shifts, which only integers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, kinds, magnitude, same
from .layouts import Domain, pointwise_samples

_DOMAIN = Domain(((-4.0, 4.0),))
_TWO = Domain(((-4.0, 4.0),) * 2)


def _unary(name: str, call: Callable[..., Any], reference: Callable[..., Any],
           result: Callable[[str], str] = same, ulp: float = 0.0) -> Operator:
    return Operator(name, call, reference, pointwise_samples(_DOMAIN), kinds("c"), result, Tolerance(ulp))


def _view(name: str, call: Callable[..., Any], reference: Callable[..., Any], dtypes: tuple[str, ...],
          result: Callable[[str], str], shape: tuple[int, ...] = (7, 13)) -> Operator:
    """Return an operator that views the same elements as another type."""
    def make(layout: str) -> Maker:
        return lambda draw: Sample((draw.given(shape, layout),))

    layouts = ("plain", "offset") if shape[-1] == 2 else ("plain", "transposed", "offset", "step")
    names = {"plain": "prime#0", "transposed": "transposed#0", "offset": "offset#0", "step": "step#0"}
    return Operator(name, call, reference, {names[layout]: make(layout) for layout in layouts}, dtypes, result)


def _write_imag(x: Any) -> Any:
    written = x.clone()
    written.imag = written.real * 2
    return written


def _joined(short: str) -> str:
    return {"f32": "c64", "f64": "c128"}[short]


def _pairs(x: HostArray) -> HostArray:
    return np.stack([x.real, x.imag], -1)


def _power_samples() -> dict[str, Maker]:
    def number(draw: Draw) -> Sample:
        return Sample((draw.given((6, 11), "transposed"), 2 - 1j))

    return {**pointwise_samples(_TWO), "number#0": number}


def _shift_samples() -> dict[str, Maker]:
    def make(draw: Draw) -> Sample:
        info = np.iinfo(draw.form.numpy)
        values = draw.rng.integers(info.min, info.max, (7, 13), dtype=draw.form.numpy, endpoint=True)
        counts = draw.rng.integers(0, info.bits, (13,)).astype(draw.form.numpy)
        return Sample((Given(values, draw.form.short), Given(counts, draw.form.short)))

    return {"prime#0": make, "values#0": lambda draw: Sample((draw.given((31,), "step"), 3))}


#: The records of this family.
OPERATORS = [
    _unary("conj", lambda x: x.conj(), np.conj),
    _unary("complex.abs", lambda x: x.abs(), np.abs, magnitude, 2.0),
    _unary("angle", lambda x: ts.angle(x), np.angle, magnitude, 2.0),
    _unary("sgn", lambda x: ts.sgn(x), lambda x: x / np.abs(x), same, 2.0),
    Operator("complex.pow", ts.pow, np.power, _power_samples(), kinds("c"), same, Tolerance(4.0, 8.0),
             lambda x, y: np.abs(np.power(x, y)) * (1 + np.abs(y * np.log(x)))),
    _view("real", lambda x: x.real, np.real, kinds("c"), magnitude),
    _view("imag", lambda x: x.imag, np.imag, kinds("c"), magnitude),
    _view("imag.set", _write_imag, lambda x: x.real + 2j * x.real, kinds("c"), same),
    _view("view_as_real", lambda x: ts.view_as_real(x), _pairs, kinds("c"), magnitude),
    _view("view_as_complex", lambda x: ts.view_as_complex(x), lambda x: x[..., 0] + 1j * x[..., 1], ("f32", "f64"),
          _joined, (7, 2)),
    Operator("complex", lambda x, y: ts.complex(x, y), lambda x, y: x + 1j * y,
             {key: make for key, make in pointwise_samples(_TWO).items() if key != "grid#0"}, ("f32", "f64"), _joined),
    Operator("bitwise_left_shift", lambda x, y: x << y, np.left_shift, _shift_samples(), kinds("iu"), same),
    Operator("bitwise_right_shift", lambda x, y: x >> y, np.right_shift, _shift_samples(), kinds("iu"), same),
]
