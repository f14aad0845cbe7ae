"""Steps of a graph: a fused kernel, or the call of an operator on tensors made for it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.call import key_of
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.geometry import element_strides
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DIM0, LAZY, dtype_bit
from tensocket_core.launch.kernel_handles import kernel_handle
from tensocket_core.launch.path import HostKernel, LadderOperator, Planned
from tensocket_core.launch.programs import program
from tensocket_core.launch.stream_use import note_use
from tensocket_core.tensor import Tensor
from tensocket_plugins.ir.digest import program_digest

from ..capture.numbers import SymFloat, compiled, regions_in
from ..capture.recorder import Operation
from ..capture.whole import WHOLE
from ..memory.regions import Region
from ..schedule.kernels import FusedKernel
from .frames import Frame, Layout, allocator

_new = object.__new__
Step = Callable[[Frame], None]


def is_compiled(state: Any, kernel: FusedKernel) -> bool:
    """Whether a device has the program of a fused kernel."""
    return (_key(kernel), kernel.strategy) in state.programs


def compile_kernel(state: Any, kernel: FusedKernel) -> Any:
    """Return the program of a fused kernel, as ``run(buffers, scalars, stream)``."""
    return program(state, _key(kernel), lambda: kernel.program, kernel.strategy)


def _key(kernel: FusedKernel) -> tuple[str, str]:
    return "graph", program_digest(kernel.program)


def kernel_step(layout: Layout, state: Any, kernel: FusedKernel) -> Step:
    """Return the step that launches a fused kernel."""
    run = compile_kernel(state, kernel)
    numbers = [(layout.number(region), region.dtype) for region in kernel.regions]
    scalars = kernel.scalars
    given = [number_reader(layout, x.expression) if type(x) is SymFloat else x for x in kernel.numbers]

    def step(frame: Frame) -> None:
        buffers = [kernel_handle(frame.handle(number), dtype) for number, dtype in numbers]
        stream = state.stream
        if not state.runtime.profile.host_resident:
            note_use(buffers, stream)
        run(buffers, (*scalars, *[x(frame) if callable(x) else x for x in given]), stream)

    return step


def number_reader(layout: Layout, expression: Any) -> Callable[[Frame], float]:
    """Return a function from a call's memory to the value of an expression of a symbolic number."""
    regions = list(dict.fromkeys(regions_in(expression)))
    compute = compiled(expression, regions)
    numbers = [layout.number(region) for region in regions]

    def element(array: Any) -> float:
        if type(array) is not np.ndarray:
            raise NotImplementedError("numbers that follow from memory of a device")
        return float(array)

    return lambda frame: compute(*[element(frame.handle(number)) for number in numbers])


def call_step(layout: Layout, operation: Operation, *, composes: bool = False) -> Step:
    """Return the step that calls an operator as an eager program does, without recording.

    Args:
        layout: The memory.
        operation: The call.
        composes: Whether the operator's reference path runs, which launches kernels.
    """
    operator, state = operation.operator, operation.device
    given = [(region, layout.number(region), tensor_key(state, region)) for region in operation.reads]
    results = () if operator.schema.is_mutable else operation.results
    for region in results:
        layout.number(region)
    positional, named = operation.args, operation.keywords

    def step(frame: Frame) -> None:
        made = {id(region): tensor(frame.handle(number), key) for region, number, key in given}
        with thread_state(exclude=AUTOGRAD):
            args, keywords = _filled(positional, made), _filled(named, made)
            found = _reference(operator, args, keywords) if composes else operator(*args, **keywords)
        if results:
            for region, x in zip(results, found if isinstance(found, (tuple, list)) else (found,), strict=True):
                layout.keep(frame, region, _arranged(x, region, state))

    return step


def _arranged(result: Any, region: Region, state: Any) -> Any:
    """Return the array of a result in the layout of its region: paths of an operator may choose different ones."""
    strides, wanted = element_strides(result._array), region.strides
    if 0 in region.shape or all(n == 1 or s == t for n, s, t in zip(region.shape, strides, wanted, strict=True)):
        return result._array
    made = tensor(allocator(state, region)(), tensor_key(state, region))
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
    """Return arguments with tensors in place of regions."""
    if isinstance(value, Region):
        return made[id(value)]
    if isinstance(value, dict):
        return {name: _filled(x, made) for name, x in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_filled(x, made) for x in value])
    return value


def tensor_key(state: Any, region: Region) -> int:
    """Return the key of a tensor that is a region."""
    return int(state.key | dtype_bit(region.dtype) | (0 if region.shape else DIM0))


def tensor(array: Any, key: int) -> Any:
    """Return a new tensor around a handle."""
    made = _new(Tensor)
    made._array, made._key = array, key
    made._grad = made._grad_fn = made._version_counter = made._base = None
    return made
