"""Matrix products. The allowed error grows with the product of the magnitudes."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Maker, Operator, Sample, same

#: Vendors add up blocks in any order: more roundings than a pairwise sum, but far fewer than one per term.
_PRODUCT = Tolerance(ulp=1.0, factor=32.0)
_DTYPES = ("f32", "f64", "f16", "bf16", "i64", "c64", "c128")


def _sample(first: tuple[int, ...], second: tuple[int, ...], layout: str = "plain", other: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(first, layout, -1.0, 1.0), draw.given(second, other, -1.0, 1.0)))


def _scale(x: HostArray, y: HostArray, *rest: Any) -> Any:
    return np.matmul(np.abs(x), np.abs(y))


def _linear(x: HostArray, weight: HostArray, bias: HostArray | None = None) -> Any:
    product = np.matmul(x, weight.T)
    return product if bias is None else product + bias


def _linear_scale(x: HostArray, weight: HostArray, bias: HostArray | None = None) -> Any:
    return _linear(np.abs(x), np.abs(weight), None if bias is None else np.abs(bias))


def _linear_sample(shape: tuple[int, ...], out: int, bias: bool) -> Maker:
    return lambda draw: Sample((draw.given(shape, "plain", -1.0, 1.0), draw.given((out, shape[-1]), "plain", -1.0, 1.0),
                                *((draw.given((out,)),) if bias else ())))


_SQUARE = {
    "square#0": _sample((16, 16), (16, 16)), "prime#0": _sample((7, 13), (13, 5)),
    "transposed#0": _sample((17, 11), (11, 9), "transposed", "plain"),
    "transposed#1": _sample((17, 11), (11, 9), "plain", "transposed"),
    "offset#0": _sample((9, 8), (8, 6), "offset", "step"), "one#0": _sample((1, 1), (1, 1)),
    "empty#0": _sample((3, 0), (0, 4)), "empty#1": _sample((0, 3), (3, 4)), "row#0": _sample((1, 301), (301, 1)),
    "large#0": _sample((129, 257), (257, 131)),
}

#: The records of this family.
OPERATORS = [
    Operator("mm", lambda x, y: ts.mm(x, y), np.matmul, _SQUARE, _DTYPES, same, _PRODUCT, _scale),
    Operator("matmul", lambda x, y: ts.matmul(x, y), np.matmul, {
        "square#0": _sample((16, 16), (16, 16)), "prime#0": _sample((3, 7, 13), (3, 13, 5)),
        "broadcast#0": _sample((2, 1, 4, 5), (3, 5, 6)), "broadcast#1": _sample((5, 4, 3), (3, 7)),
        "vector#0": _sample((13,), (13,)), "vector#1": _sample((7, 13), (13,)), "vector#2": _sample((13,), (13, 5)),
        "expanded#0": _sample((4, 3, 5), (5, 2), "expanded"), "empty#0": _sample((2, 3, 0), (0, 4)),
        "step#0": _sample((9, 8), (8, 6), "step", "step")}, _DTYPES, same, _PRODUCT, _scale),
    Operator("matmul.operator", lambda x, y: x @ y, np.matmul, {"prime#0": _sample((7, 13), (13, 5))}, ("f32",), same,
             _PRODUCT, _scale),
    Operator("bmm", lambda x, y: ts.bmm(x, y), np.matmul, {
        "prime#0": _sample((3, 7, 5), (3, 5, 11)), "transposed#0": _sample((4, 6, 5), (4, 5, 3), "transposed"),
        "empty#0": _sample((0, 3, 2), (0, 2, 4)), "one#0": _sample((1, 1, 1), (1, 1, 1)),
        "large#0": _sample((17, 33, 35), (17, 35, 31))}, _DTYPES, same, _PRODUCT, _scale),
    Operator("linear", lambda *args: ts.nn.functional.linear(*args), _linear, {
        "prime#0": _linear_sample((7, 13), 5, True), "prime#1": _linear_sample((7, 13), 5, False),
        "batch#0": _linear_sample((2, 3, 11), 4, True), "vector#0": _linear_sample((13,), 5, True),
        "large#0": _linear_sample((64, 301), 67, True)}, ("f32", "f64"), same, _PRODUCT, _linear_scale),
]
