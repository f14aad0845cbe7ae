"""The choice of a nest's schedule."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final

from ..nodes import IRError, Kernel, Program
from ..target import Target
from .cpu import schedule_columns, schedule_lanes_of_rows, schedule_loops, schedule_vectors
from .groups import schedule_groups
from .matmul import schedule_tiles
from .narrow_rows import WIDTH, pack, packs
from .nest import Names
from .nontemporal_stores import schedule_quotients
from .partials import FEW_LANES, LANES
from .reduce import split, splittable
from .register_runs import schedule_runs
from .simt import schedule_lanes
from .transpose import schedule_transposed

#: Maximum length of a reduction that one lane computes.
SHORT: Final = 64
#: The same on a processor, where a vector may be partly filled.
SHORT_VECTOR: Final = 8
#: Adjacent elements in a row of a reduction for which few lanes are best.
FEW: Final = 128
#: Elements from which rows of few columns are worth two kernels.
FEWEST: Final = 1 << 12
#: Iterations of a reduction that are worth their own group (or their own task of a processor's threads).
GRAIN: Final = 1 << 14


class Strategy(Enum):
    """The use of a device by a nest with reductions; all strategies schedule a nest without reductions alike.

    SERIAL: one lane (on a processor: one plain loop) per output iteration.
    SMALL: like GROUP, for rows of few elements.
    GROUP: one group of lanes (on a processor: one loop over vectors) per output iteration.
    SPLIT: like GROUP, with each output's reduction spread over several groups, and a second kernel that combines them.
    PACKED: for rows of few columns without gaps: on a processor, several rows at once, and a second kernel that
        combines them; else like SPLIT.
    """

    SERIAL = "serial"
    SMALL = "small"
    GROUP = "group"
    SPLIT = "split"
    PACKED = "packed"


def pick_strategy(outer: int, length: int, target: Target, inner: int | None = None, *,
                  packed: bool = False) -> Strategy:
    """Return the strategy that suits a nest with ``outer`` output iterations of ``length`` reduction iterations each.

    Args:
        outer: Number of output iterations.
        length: Number of reduction iterations.
        target: The device's limits.
        inner: Iterations of the innermost reduction loop; by default, there is only one loop.
        packed: Whether rows without gaps between them are reduced for every column.
    """
    if packed and target.kind == "cpu" and outer <= WIDTH and outer * length >= FEWEST:
        return Strategy.PACKED
    if length <= (SHORT_VECTOR if target.kind == "cpu" else SHORT):
        return Strategy.SERIAL
    if outer < target.parallelism and length >= 2 * GRAIN:
        return Strategy.SPLIT
    if target.kind == "simt" and (
            target.local_bytes == 0 or target.sequential or outer >= target.parallelism * target.group_size):
        return Strategy.SERIAL
    few = target.kind == "cpu" and (length if inner is None else inner) <= FEW
    return Strategy.SMALL if few else Strategy.GROUP


def schedule(program: Program, target: Target, strategy: Strategy) -> Program:
    """Replace the PARALLEL loops and reductions of a verified nest by the features of ``target``.

    A strategy that a kernel cannot use gives way to the next simpler one: SPLIT to GROUP if the nest has statements
    other than one reduction and its stores, GROUP to SERIAL if local memory is too small. A matrix product is tiled
    unless it is split.

    Raises:
        IRError: The program is already scheduled.
    """
    if target.kind == "interpreter":
        return program
    names = Names(program)
    kernels: list[Kernel] = []
    temporaries = list(program.temporaries)
    for kernel in program.kernels:
        if kernel.locals:
            raise IRError(f"kernel {kernel.name} has local arrays: it is scheduled already")
        parts: tuple[Kernel, ...] = (kernel,)
        if strategy is Strategy.PACKED and target.kind == "cpu" and packs(kernel):
            parts, extra = pack(kernel, target.parallelism, GRAIN, names)
            temporaries += extra
        elif strategy in (Strategy.SPLIT, Strategy.PACKED) and splittable(kernel):
            parts, extra = split(kernel, target.parallelism, GRAIN, target.kind == "simt", names)
            temporaries += extra
            if target.sequential:
                kernels += [schedule_lanes(part, replace(target, group_size=1), names) for part in parts]
                continue
        # There are few partial results.
        suitable = (strategy, Strategy.SMALL)
        kernels += [_schedule_kernel(part, target, suits, names)
                    for part, suits in zip(parts, suitable, strict=False)]
    return replace(program, kernels=tuple(kernels), temporaries=tuple(temporaries))


def _schedule_kernel(kernel: Kernel, target: Target, strategy: Strategy, names: Names) -> Kernel:
    serial = strategy is Strategy.SERIAL
    if target.kind == "cpu":
        if runs := schedule_runs(kernel, names):
            return runs
        # A nest that is worth splitting has too few outputs for columns.
        columns = None if strategy is Strategy.SPLIT else schedule_columns(kernel, names)
        made = columns or schedule_transposed(kernel, names) or (schedule_lanes_of_rows(kernel, names) if serial
                                                                 else None)
        made = made or schedule_quotients(kernel, names)
        if made or serial:
            return made or schedule_loops(kernel, names)
        return schedule_vectors(kernel, names, FEW_LANES if strategy is Strategy.SMALL else LANES)
    tiled = schedule_tiles(kernel, target, names)
    grouped = None if serial or tiled else schedule_groups(kernel, target, names)
    return tiled or grouped or schedule_lanes(kernel, target, names)
