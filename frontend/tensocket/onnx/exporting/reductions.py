"""Our functions for reductions; in opset 18."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from .functions import OWN, Call, Function, own, pair
from .matching import NoMatch


def _axes(c: Call, dim: Any, rank: int) -> Any:
    dims = list(range(rank)) if dim is None or (isinstance(dim, (list, tuple)) and not dim) else pair(dim, 1)
    return c.recorder.constant(dims, ir.DataType.INT64)


def _reduction(name: str) -> Function:
    def translate(c: Call) -> Any:
        value = c.cast(c.input, c.form.dtype) if c.form.dtype is not c.source.dtype else c.input
        if not len(c.source.shape):
            return c.op.Identity(value)
        axes = _axes(c, c.values.get("dim"), len(c.source.shape))
        return getattr(c.op, name)(value, axes, keepdims=int(bool(c.values.get("keepdim", False))))

    return translate


for _name, _operator in {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "amax": "ReduceMax",
                         "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp"}.items():
    OWN[_name] = _reduction(_operator)


@own("nansum")
def nansum(c: Call) -> Any:
    """Translate sums without NaN."""
    value = c.op.Where(c.op.IsNaN(c.input), c.recorder.constant(0.0, c.input.dtype), c.input)
    return _reduction("ReduceSum")(c._replace(values={**c.values, "input": value}))


@own("var", "std")
def variance(c: Call) -> Any:
    """Translate variances and deviations."""
    rank = len(c.source.shape)
    dims = c.values.get("dim")
    axes = _axes(c, dims, rank)
    unbiased, correction = c.values.get("unbiased"), c.values.get("correction")
    less = (1 if unbiased is None else int(unbiased)) if correction is None else correction
    if isinstance(dims, bool):
        raise NoMatch("unbiased in the place of dim")
    centred = c.op.Sub(c.input, c.op.ReduceMean(c.input, axes, keepdims=1))
    total = c.op.ReduceSum(c.op.Mul(centred, centred), axes, keepdims=int(bool(c.values.get("keepdim"))))
    sizes = c.op.Gather(c.op.Shape(c.input), axes)
    count = c.op.CastLike(c.op.ReduceProd(sizes, keepdims=0), c.input)
    found = c.op.Div(total, c.op.Sub(count, c.recorder.constant(less, c.input.dtype)))
    return c.op.Sqrt(found) if str(c.node.target.name) == "std" else found


@own("max", "min")
def extreme(c: Call) -> Any:
    """Translate extremes: of all elements, along a dimension with places, or of two tensors."""
    name = "Max" if str(c.node.target.name) == "max" else "Min"
    dim = c.values.get("dim", c.values.get("other"))
    if isinstance(dim, ir.Value):
        return getattr(c.op, name)(c.input, dim)
    if dim is None:
        return getattr(c.op, f"Reduce{name}")(c.input, keepdims=0)
    keep = int(bool(c.values.get("keepdim", False)))
    axes = c.recorder.constant([dim], ir.DataType.INT64)
    return [getattr(c.op, f"Reduce{name}")(c.input, axes, keepdims=keep),
            getattr(c.op, f"Arg{name}")(c.input, axis=dim, keepdims=keep)]


@own("norm", "linalg_norm", "linalg_vector_norm", "length")
def norm(c: Call) -> Any:
    """Translate the norms of vectors of order 1, 2 and infinity."""
    order = c.values.get("p", c.values.get("ord", 2))
    name = {1: "ReduceL1", 2: "ReduceL2", "fro": "ReduceL2", None: "ReduceL2", math.inf: "ReduceMax",
            -math.inf: "ReduceMin"}.get(order)
    if c.values.get("dim") is not None and isinstance(c.values["dim"], (list, tuple)) and len(c.values["dim"]) > 1 and (
            order not in ("fro", None, 2) or str(c.node.target.name) == "linalg_norm"):
        raise NoMatch(f"a norm of matrices of order {order}")
    axes = _axes(c, c.values.get("dim"), len(c.source.shape))
    keep = int(bool(c.values.get("keepdim", False)))
    if name is not None:
        return getattr(c.op, name)(c.op.Abs(c.input) if "L" not in name else c.input, axes, keepdims=keep)
    if not isinstance(order, (int, float)) or order == 0:
        raise NoMatch(f"a norm of order {order}")
    to = c.input.dtype
    powers = c.op.ReduceSum(c.op.Pow(c.op.Abs(c.input), c.recorder.constant(float(order), to)), axes, keepdims=keep)
    return c.op.Pow(powers, c.recorder.constant(1 / order, to))


@own("normalize")
def normalize(c: Call) -> Any:
    """Translate x over its norm along a dimension."""
    if c.values["p"] not in (1, 2):
        raise NoMatch(f"a norm of order {c.values['p']}")
    axes = _axes(c, c.values["dim"], len(c.source.shape))
    size = getattr(c.op, f"ReduceL{int(c.values['p'])}")(c.input, axes, keepdims=1)
    return c.op.Div(c.input, c.op.Max(size, c.recorder.constant(c.values["eps"], c.input.dtype)))


@own("cosine_similarity")
def cosine_similarity(c: Call) -> Any:
    """Translate the cosine of the angle between vectors."""
    axes = _axes(c, c.values["dim"], len(c.form.shape) + 1)
    floor = c.recorder.constant(float(c.values["eps"]), c.input.dtype)
    lengths = [c.op.Max(c.op.ReduceL2(x, axes, keepdims=1), floor) for x in (c.values["x1"], c.values["x2"])]
    units = [c.op.Div(x, n) for x, n in zip((c.values["x1"], c.values["x2"]), lengths, strict=True)]
    return c.op.ReduceSum(c.op.Mul(*units), axes, keepdims=0)
