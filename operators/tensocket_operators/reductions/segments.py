"""Reductions of segments that follow each other along a dimension."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.geometry import normalize_axis
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ..kinds.composite import composite

#: By name, the reduction of ``scatter_reduce``, and the result of segments without elements.
_LARGEST: Final = ("amax", -math.inf)
_SMALLEST: Final = ("amin", math.inf)
_REDUCTIONS: Final = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": _LARGEST,
                      "min": _SMALLEST, "amax": _LARGEST, "amin": _SMALLEST}


@composite("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
           "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor", method=False)
def segment_reduce(data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
                   axis: int = 0, unsafe: bool = False, initial: Any = None) -> Any:
    """Reduce segments of ``data`` along ``axis``: the first ``lengths[0]`` elements, the next ``lengths[1]`` and so on.

    Args:
        data: Floating-point numbers of shape [.., n, *].
        reduce: ``sum``, ``mean``, ``prod``, ``max`` or ``amax``, ``min`` or ``amin``.
        lengths: Integers of shape [.., segments], with the dimensions of ``data`` before ``axis``.
        indices: Not supported, as in PyTorch.
        offsets: Instead of lengths, the positions at which segments begin and the last one ends: [.., segments + 1].
            Elements before the first and after the last offset belong to no segment.
        axis: The dimension; it is the last one of ``lengths``.
        unsafe: Whether lengths may sum to less than n; they are not checked then.
        initial: Initial value of every reduction. Without it, segments without elements have 0 as their sum, 1 as
            their product, NaN as their mean, and an infinity as their largest and smallest element.

    Returns:
        Shape [.., segments, *], dtype as ``data``.

    Raises:
        ArgumentError: The reduction is unknown, or not exactly one of lengths and offsets is given.
        DtypeError: ``data`` does not hold floats.
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
    axis = normalize_axis("segment_reduce", axis, data.ndim)
    counts = (lengths if offsets is None else offsets.diff()).to(dtypes.int64)
    if axis != counts.ndim - 1 or counts.shape[:-1] != data.shape[:axis]:
        raise ShapeError("segment_reduce", f"lengths {list(counts.shape)} along axis {axis} of {list(data.shape)}",
                         "lengths have the dimensions of data before the axis, and one more", "change axis or lengths")
    before = counts.new_zeros((*counts.shape[:-1], 1)) if offsets is None else offsets.narrow(-1, 0, 1).to(dtypes.int64)
    rest = data.shape[axis] - counts.sum(-1, keepdim=True) - before
    if not unsafe and _wrong(before, counts, rest, whole=offsets is None):
        raise ShapeError("segment_reduce", f"lengths that leave {rest.reshape(-1).tolist()} of {data.shape[axis]}: "
                         "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe",
                         "lengths are not negative and sum to the size of the axis", "change them, or pass unsafe=True")
    return _reduced(data, reduce, functions.cat([before, counts, rest], -1), axis, initial)


def _wrong(before: Any, counts: Any, rest: Any, *, whole: bool) -> bool:
    """Whether segments extend beyond the axis, or do not fill it although ``whole`` is set."""
    outside = bool((before < 0).any()) or bool((counts < 0).any()) or bool((rest < 0).any())
    return outside or (whole and bool((rest != 0).any()))


def _reduced(data: Any, reduce: str, counts: Any, axis: int, initial: Any) -> Any:
    """Reduce segments of checked lengths; the first and the last one of each row hold the elements between segments."""
    mode, start = _REDUCTIONS[reduce]
    inner = data.shape[axis + 1:]
    flat = data.reshape((math.prod(data.shape[:axis + 1]), *inner))
    segments = functions.repeat_interleave(counts.reshape(-1))
    index = segments.reshape((-1, *(1,) * len(inner))).expand(flat.shape)
    out = data.new_full((counts.numel(), *inner), start if initial is None else initial)
    made = out.scatter_reduce(0, index, flat.detach() if mode in ("amax", "amin") else flat, mode)
    if mode in ("amax", "amin"):
        made = _attach_extreme_gradient(made, index, flat)
    result = made.reshape((*counts.shape, *inner)).narrow(axis, 1, counts.shape[-1] - 2)
    if reduce != "mean":
        return result
    number = counts.narrow(-1, 1, counts.shape[-1] - 2).to(data.dtype).reshape(
        (*result.shape[:axis + 1], *(1,) * len(inner)))
    return result / (number if initial is None else number.clamp(min=1))


def _attach_extreme_gradient(extremes: Any, index: Any, flat: Any) -> Any:
    """Attach gradients to extremes of segments: equal elements and NaN share their segment's, ``initial`` gets none."""
    marks = (flat != flat) | (flat == extremes.gather(0, index))
    marks = marks.to(flat.dtype)
    number = extremes.new_zeros(extremes.shape).scatter_add(0, index, marks)
    shares = functions.where(marks != 0, flat / number.gather(0, index).clamp(min=1), 0)
    total = extremes.new_zeros(extremes.shape).scatter_add(0, index, shares)
    # The difference is exact, so that the sum is the extreme itself.
    exact = functions.where(total.detach().isfinite(), total + (extremes - total).detach(), total)
    return functions.where(number != 0, exact, extremes)
