"""Our functions for shapes, splits and joins; in opset 18."""

from __future__ import annotations

from typing import Any, Final

import onnx_ir as ir

from .functions import Call, fixed, own, pair
from .matching import NoMatch

#: The end of slices without one.
END: Final = (1 << 63) - 1


@own("reshape", "view", "reshape_as", "view_as")
def reshape(c: Call) -> Any:
    """Translate another shape."""
    wanted = c.values.get("shape", c.values.get("size", c.values.get("other")))
    if c.form.dtype is not c.source.dtype:
        raise NoMatch("the bits of another dtype")
    if isinstance(wanted, ir.Value):
        return c.op.Reshape(c.input, c.op.Shape(wanted))
    if not isinstance(wanted, (list, tuple)):
        wanted = [wanted]
    if not wanted:
        return c.op.Reshape(c.input, c.recorder.constant([], ir.DataType.INT64))
    return c.op.Reshape(c.input, c.sizes(wanted), allowzero=1)


@own("flatten", "ravel", "unflatten")
def flatten(c: Call) -> Any:
    """Translate joined or split dimensions: sizes of the result that change are taken from the input."""
    return c.op.Reshape(c.input, c.sizes(_known_shape(c)), allowzero=1)


def _known_shape(c: Call) -> list[Any]:
    """Return the sizes of the result, of which at most one changes and others are those of the input."""
    free = [k for k, n in enumerate(c.form.shape) if hasattr(n, "name")]
    sizes: list[Any] = [int(n) for n in c.form.shape]
    names = [getattr(n, "name", None) for n in c.source.shape]
    for k in free[:-1] if len(free) > 1 else []:
        word = c.form.shape[k].name
        if word not in names:
            raise NoMatch("several sizes that change")
        at = names.index(word)
        sizes[k] = c.op.Shape(c.input, start=at, end=at + 1)
    if free:
        sizes[free[-1]] = -1
    return sizes


@own("expand", "broadcast_to", "expand_as")
def expand(c: Call) -> Any:
    """Translate broadcasting to a shape; -1 keeps a size."""
    wanted = c.values.get("size", c.values.get("other"))
    if isinstance(wanted, ir.Value) and len(wanted.shape or ()) != 0:
        return c.op.Expand(c.input, c.op.Shape(wanted))
    sizes = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    return c.op.Expand(c.input, c.sizes([1 if isinstance(n, int) and n == -1 else n for n in sizes]))


@own("repeat", "tile")
def repeat(c: Call) -> Any:
    """Translate copies along dimensions."""
    counts = c.values.get("repeats", c.values.get("dims"))
    counts = list(counts) if isinstance(counts, (list, tuple)) else [counts]
    rank = len(c.source.shape)
    x = c.input
    counts = [1] * (rank - len(counts)) + counts
    if len(counts) > rank:
        x = c.op.Unsqueeze(x, c.recorder.constant(list(range(len(counts) - rank)), ir.DataType.INT64))
    return c.op.Tile(x, c.sizes(counts))


@own("permute")
def permute(c: Call) -> Any:
    """Translate dimensions in another order."""
    dims = c.values["dims"]
    rank = len(c.source.shape)
    return c.op.Transpose(c.input, perm=[int(d) % rank for d in (dims if isinstance(dims, (list, tuple)) else [dims])])


@own("transpose", "t", "mT", "numpy_T", "swapaxes", "swapdims", "adjoint")
def transpose(c: Call) -> Any:
    """Translate two exchanged dimensions."""
    rank = len(c.source.shape)
    order = list(range(rank))
    if rank > 1:
        a, b = (int(c.values[name]) % rank if name in c.values else rank - k for k, name in ((2, "dim0"), (1, "dim1")))
        order[a], order[b] = order[b], order[a]
    return c.op.Transpose(c.input, perm=order)


@own("movedim", "moveaxis")
def movedim(c: Call) -> Any:
    """Translate moved dimensions."""
    rank = len(c.source.shape)
    source, target = ([int(d) % rank for d in pair(c.values[name], 1)] for name in ("source", "destination"))
    order: list[Any] = [None] * rank
    for a, b in zip(source, target, strict=True):
        order[b] = a
    rest = iter([d for d in range(rank) if d not in source])
    return c.op.Transpose(c.input, perm=[next(rest) if d is None else d for d in order])


@own("unsqueeze")
def unsqueeze(c: Call) -> Any:
    """Translate a dimension of size 1."""
    return c.op.Unsqueeze(c.input, c.recorder.constant([int(c.values["dim"])], ir.DataType.INT64))


@own("squeeze")
def squeeze(c: Call) -> Any:
    """Translate dimensions of size 1 left out."""
    dim = c.values.get("dim")
    rank = len(c.source.shape)
    dims = range(rank) if dim is None else [d % rank for d in pair(dim, 1)] if rank else []
    dims = [d for d in dims if not hasattr(c.source.shape[d], "name") and c.source.shape[d] == 1]
    return c.op.Squeeze(c.input, c.recorder.constant(dims, ir.DataType.INT64)) if dims else c.op.Identity(c.input)


@own("select")
def select(c: Call) -> Any:
    """Translate one slice along a dimension."""
    index = c.values["index"]
    return c.op.Gather(c.input, index if isinstance(index, ir.Value) else c.recorder.constant(
        int(index), ir.DataType.INT64), axis=int(c.values["dim"]))


@own("slice")
def slice_of(c: Call) -> Any:
    """Translate a part along a dimension."""
    start, end, step = c.values.get("start"), c.values.get("end"), c.values.get("step", 1)
    bounds = [c.sizes([0 if start is None else start]), c.sizes([END if end is None else end])]
    return c.op.Slice(c.input, *bounds, c.sizes([int(c.values["dim"])]), c.sizes([1 if step is None else step]))


