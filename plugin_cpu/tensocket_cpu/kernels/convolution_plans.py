"""Flat layouts of convolutions: tables of taps and result positions that depend on shapes alone.

The transpose of a convolution with stride s is one convolution for each of the s phases of its result, each with the
taps that reach this phase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.backend import Executable

Sizes = tuple[int, ...]
Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Flat:
    """The layout of a flat image.

    Attributes:
        shape: Number of rows, and elements of a row.
        used: The element of a row from which on it is zero.
        launches: Programs that write the elements before, with their scalars.
    """

    shape: tuple[int, int]
    used: int
    launches: tuple[tuple[Executable, Sizes], ...]


@dataclass(frozen=True)
class Line:
    """A convolution along one dimension.

    Attributes:
        length: Elements of one phase of the flat image.
        low: Zeros before the image's first element in each phase; negative numbers cut elements off.
        high: The end of the image in each phase.
        stride: Distance in the image between adjacent elements of one phase.
        first: The image's element at ``low`` of each phase, if ``low`` is not negative.
    """

    length: int
    low: Sizes
    high: Sizes
    stride: int
    first: Sizes


@dataclass(frozen=True)
class Phase:
    """One convolution with stride 1 that computes a part of the result.

    Attributes:
        offsets: The offset that a tap adds to the output position to find its element, by channel and tap.
        taps: The row-major indices of the taps that take part.
        rows: The offset in the result at which each row of positions begins; -1 for a row outside of it.
        width: Positions of a row that are in the result.
        hop: Distance between these positions in the result.
        tiles: Number of tiles that cover the positions.
    """

    offsets: Table
    taps: Sizes
    rows: Table
    width: int
    hop: int
    tiles: int


@dataclass(frozen=True)
class Plan:
    """A flat image, and the phases that are computed from it."""

    lines: tuple[Line, ...]
    phases: tuple[Phase, ...]
    complete: bool

    @property
    def parts(self) -> int:
        """The number of phases of the flat image."""
        return math.prod(len(line.low) for line in self.lines)

    @property
    def plane(self) -> int:
        """The number of elements of one phase of one channel."""
        return math.prod(line.length for line in self.lines)


def element_strides(array: Any) -> Sizes:
    """Return the strides of a NumPy array, in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def pitches_of(lengths: Sequence[int]) -> Sizes:
    """Return the strides of a contiguous array with these sizes, in elements."""
    return tuple(math.prod(lengths[d + 1:]) for d in range(len(lengths)))


def offsets_of(channels: int, step: int, taps: Sequence[int]) -> Table:
    """Return the offsets ``c * step + tap`` for all channels c and taps."""
    return (np.arange(channels)[:, None] * step + np.asarray(taps, np.int64)).ravel().astype(np.int64)


