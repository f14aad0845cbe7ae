"""Compiled programs: looked up by structure, built on a miss, launched on the thread's stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract import dtypes, plans
from tensocket_plugins.contract.drafts import is_drafting
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit import plans as kit_plans

from ..device import DeviceState
from .drafts import Draft
from .stream_use import note_use

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import ProgramPlan
    from tensocket_plugins.ir.nodes import Program


_LOCK: Final = held_over_forks(threading.Lock(), Rank.PROGRAMS)


def index_dtype(state: DeviceState, sizes: Sequence[int]) -> DType:
    """Return the integer type of index arithmetic.

    It has 32 bits if the device prefers that and all ``sizes`` fit, with room for the lanes of a partly filled group.
    """
    if state.runtime.profile.host_resident or any(n >= 1 << 30 for n in sizes):
        return dtypes.int64
    return dtypes.int32


def launch(state: DeviceState, key: Hashable, build: Callable[[], Program], strategy: Strategy | None,
           buffers: Sequence[Any], scalars: Sequence[int | float]) -> None:
    """Run the program called ``key``; ``build`` makes its nest on first use.

    Args:
        state: The device.
        key: Everything that the program's text depends on, except the strategy.
        build: Makes the unscheduled program.
        strategy: How the schedule maps it to the device; None for a program that is already scheduled.
        buffers: Array handles in the order of the program's buffers.
        scalars: Numbers in the order of the program's scalars.

    Raises:
        KernelError: The backend failed to compile or launch it.
    """
    stream = state.stream
    note_use(buffers, stream)
    program(state, key, build, strategy)(buffers, scalars, stream)


def program(state: DeviceState, key: Hashable, build: Callable[[], Program], strategy: Strategy | None) -> Any:
    """Return the compiled program called ``key``, as ``run(buffers, scalars, stream)``; see ``launch``."""
    return state.programs.get((key, strategy)) or _compile(state, (key, strategy), build, strategy)


def launch_list(state: DeviceState, key: Hashable, build: Callable[[], Program], strategy: Strategy,
                buffers: Sequence[Sequence[Any]], scalars: Sequence[Iterable[int | float]]) -> None:
    """Run the program called ``key`` once for each of many sets of arguments, which are independent of each other.

    Args:
        state: The device.
        key: As in ``launch``; program names of the two don't mix.
        build: Makes the unscheduled program.
        strategy: How the schedule maps it to the device.
        buffers: For each of the program's buffers, a list of array handles.
        scalars: For each of the program's scalars, as many numbers.

    Raises:
        KernelError: The backend failed to compile or launch it.
    """
    run = state.programs.get((key, strategy, "list"))
    if run is None:
        run = _compile(state, (key, strategy, "list"), build, strategy, many=True)
    stream = state.stream
    if not state.runtime.profile.host_resident:
        for column in buffers:
            note_use(column, stream)
    run(buffers, scalars, stream)


def compiled(state: DeviceState, key: Hashable, build: Callable[[], Program], strategy: Strategy) -> Any:
    """Return the compiled program called ``key``; None if it does not compile, and the failure is recorded."""
    with _LOCK:
        run = state.programs.get((key, strategy))
        if run is None:
            nest = build()
            try:
                run = kit_plans.compile_program(state.runtime, _plan(state, nest, strategy))
                state.programs[key, strategy] = run
            except KernelError as error:
                note_failure(state, nest, error)
        return run


def _compile(state: DeviceState, key: Hashable, build: Callable[[], Program], strategy: Strategy | None,
             many: bool = False) -> Any:
    with _LOCK:
        run = state.programs.get(key)
        if run is None:
            nest = build()
            full = partial(_compiled, state, nest, strategy, many)
            if is_drafting() and not many and state.runtime.profile.host_resident:
                plan = _plan(state, nest, strategy, draft=True)
                run = Draft(partial(state.runtime.compile_plan, plan, full), full)
            else:
                run = full()
            state.programs[key] = run
        return run


def _compiled(state: DeviceState, nest: Program, strategy: Strategy | None, many: bool) -> Any:
    """Compile a nest; where the code generator of the host fails, interpret it."""
    plan = _plan(state, nest, strategy)
    try:
        if many:
            return kit_plans.compile_list(state.runtime, plan.schedule())
        return kit_plans.compile_program(state.runtime, plan)
    except KernelError as error:
        if not state.runtime.profile.host_resident:
            raise
        note_failure(state, nest, error)
        return _interpreted(plan.schedule() if strategy is None else nest, many)


def _plan(state: DeviceState, nest: Program, strategy: Strategy | None, *, draft: bool = False) -> ProgramPlan:
    from tensocket_plugins.ir.digest import program_digest
    from tensocket_plugins.ir.pipeline import scheduled

    target = state.runtime.target
    assert target is not None, "only devices with a code generator compile programs"
    text = f"{strategy}\n{target.text}\n{program_digest(nest)}"
    return plans.ProgramPlan(text, partial(scheduled, nest, target, strategy), draft)


def note_failure(state: DeviceState, program: Program, error: KernelError) -> None:
    """Record why a program did not compile; warn at the first failure on a device."""
    from tensocket_plugins.kit import interpreted  # imports the interpreter, which few processes need

    interpreted.note_failure(getattr(state.runtime, "build_stats", None), str(state.device), program, error)


def _interpreted(program: Program, many: bool) -> Any:
    from tensocket_plugins.ir.pipeline import scheduled
    from tensocket_plugins.kit import interpreted

    program = scheduled(program, Target(kind="interpreter"), Strategy.SERIAL)
    return interpreted.interpreted_list(program) if many else interpreted.interpreted(program)
