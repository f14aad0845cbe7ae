"""Reductions of segments that follow each other along a dimension."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .._generated import functions
from ..dispatch.composite import composite

#: The reduction of ``scatter_reduce``, and what segments without elements have.
_REDUCTIONS: Final = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -math.inf),
                      "min": ("amin", math.inf)}


@composite("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
           "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor", method=False)
def segment_reduce(data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
                   axis: int = 0, unsafe: bool = False, initial: Any = None) -> Any:
    """Reduce segments of ``data`` along ``axis``: the first ``lengths[0]`` elements, the next ``lengths[1]`` and so on.

    Args:
        data: Floating-point numbers of shape [.., n, *].
        reduce: ``sum``, ``mean``, ``prod``, ``max`` or ``min``.
        lengths: Integers of shape [.., segments], with the dimensions of ``data`` before ``axis``.
        indices: Not supported, as in PyTorch.
        offsets: Instead of lengths, where segments begin and where the last one ends: [.., segments + 1].
        axis: The dimension; it is the last one of ``lengths``.
        unsafe: Whether lengths may sum to less than n; they are not checked then.
        initial: What every reduction starts with. Without it, segments without elements have 0 as their sum, 1 as
            their product, NaN as their mean, and an infinity as their largest and smallest element.

    Returns:
        Shape [.., segments, *], dtype as ``data``.

    Raises:
        ArgumentError: The reduction is unknown, or there are not either lengths or offsets.
        DtypeError: ``data`` is not of floats.
        ShapeError: The lengths do not fit ``data``.
    """
    if reduce not in _REDUCTIONS:
        raise ArgumentError("segment_reduce", f"reduce={reduce!r}", f"reduce is one of {', '.join(_REDUCTIONS)}",
                            "pass one of these")
    if indices is not None or (lengths is None) == (offsets is None):
        raise ArgumentError("segment_reduce", "not exactly one of lengths and offsets",
                            "segments are given by lengths or by offsets", "pass lengths")
    if not data.dtype.is_floating_point:
        raise DtypeError("segment_reduce", f"dtype {data.dtype.name}", "segments of floating-point numbers are reduced",
                         "convert with .to(dtype)")
    counts = (lengths if offsets is None else offsets.diff()).to(dtypes.int64)
    if axis != counts.ndim - 1 or counts.shape[:-1] != data.shape[:axis]:
        raise ShapeError("segment_reduce", f"lengths {list(counts.shape)} along axis {axis} of {list(data.shape)}",
                         "lengths have the dimensions of data before the axis, and one more", "change axis or lengths")
    rest = data.shape[axis] - counts.sum(-1, keepdim=True)
    if not unsafe and bool((rest != 0).any()) | bool((counts < 0).any()):
        raise ShapeError("segment_reduce", f"lengths that leave {rest.reshape(-1).tolist()} of {data.shape[axis]}",
                         "lengths are not negative and sum to the size of the axis", "change them, or pass unsafe=True")
    return _reduced(data, reduce, functions.cat([counts, rest], -1), axis, initial)


def _reduced(data: Any, reduce: str, counts: Any, axis: int, initial: Any) -> Any:
    """Segments of checked lengths; the last one of each row is what the others leave."""
    mode, start = _REDUCTIONS[reduce]
    inner = data.shape[axis + 1:]
    flat = data.reshape((math.prod(data.shape[:axis + 1]), *inner))
    segments = functions.repeat_interleave(counts.reshape(-1))
    index = segments.reshape((-1, *(1,) * len(inner))).expand(flat.shape)
    out = data.new_full((counts.numel(), *inner), start if initial is None else initial)
    result = out.scatter_reduce(0, index, flat, mode).reshape((*counts.shape, *inner)).narrow(axis, 0,
                                                                                           counts.shape[-1] - 1)
    if reduce != "mean":
        return result
    number = counts.narrow(-1, 0, counts.shape[-1] - 1).to(data.dtype).reshape(
        (*result.shape[:axis + 1], *(1,) * len(inner)))
    return result / (number if initial is None else number.clamp(min=1))
