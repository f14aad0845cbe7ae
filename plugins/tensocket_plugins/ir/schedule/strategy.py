"""The choice of a nest's schedule."""

from __future__ import annotations

from dataclasses import replace

from ..nodes import IRError, Kernel, Program, Temporary
from ..strategies import GRAIN, GROUPS, Strategy
from ..target import Target
from .cpu import schedule_columns, schedule_lanes_of_rows, schedule_loops, schedule_vectors
from .group_columns import SHARE, is_across, schedule_group_columns, tile
from .group_transpose import schedule_group_transpose
from .groups import schedule_groups
from .matmul import schedule_tiles
from .narrow_rows import pack, packs
from .nest import Names
from .nontemporal_stores import schedule_quotients
from .partials import FEW_LANES, LANES
from .reduce import split, splittable
from .register_runs import schedule_runs
from .simt import schedule_lanes
from .transpose import schedule_transposed
from .vector_lanes import schedule_vector_lanes


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
            parts, extra = _split(kernel, target, names)
            temporaries += extra
            if target.sequential:
                kernels += [schedule_lanes(part, replace(target, group_size=1), names) for part in parts]
                continue
        # There are few partial results, but as many columns of them as before.
        suitable = (strategy, Strategy.GROUP if is_across(parts[-1]) else Strategy.SMALL)
        kernels += [_schedule_kernel(part, target, suits, names)
                    for part, suits in zip(parts, suitable, strict=False)]
    return replace(program, kernels=tuple(kernels), temporaries=tuple(temporaries))


def _split(kernel: Kernel, target: Target, names: Names) -> tuple[tuple[Kernel, ...], tuple[Temporary, ...]]:
    """Split a reduction into parts and their fold."""
    if target.kind == "cpu" or target.sequential or not is_across(kernel):
        return split(kernel, target.parallelism, GRAIN, target.kind == "simt", names)
    width, rows = tile(kernel, target)
    return split(kernel, GROUPS * target.parallelism, rows * SHARE, True, names, width)


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
    grouped = None
    if not serial and not tiled:
        across = None if strategy is Strategy.SMALL else schedule_group_columns(kernel, target, names)
        grouped = across or schedule_groups(kernel, target, names)
    made = tiled or grouped or schedule_group_transpose(kernel, target, names)
    return made or schedule_vector_lanes(kernel, target, names) or schedule_lanes(kernel, target, names)