def _rows(lengths: Sizes, counts: Sizes, steps: Sizes, starts: Sizes, span: int) -> tuple[Table, int]:
    """Return the table of rows, and the number of tiles.

    ``steps`` and ``starts`` give the strides and the offset of the positions in the result.
    """
    pitches = pitches_of(lengths)
    last = sum((count - 1) * pitch for count, pitch in zip(counts, pitches, strict=True))
    tiles = last // span + 1
    rows = np.full((tiles * span - 1) // lengths[-1] + 2, -1, np.int64)
    begin: Any = np.zeros((1,) * (len(lengths) - 1), np.int64) + starts[-1]
    number: Any = np.zeros((1,) * (len(lengths) - 1), np.int64)
    for d in range(len(lengths) - 1):
        axis = np.arange(counts[d]).reshape(tuple(-1 if k == d else 1 for k in range(len(lengths) - 1)))
        begin = begin + starts[d] + axis * steps[d]
        number = number + axis * (pitches[d] // lengths[-1])
    rows[number.ravel()] = begin.ravel()
    return rows, tiles


@lru_cache(maxsize=256)
def forward_plan(channels: int, sizes: Sizes, kernel: Sizes, outputs: Sizes, stride: Sizes, padding: Sizes,
                 dilation: Sizes, span: int) -> Plan:
    """Return the plan of a convolution with tiles of ``span`` positions."""
    lines, taps = [], []
    for n, k, o, s, p, d in zip(sizes, kernel, outputs, stride, padding, dilation, strict=True):
        length = o + d * (k - 1) // s
        low = [max(0, -((phase - p) // s)) for phase in range(s)]
        high = [max(at, min(length, (n - 1 + p - phase) // s + 1)) for at, phase in zip(low, range(s), strict=True)]
        first = [at * s + phase - p for at, phase in zip(low, range(s), strict=True)]
        lines.append(Line(length, tuple(low), tuple(high), s, tuple(first)))
        taps.append([divmod(d * t, s) for t in range(k)])
    lengths = tuple(line.length for line in lines)
    pitches, plane, phases = pitches_of(lengths), math.prod(lengths), math.prod(stride)
    places = []
    for tap in product(*taps):
        phase = 0
        for (_, part), s in zip(tap, stride, strict=True):
            phase = phase * s + part
        places.append(phase * plane + sum(shift * pitch for (shift, _), pitch in zip(tap, pitches, strict=True)))
    rows, tiles = _rows(lengths, outputs, pitches_of(outputs), (0,) * len(sizes), span)
    only = Phase(offsets_of(channels, phases * plane, places), tuple(range(len(places))), rows, outputs[-1], 1, tiles)
    return Plan(tuple(lines), (only,), True)


@dataclass(frozen=True)
class _Part:
    """One phase of a transposed convolution's result along one dimension."""

    start: int
    count: int
    taps: tuple[tuple[int, int], ...]


def _parts(n: int, k: int, s: int, p: int, d: int) -> list[_Part]:
    """Return the phases along one dimension.

    Result element ``s * q + r - p`` takes tap t of upstream element ``q + (r - d t) / s``, where that is whole.
    """
    parts = []
    for r in range(s):
        first = -((r - p) // s)
        count = max(0, (n - 1 + p - r) // s - first + 1)
        taps = tuple((t, first + (r - d * t) // s) for t in range(k) if (r - d * t) % s == 0)
        if count:
            parts.append(_Part(s * first + r - p, count, taps))
    return parts


@lru_cache(maxsize=256)
def transposed_plan(channels: int, sizes: Sizes, kernel: Sizes, outputs: Sizes, stride: Sizes, padding: Sizes,
                    dilation: Sizes, span: int) -> Plan:
    """Return the plan of a transposed convolution; ``outputs`` are the sizes of upstream, ``sizes`` of the result."""
    every = [_parts(*line) for line in zip(sizes, kernel, stride, padding, dilation, strict=True)]
    lines, before = [], []
    for parts, o in zip(every, outputs, strict=True):
        shifts = [shift for part in parts for _, shift in part.taps] or [0]
        zeros = -min(shifts)
        length = max([part.count + shift + zeros for part in parts for _, shift in part.taps] or [1])
        low = max(0, zeros)
        lines.append(Line(length, (low,), (max(low, min(length, o + zeros)),), 1, (low - zeros,)))
        before.append(zeros)
    lengths = tuple(line.length for line in lines)
    pitches, steps, plane = pitches_of(lengths), pitches_of(sizes), math.prod(lengths)
    phases = []
    complete = True
    for combined in product(*every):
        taps = list(product(*(part.taps for part in combined)))
        if not taps:
            complete = False
            continue
        numbers = tuple(sum(t * step for (t, _), step in zip(tap, pitches_of(kernel), strict=True)) for tap in taps)
        places = [sum((shift + zeros) * pitch for (_, shift), zeros, pitch in zip(tap, before, pitches, strict=True))
                  for tap in taps]
        rows, tiles = _rows(lengths, tuple(part.count for part in combined),
                            tuple(s * step for s, step in zip(stride, steps, strict=True)),
                            tuple(part.start * step for part, step in zip(combined, steps, strict=True)), span)
        phases.append(Phase(offsets_of(channels, plane, places), numbers, rows,
                             combined[-1].count, stride[-1], tiles))
    return Plan(tuple(lines), tuple(phases), complete)
