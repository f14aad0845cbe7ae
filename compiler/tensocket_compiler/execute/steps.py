"""Steps of a graph: a fused kernel, or the call of an operator on tensors made for it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.call import key_of
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.geometry import element_strides
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, LAZY
from tensocket_core.launch.kernel_handles import kernel_handle
from tensocket_core.launch.path import HostKernel, LadderOperator, Planned
from tensocket_core.launch.programs import program
from tensocket_core.launch.stream_use import note_use

from ..capture.numbers import SymFloat, compiled, regions_in
from ..capture.recorder import Operation
from ..capture.whole import WHOLE
from ..memory.regions import Region
from ..schedule.kernels import FusedKernel
from .elements import elements_reader
from .frames import Frame, Layout, allocator
from .tensors import tensor, tensor_key

Step = Callable[[Frame], None]


def is_compiled(state: Any, kernel: FusedKernel) -> bool:
    """Whether a device has the program of a fused kernel."""
    return (kernel.key, kernel.strategy) in state.programs


def compile_kernel(state: Any, kernel: FusedKernel) -> Any:
    """Return the program of a fused kernel, as ``run(buffers, scalars, stream)``."""
    return program(state, kernel.key, lambda: kernel.program, kernel.strategy)


class KernelStep:
    """The step that launches a fused kernel.

    Args:
        layout: The memory.
        state: The device.
        kernel: The kernel.
    """

    __slots__ = ("_given", "_read", "_regions", "_run", "_scalars", "_state")

    def __init__(self, layout: Layout, state: Any, kernel: FusedKernel) -> None:
        self._run, self._state, self._scalars = compile_kernel(state, kernel), state, kernel.scalars
        self._regions = [(layout.number(region), region.dtype) for region in kernel.regions]
        symbolic = [x.expression for x in kernel.numbers if type(x) is SymFloat]
        places = iter(range(len(symbolic)))
        #: The kernel's numbers, and None and the place of those that each call reads.
        self._given = [(None, next(places)) if type(x) is SymFloat else (x, 0) for x in kernel.numbers]
        self._read = numbers_reader(layout, symbolic)

    def __call__(self, frame: Frame) -> None:
        """Launch the kernel."""
        self._launch(frame, self._read(frame))

    def launcher(self, frame: Frame) -> Step:
        """Return a step that launches the kernel with the numbers of a frame, which this reads."""
        found = self._read(frame)
        return lambda frame: self._launch(frame, found)

    def _launch(self, frame: Frame, found: Sequence[float]) -> None:
        buffers = [kernel_handle(frame.handle(number), dtype) for number, dtype in self._regions]
        stream = self._state.stream
        if not self._state.runtime.profile.host_resident:
            note_use(buffers, stream)
        numbers = [found[place] if x is None else x for x, place in self._given]
        self._run(buffers, (*self._scalars, *numbers), stream)


def numbers_reader(layout: Layout, expressions: Iterable[Any]) -> Callable[[Frame], list[float]]:
    """Return a function from a call's memory to the values of expressions of symbolic numbers."""
    given = list(expressions)
    regions = list(dict.fromkeys(x for expression in given for x in regions_in(expression)))
    computes = [compiled(expression, regions) for expression in given]
    numbers, read = [layout.number(region) for region in regions], elements_reader(regions)

    def values(frame: Frame) -> list[float]:
        elements = read([frame.handle(number) for number in numbers])
        return [compute(*elements) for compute in computes]

    return values if given else lambda frame: []


def call_step(layout: Layout, operation: Operation, *, composes: bool = False) -> Step:
    """Return the step that calls an operator as an eager program does, without recording.

    Args:
        layout: The memory.
        operation: The call.
        composes: Whether the operator's reference path runs, which launches kernels.
    """
    operator = operation.operator
    given = [(region, layout.number(region), tensor_key(region)) for region in operation.reads]
    results = () if operator.schema.is_mutable else operation.results
    for region in results:
        layout.number(region)
    positional, named, symbolic = operation.args, operation.keywords, operation.symbolic
    read = numbers_reader(layout, [x.expression for x in symbolic])

    def step(frame: Frame) -> None:
        made = {id(region): tensor(frame.handle(number), key) for region, number, key in given}
        made |= {id(x): value for x, value in zip(symbolic, read(frame), strict=True)}
        with thread_state(exclude=AUTOGRAD):
            args, keywords = _filled(positional, made), _filled(named, made)
            found = _reference(operator, args, keywords) if composes else operator(*args, **keywords)
        if results:
            for region, x in zip(results, found if isinstance(found, (tuple, list)) else (found,), strict=True):
                layout.keep(frame, region, _arranged(x, region))

    return step


def _arranged(result: Any, region: Region) -> Any:
    """Return the array of a result in the layout of its region: paths of an operator may choose different ones."""
    strides, wanted = element_strides(result._array), region.strides
    if 0 in region.shape or all(n == 1 or s == t for n, s, t in zip(region.shape, strides, wanted, strict=True)):
        return result._array
    made = tensor(allocator(region)(), tensor_key(region))
    return made.copy_(result)._array


def _reference(operator: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call the path of an operator that launches kernels: its plan, or else the slowest one.

    An operator that stays whole calls its host path, which launches the kernel that it stays whole for.
    """
    if not isinstance(operator, LadderOperator):
        return operator(*args, **keywords)
    given = operator.gathered(args, {p.name: ast.literal_eval(p.default or "None")
                                     for p in operator.schema.parameters} | keywords)
    key = key_of(operator, given)
    state = BY_KEY.get(key & DEVICE_MASK)
    if state is None or key & LAZY:
        return operator(*args, **keywords)
    rungs = dict(operator.rungs(key, state))
    name = HostKernel.name if operator.name in WHOLE else Planned.name
    return operator.invoke(rungs.get(name, rungs["compose"]), given)


def _filled(value: Any, made: Mapping[int, Any]) -> Any:
    """Return arguments with tensors in place of regions, and values in place of symbolic numbers."""
    if isinstance(value, (Region, SymFloat)):
        return made[id(value)]
    if isinstance(value, dict):
        return {name: _filled(x, made) for name, x in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_filled(x, made) for x in value])
    return value
