"""Our functions for pointwise operators that torch_lib lacks; in opset 18."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

import tensocket as torch

from ..operators.values import NUMBERS
from .functions import Call, own


def _pair(c: Call) -> tuple[Any, Any]:
    """Return two operands in the dtype of the result."""
    to = ir.DataType(NUMBERS[c.form.dtype])
    one, other = (c.op.Cast(x, to=to) if isinstance(x, ir.Value) and x.dtype != to else x if isinstance(
        x, ir.Value) else c.recorder.constant(x, to) for x in list(c.values.values())[:2])
    return one, other


@own("sgn")
def sgn(c: Call) -> Any:
    """Translate the sign of real numbers."""
    return c.op.Sign(c.input)


@own("remainder", "fmod")
def remainder(c: Call) -> Any:
    """Translate remainders: with the sign of the divisor, or that of the dividend."""
    one, other = _pair(c)
    if str(c.node.target.name) == "fmod":
        return c.op.Mod(one, other, fmod=1)
    if not c.form.dtype.is_floating_point:
        return c.op.Mod(one, other)
    rest = c.op.Mod(one, other, fmod=1)
    zero = c.recorder.constant(0.0, ir.DataType(NUMBERS[c.form.dtype]))
    differs = c.op.And(c.op.Not(c.op.Equal(rest, zero)), c.op.Xor(c.op.Less(rest, zero), c.op.Less(other, zero)))
    return c.op.Where(differs, c.op.Add(rest, other), rest)


@own("fmax", "fmin")
def without_nan(c: Call) -> Any:
    """Translate extremes of two numbers, of which NaN counts for nothing."""
    one, other = _pair(c)
    found = (c.op.Max if str(c.node.target.name) == "fmax" else c.op.Min)(one, other)
    return c.op.Where(c.op.IsNaN(one), other, c.op.Where(c.op.IsNaN(other), one, found))


@own("hypot")
def hypot(c: Call) -> Any:
    """Translate the length of a vector of two numbers, scaled so that squares do not overflow."""
    one, other = (c.op.Abs(x) for x in _pair(c))
    high, low = c.op.Max(one, other), c.op.Min(one, other)
    to = ir.DataType(NUMBERS[c.form.dtype])
    zero, unit = c.recorder.constant(0.0, to), c.recorder.constant(1.0, to)
    share = c.op.Where(c.op.Equal(high, zero), zero, c.op.Div(low, high))
    return c.op.Mul(high, c.op.Sqrt(c.op.Add(unit, c.op.Mul(share, share))))


@own("nan_to_num")
def nan_to_num(c: Call) -> Any:
    """Translate numbers in place of NaN and infinities."""
    dtype = c.form.dtype
    if not dtype.is_floating_point:
        return c.op.Identity(c.input)
    to = ir.DataType(NUMBERS[dtype])
    largest = float(torch.finfo(dtype).max)
    nan, high, low = (c.values.get(name) for name in ("nan", "posinf", "neginf"))
    value = c.op.Where(c.op.IsNaN(c.input), c.recorder.constant(float(nan or 0.0), to), c.input)
    value = c.op.Where(c.op.IsInf(value, detect_negative=0),
                       c.recorder.constant(largest if high is None else float(high), to), value)
    return c.op.Where(c.op.IsInf(value, detect_positive=0),
                      c.recorder.constant(-largest if low is None else float(low), to), value)


@own("isreal")
def isreal(c: Call) -> Any:
    """Translate whether real numbers are real."""
    return c.op.Expand(c.recorder.constant(True, ir.DataType.BOOL), c.op.Shape(c.input))


@own("logaddexp")
def logaddexp(c: Call) -> Any:
    """Translate the logarithm of a sum of exponentials."""
    one, other = _pair(c)
    high, gap = c.op.Max(one, other), c.op.Neg(c.op.Abs(c.op.Sub(one, other)))
    return c.op.Add(high, c.op.Log(c.op.Add(c.op.Exp(gap), c.recorder.constant(1.0, ir.DataType(
        NUMBERS[c.form.dtype])))))


@own("isin")
def isin(c: Call) -> Any:
    """Translate whether elements are among others."""
    elements, others = list(c.values.values())[:2]
    elements = c.tensor(elements, c.recorder.constant(0))
    wide = c.op.Equal(c.op.Unsqueeze(elements, c.sizes([-1])), c.op.Reshape(c.op.CastLike(others, elements),
                                                                            c.sizes([-1])))
    found = c.op.Cast(c.op.ReduceMax(c.op.Cast(wide, to=6), c.sizes([-1]), keepdims=0), to=9)
    return c.op.Not(found) if c.values.get("invert") else found
