"""Weighted sums of elements of feature maps: positions with weights per axis, sums of rows, and the transposed sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tensocket_plugins.contract.dtypes import int64

from .. import creation, functions

#: The elements that a part of a call reads at most; gradients, and devices without a kernel for bags, hold them at once
#: (128 MiB of float32). ``roi_align`` of 1000 boxes (256 channels, 7x7 bins of 4 samples) took 540 ms with 1 << 20, 210
#: with 1 << 24 and 130 with 1 << 26, on two busy cores.
PART: Final = 1 << 25


class Taps(NamedTuple):
    """Positions along one axis that each bin of each box reads, and their weights.

    Attributes:
        index: [boxes, bins, taps], int64, within the axis.
        weight: [boxes, bins, taps]; 0 for positions that are not read.
    """

    index: Any
    weight: Any


def steps(count: int, like: Any, dtype: Any) -> Any:
    """Return 0, 1, ..., count - 1 on a tensor's device."""
    return creation.arange(count, device=like.device).to(dtype)


def interpolated(position: Any, used: Any, size: int) -> Taps:
    """Return the two neighbours of positions [boxes, bins, samples] with the weights of linear interpolation.

    A position up to one element outside of the axis counts as one at its border; those further out, and NaN, as zeros.

    Args:
        position: Where samples lie.
        used: Which samples count; broadcasts to ``position``.
        size: Elements of the axis.
    """
    inside = (position >= -1) & (position <= size)
    position = functions.where(inside, position, 0).clamp(0, size - 1)
    low = position.floor()
    share = position - low
    index = low.to(int64)
    index = functions.stack([index, (index + 1).clamp_max(size - 1)], -1)
    weight = functions.stack([1 - share, share], -1) * (inside & used).unsqueeze(-1)
    return Taps(index.flatten(2), weight.flatten(2))


def averaged(position: Any, used: Any, size: int) -> Taps:
    """Return what ``interpolated`` does, with one tap for each element that the samples of a bin read.

    Samples are one element apart at most, so that n samples read n + 1 adjacent elements.
    """
    inside = (position >= -1) & (position <= size) & used
    position = functions.where(position == position, position, 0).clamp(0, size - 1)
    first = position.amin(2, keepdim=True).floor()
    index = first + steps(position.shape[2] + 1, position, position.dtype)
    share = (1 - (position.unsqueeze(-1) - index.unsqueeze(-2)).abs()).clamp_min(0) * inside.unsqueeze(-1)
    return Taps(index.clamp_max(size - 1).to(int64), share.sum(2))


def contained(start: Any, end: Any, length: int, dtype: Any) -> Taps:
    """Return all positions from ``start`` to before ``end`` ([boxes, bins], int64), with weight 1.

    Taps beyond the end repeat the last position, with weight 0.
    """
    index = start.unsqueeze(-1) + steps(length, start, int64)
    end = end.unsqueeze(-1)
    return Taps(index.minimum(end - 1).clamp_min(0), (index < end).to(dtype))


def product(rows: Taps, columns: Taps, base: Any, width: int) -> Taps:
    """Return the taps of rectangular bins as positions in flat maps: [boxes, bins, bins, taps].

    Args:
        rows: Vertical taps.
        columns: Horizontal taps.
        base: The first element of each bin's map; broadcasts to [boxes, bins, bins].
        width: Elements of a map's row.
    """
    index = rows.index[:, :, None, :, None] * width + columns.index[:, None, :, None, :]
    weight = rows.weight[:, :, None, :, None] * columns.weight[:, None, :, None, :]
    return Taps((index + base[..., None, None]).flatten(3), weight.flatten(3))


def weighted_sums(table: Any, taps: Taps) -> Any:
    """Return the weighted sums of a table's rows [rows, channels]: [..., channels].

    The rows are contiguous: the kernel for processors takes no others.
    """
    count = taps.index.shape[-1]
    sums = functions.embedding_bag(taps.index.reshape(-1, count), table, None, False, "sum", False,
                                   taps.weight.reshape(-1, count))
    return sums.reshape(*taps.index.shape[:-1], table.shape[1])


def add_transposed(table: Any, grad: Any, taps: Taps) -> None:
    """Add gradients of weighted sums [..., channels] to the gradient of the table, in place."""
    rows = taps.weight.unsqueeze(-1) * grad.unsqueeze(-2)
    table.index_add_(0, taps.index.reshape(-1), rows.reshape(-1, table.shape[1]))


def parts(sizes: Any, number: int, cost: int) -> Iterator[tuple[Any, int]]:
    """Return the parts of a call, each with the boxes (a slice, or their positions) and their largest size.

    Args:
        sizes: Taps per axis, for each box, or one number for all.
        number: The number of boxes.
        cost: Elements that a box with one tap reads.
    """
    if isinstance(sizes, int):
        count = max(PART // max(cost * sizes * sizes, 1), 1)
        for begin in range(0, number, count):
            yield slice(begin, min(begin + count, number)), sizes
        return
    ordered, order = sizes.sort()
    known = ordered.tolist()
    begin = 0
    while begin < number:
        count = number - begin
        while count > 1 and count * cost * known[begin + count - 1] ** 2 > PART:
            count //= 2
        yield order[begin:begin + count], max(known[begin + count - 1], 1)
        begin += count


def joined(selections: list[Any], results: list[Any]) -> Any:
    """Return the results of all parts, one per box, in the order of the boxes."""
    together = results[0] if len(results) == 1 else functions.cat(results)
    if isinstance(selections[0], slice):
        return together
    order = selections[0] if len(selections) == 1 else functions.cat(selections)
    return together.index_select(0, order.argsort())


__all__ = ["Taps", "add_transposed", "averaged", "contained", "interpolated", "joined", "parts", "product", "steps",
           "weighted_sums"]
