"""Our functions for Fourier transforms; in opset 18, where complex numbers are pairs along a last dimension."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from .functions import Call, own


def _dims(c: Call) -> list[int]:
    return [int(d) % len(c.source.shape) for d in c.values["dim"]]


def _scaled(c: Call, value: Any, scale: float) -> Any:
    dtype = ir.DataType.DOUBLE if "128" in c.form.dtype.name else ir.DataType.FLOAT
    return value if scale == 1 else c.op.Mul(value, c.recorder.constant(float(scale), dtype))


@own("real", "real_part", "imag", "imag_part")
def part(c: Call) -> Any:
    """Translate the real or imaginary parts of complex numbers."""
    if not c.source.dtype.is_complex:
        return c.op.Identity(c.input)
    at = int(str(c.node.target.name).startswith("imag"))
    return c.op.Gather(c.input, c.recorder.constant(at, ir.DataType.INT64), axis=len(c.source.shape))


@own("fft_r2c")
def real_to_complex(c: Call) -> Any:
    """Translate the half of the spectrum of a real signal that determines it."""
    *others, last = _dims(c)
    found = c.op.DFT(c.op.Unsqueeze(c.input, c.sizes([-1])), axis=last, onesided=1)
    for dim in others:
        found = c.op.DFT(found, axis=dim)
    return _scaled(c, found, c.values["scale"])


@own("fft_c2c")
def complex_to_complex(c: Call) -> Any:
    """Translate the spectrum of a complex signal, or its inverse, which ONNX divides by the number of elements."""
    found, inverse = c.input, int(not c.values["forward"])
    dims = _dims(c)
    for dim in dims:
        found = c.op.DFT(found, axis=dim, inverse=inverse)
    sizes = [c.source.shape[d] for d in dims]
    if inverse and any(hasattr(n, "name") for n in sizes):
        counts = c.op.Gather(c.op.Shape(c.input), c.sizes(dims))
        return _scaled(c, c.op.Mul(found, c.op.CastLike(c.op.ReduceProd(counts, keepdims=0), c.input)),
                       c.values["scale"])
    return _scaled(c, found, c.values["scale"] * (math.prod(int(n) for n in sizes) if inverse else 1))
