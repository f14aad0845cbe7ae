"""Our functions for choice, and for reads and writes at indices; in opset 18."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..operators.values import NUMBERS
from .aliases import numbered
from .functions import Call, fixed, own
from .matching import NoMatch
from .shapes import END


@own("where")
def where(c: Call) -> Any:
    """Translate elements chosen by a condition."""
    values = list(c.values.values())
    if len(values) < 3:
        raise NoMatch("where without choices")
    to = NUMBERS[c.form.dtype]
    parts = [c.op.Cast(x, to=to) if isinstance(x, ir.Value) else c.recorder.constant(x, ir.DataType(to))
             for x in values[1:3]]
    return c.op.Where(values[0], *parts)


@own("masked_fill")
def masked_fill(c: Call) -> Any:
    """Translate a value where a mask holds."""
    value = c.values["value"]
    filled = c.op.CastLike(value, c.input) if isinstance(value, ir.Value) else c.recorder.constant(value,
                                                                                                  c.input.dtype)
    return c.op.Where(c.op.Cast(c.values["mask"], to=9), filled, c.input)


@own("one_hot")
def one_hot(c: Call) -> Any:
    """Translate classes as unit vectors."""
    count = c.form.shape[-1]
    return c.op.OneHot(c.input, c.recorder.constant(fixed(count), ir.DataType.INT64),
                       c.recorder.constant([0, 1], ir.DataType.INT64))


@own("triu", "tril")
def triangle(c: Call) -> Any:
    """Translate triangles of matrices."""
    upper = int(str(c.node.target.name).startswith("triu"))
    return c.op.Trilu(c.input, c.recorder.constant(int(c.values.get("diagonal", 0)), ir.DataType.INT64), upper=upper)


@own("cumsum")
def cumsum(c: Call) -> Any:
    """Translate running sums."""
    return c.op.CumSum(c.cast(c.input, c.form.dtype), c.recorder.constant(int(c.values["dim"]), ir.DataType.INT64))


@own("getitem", "basic_index", "index")
def index(c: Call) -> Any:
    """Translate reads at slices, integers and one vector of places at each of adjacent dimensions."""
    items = c.values["index"]
    items = list(items) if isinstance(items, (list, tuple)) else [items]
    rank = len(c.source.shape)
    if any(x is ... for x in items):
        at = next(k for k, x in enumerate(items) if x is ...)
        items[at:at + 1] = [slice(None)] * (rank - sum(x is not None for x in items) + 1)
    if any(isinstance(x, bool) for x in items):
        raise NoMatch("truth values as indices")
    x, dim, places = c.input, 0, []
    for item in items:
        if item is None:
            x = c.op.Unsqueeze(x, c.sizes([dim]))
        elif isinstance(item, slice):
            if item != slice(None):
                x = c.op.Slice(x, c.sizes([item.start or 0]), c.sizes([END if item.stop is None else item.stop]),
                               c.sizes([dim]), c.sizes([item.step or 1]))
        elif (isinstance(item, ir.Value) and len(item.shape or ()) > 0) or isinstance(item, (list, tuple)):
            places.append((dim, item if isinstance(item, ir.Value) else c.recorder.constant(list(item))))
        else:
            x = c.op.Gather(x, c.tensor(item, c.sizes([0])), axis=dim)
            continue
        dim += 1
    if not places:
        return x if x is not c.input else c.op.Identity(x)
    if any(p.dtype == ir.DataType.BOOL for _, p in places):
        raise NoMatch("masks as indices")
    return _gathered(c, x, places)


def _gathered(c: Call, x: Any, places: list[tuple[int, Any]]) -> Any:
    dims = [d for d, _ in places]
    if len(dims) == 1:
        return c.op.Gather(x, c.op.Cast(places[0][1], to=7), axis=dims[0])
    if dims != list(range(len(dims))):
        raise NoMatch("several vectors of places, of which the first is not at the first dimension")
    shape = c.op.Shape(places[0][1])
    for _, p in places[1:]:
        shape = c.op.Shape(c.op.Expand(p, shape))
    line = c.sizes([-1])
    return c.op.GatherND(x, c.op.Concat(*[c.op.Unsqueeze(c.op.Expand(c.op.Cast(p, to=7), shape), line)
                                          for _, p in places], axis=-1))


@own("setitem", "basic_put_")
def assign(c: Call) -> Any:
    """Translate a write at slices and integers: the places that it changes are read from a tensor of places."""
    op, value = c.op, c.values.get("value", c.values.get("src"))
    mask = c.values["index"]
    if isinstance(mask, ir.Value) and mask.dtype == ir.DataType.BOOL:
        if isinstance(value, ir.Value) and len(value.shape or ()):
            raise NoMatch("several values at the places of a mask")
        rank = len(c.source.shape) - len(mask.shape)
        wide = op.Unsqueeze(mask, c.sizes(list(range(-rank, 0)))) if rank else mask
        single = op.CastLike(value, c.input) if isinstance(value, ir.Value) else c.recorder.constant(
            value, c.input.dtype)
        return op.Where(wide, single, c.input)
    where = index(c._replace(values={"input": numbered(c.op, c.recorder, c.input), "index": c.values["index"]}))
    flat = op.Reshape(c.input, c.sizes([-1]))
    filled = op.CastLike(value, c.input) if isinstance(value, ir.Value) else c.recorder.constant(value, c.input.dtype)
    updates = op.Reshape(op.Expand(filled, op.Shape(where)), c.sizes([-1]))
    made = op.ScatterElements(flat, op.Reshape(where, c.sizes([-1])), updates, axis=0)
    return op.Reshape(made, op.Shape(c.input))


@own("scatter")
def scatter(c: Call) -> Any:
    """Translate writes at indices along a dimension."""
    source = c.values.get("src", c.values.get("value"))
    index, dim = c.values["index"], int(c.values["dim"])
    if c.values.get("reduce") is not None:
        raise NoMatch("scatter with reduce")
    if not isinstance(source, ir.Value):
        source = c.op.Expand(c.recorder.constant(source, c.input.dtype), c.op.Shape(index))
    elif tuple(c.given["index"].meta["val"].shape) != tuple(c.given["src"].meta["val"].shape):
        zeros = c.recorder.constant([0] * len(c.source.shape), ir.DataType.INT64)
        source = c.op.Slice(source, zeros, c.op.Shape(index))
    return c.op.ScatterElements(c.input, index, source, axis=dim)


@own("index_add", "index_copy", "index_fill")
def at_slices(c: Call) -> Any:
    """Translate additions and writes to slices at indices."""
    name, dim = str(c.node.target.name).removesuffix("_"), int(c.values["dim"]) % len(c.source.shape)
    index = c.op.Cast(c.values["index"], to=7)
    shape = c.op.Concat(*[c.op.Shape(index) if d == dim else c.op.Shape(
        c.input, start=d, end=d + 1) for d in range(len(c.source.shape))], axis=0)
    line = c.sizes([-1 if d == dim else 1 for d in range(len(c.source.shape))])
    places = c.op.Expand(c.op.Reshape(index, line), shape)
    source = c.values.get("source", c.values.get("value"))
    if not isinstance(source, ir.Value):
        source = c.recorder.constant(source, c.input.dtype)
    source = c.op.Expand(c.op.CastLike(source, c.input), shape)
    alpha = c.values.get("alpha", 1)
    source = source if alpha == 1 else c.op.Mul(source, c.recorder.constant(alpha, c.input.dtype))
    reduction = "add" if name == "index_add" else "none"
    return c.op.ScatterElements(c.input, places, source, axis=dim, reduction=reduction)


@own("take_along_dim", "gather_valid")
def take_along(c: Call) -> Any:
    """Translate reads at indices along a dimension, broadcast with the input."""
    index, dim = list(c.values.values())[1:3] if "indices" in c.values else (c.values["index"], c.values["axis"])
    if dim is None:
        return c.op.Gather(c.op.Reshape(c.input, c.sizes([-1])), c.op.Reshape(index, c.sizes([-1])))
    forms = [x.meta["val"].shape for x in c.node.all_input_nodes[:2]]
    at = int(dim) % len(forms[0])
    if any(a != b for d, (a, b) in enumerate(zip(*forms, strict=True)) if d != at):
        shape = c.op.Concat(*[c.op.Shape(index if d == at else c.input, start=d, end=d + 1)
                              for d in range(len(forms[0]))], axis=0)
        index = c.op.Expand(index, shape)
    return c.op.GatherElements(c.input, index, axis=at)


@own("take")
def take(c: Call) -> Any:
    """Translate reads at places of the flat tensor."""
    return c.op.Gather(c.op.Reshape(c.input, c.sizes([-1])), c.values["index"])


@own("argsort")
def argsort(c: Call) -> Any:
    """Translate the order of elements."""
    dim = int(c.values.get("dim", -1))
    rank = len(c.source.shape)
    count = c.op.Shape(c.input, start=dim % rank, end=dim % rank + 1)
    return c.op.TopK(c.input, count, axis=dim, largest=int(bool(c.values.get("descending"))), sorted=1)[1]


@own("searchsorted")
def searchsorted(c: Call) -> Any:
    """Translate places among sorted numbers: how many of them are before a value, which NaN is after all of."""
    if "values" in c.values:
        line, values, right, sorter = c.values["edges"], c.values["values"], c.values["right"], c.values.get("sorter")
    else:
        line, values, right, sorter = (c.values.get(name) for name in ("sorted_sequence", "input", "right", "sorter"))
        right = right or c.values.get("side") == "right"
    if sorter is not None:
        raise NoMatch("searchsorted with a sorter")
    values = c.tensor(values, line)
    kind = c.node.all_input_nodes[0].meta["val"].dtype
    wide = c.op.Unsqueeze(c.op.Cast(values, to=NUMBERS[kind]), c.sizes([-1]))
    edges = c.op.Unsqueeze(line, c.sizes([-2])) if len(line.shape) > 1 else line
    beyond = (c.op.Greater if right else c.op.GreaterOrEqual)(edges, wide)
    counts = c.op.ReduceSum(c.op.Cast(c.op.Not(beyond), to=7), c.sizes([-1]), keepdims=0)
    return c.cast(counts, c.form.dtype)