@own("narrow")
def narrow(c: Call) -> Any:
    """Translate a number of slices from one on."""
    start, length = c.values["start"], c.values["length"]
    last = c.op.Add(c.tensor(start, c.sizes([0])), c.tensor(length, c.sizes([0]))) if any(
        isinstance(v, ir.Value) for v in (start, length)) else start + length
    return c.op.Slice(c.input, c.sizes([start]), c.sizes([last]), c.sizes([int(c.values["dim"])]))


@own("cat", "concat", "concatenate")
def cat(c: Call) -> Any:
    """Translate joined tensors; empty vectors count for nothing."""
    tensors, dim = c.values["tensors"], int(c.values.get("dim", 0))
    forms = [x.meta["val"] for x in c.given["tensors"]]
    kept = [c.cast(x, c.form.dtype) if f.dtype is not c.form.dtype else x
            for x, f in zip(tensors, forms, strict=True) if tuple(f.shape) != (0,) or len(c.form.shape) == 1]
    return c.op.Concat(*kept, axis=dim) if len(kept) > 1 else c.op.Identity(kept[0])


@own("stack")
def stack(c: Call) -> Any:
    """Translate tensors, joined along a new dimension."""
    dim = int(c.values.get("dim", 0)) % len(c.form.shape)
    line = c.recorder.constant([dim], ir.DataType.INT64)
    return c.op.Concat(*[c.op.Unsqueeze(x, line) for x in c.values["tensors"]], axis=dim)


@own("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split")
def split(c: Call) -> Any:
    """Translate parts along a dimension; their number and sizes are fixed."""
    dim = int(c.values.get("dim", 0)) % len(c.source.shape)
    lengths = [part.shape[dim] for part in c.form]
    if any(hasattr(n, "name") for n in lengths):
        raise NoMatch("parts of sizes that change")
    if len(lengths) == 1:
        return [c.op.Identity(c.input)]
    found, start = [], 0
    for n in lengths:
        found.append(c.op.Slice(c.input, c.sizes([start]), c.sizes([start + n]), c.sizes([dim])))
        start += n
    return found


@own("unbind")
def unbind(c: Call) -> Any:
    """Translate all slices along a dimension."""
    dim = int(c.values.get("dim", 0))
    return [c.op.Gather(c.input, c.recorder.constant(k, ir.DataType.INT64), axis=dim) for k in range(len(c.form))]


@own("meshgrid")
def meshgrid(c: Call) -> Any:
    """Translate coordinates of a grid."""
    tensors = c.values["tensors"]
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list) else tensors
    if c.values.get("indexing", "ij") != "ij":
        raise NoMatch("indexing='xy'")
    shape = c.op.Concat(*[c.op.Reshape(c.op.Size(x), c.sizes([1])) for x in tensors], axis=0)
    count = len(tensors)
    return [c.op.Expand(c.op.Reshape(x, c.sizes([-1 if d == k else 1 for d in range(count)])), shape)
            for k, x in enumerate(tensors)]


@own("repeat_interleave")
def repeat_interleave(c: Call) -> Any:
    """Translate elements or slices, each repeated a fixed number of times."""
    count, dim = c.values["repeats"], c.values.get("dim")
    if not isinstance(count, int):
        raise NoMatch("numbers of repetitions in a tensor")
    x, rank = (c.op.Reshape(c.input, c.sizes([-1])), 1) if dim is None else (c.input, len(c.source.shape))
    at = int(dim or 0) % rank
    tiled = c.op.Tile(c.op.Unsqueeze(x, c.sizes([at + 1])), c.sizes([count if k == at + 1 else 1
                                                                      for k in range(rank + 1)]))
    before = [c.op.Shape(x, start=0, end=at)] if at else []
    after = [c.op.Shape(x, start=at + 1)] if at + 1 < rank else []
    return c.op.Reshape(tiled, c.op.Concat(*before, c.sizes([-1]), *after, axis=0))


@own("broadcast_tensors")
def broadcast_tensors(c: Call) -> Any:
    """Translate tensors, broadcast with each other."""
    tensors = c.values["tensors"]
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list) else tensors
    return [c.op.Expand(x, c.sizes([int(n) for n in c.form[0].shape])) for x in tensors] if not any(
        hasattr(n, "name") for n in c.form[0].shape) else _met(c, tensors)


def _met(c: Call, tensors: list[Any]) -> list[Any]:
    total = tensors[0]
    for x in tensors[1:]:
        total = c.op.Expand(total, c.op.Shape(x))
    shape = c.op.Shape(total)
    return [c.op.Expand(x, shape) for x in tensors]


@own("eye")
def eye(c: Call) -> Any:
    """Translate the identity matrix."""
    zeros = c.op.Expand(c.recorder.constant(0.0, ir.DataType.FLOAT), c.sizes([fixed(n) for n in c.form.shape]))
    return c.cast(c.op.EyeLike(zeros), c.form.dtype)


@own("diag_embed")
def diag_embed(c: Call) -> Any:
    """Translate diagonal matrices of vectors."""
    if (int(c.values.get("offset", 0)), int(c.values.get("dim1", -2)), int(c.values.get("dim2", -1))) != (0, -2, -1):
        raise NoMatch("diag_embed with an offset or other dimensions")
    size = c.op.Shape(c.input, start=len(c.source.shape) - 1)
    unit = c.op.EyeLike(c.op.Expand(c.recorder.constant(0.0, ir.DataType.FLOAT), c.op.Concat(size, size, axis=0)))
    return c.op.Mul(c.op.Unsqueeze(c.input, c.sizes([-1])), c.op.CastLike(unit, c.input))
