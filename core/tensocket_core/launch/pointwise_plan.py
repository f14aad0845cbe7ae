"""Generated pointwise kernels: a formula over handles and numbers as one nest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.strategies import Strategy

from ..device import DeviceState
from ..geometry import coalesce, contiguous, element_strides, expand, expanded_strides
from ..strides import memory_order
from .kernel_handles import kernel_handle
from .numbers import NUMBER_TYPES, as_number
from .plan import Plan, launch_planned
from .programs import index_dtype, program

if TYPE_CHECKING:
    from tensocket_plugins.ir.nodes import Program


#: Elements along both of two dimensions from which a transposition reads and writes whole cache lines.
_SQUARE: Final = 16


def run_generated(state: DeviceState, name: tuple[Any, ...], formula: Callable[..., Any],
                  operands: Sequence[tuple[Any, DType]], shape: tuple[int, ...],
                  results: Sequence[tuple[Any, DType]]) -> None:
    """Run a formula as a generated kernel.

    Args:
        state: The device.
        name: The operator's name, then everything else that the kernel's text depends on, except the geometry.
        formula: Over one expression per operand.
        operands: Handles or Python numbers, with their element types.
        shape: Shape of the results; operands broadcast to it. Not empty.
        results: Handles and element types.
    """
    arrays = [(x, dtype) for x, dtype in operands if type(x) not in NUMBER_TYPES]
    numbers = [n for x, dtype in operands if type(x) in NUMBER_TYPES for n in _arguments(x, arithmetic_dtype(dtype))]

    def plan() -> Plan:
        key, build, geometry = prepared(state, name, formula, operands, shape, results)
        return Plan(program(state, key, build, Strategy.SERIAL), tuple(geometry))

    forms = tuple([(type(x) if type(x) in NUMBER_TYPES else None, dtype) for x, dtype in (*results, *operands)])
    launch_planned(state, (name, shape, forms), [kernel_handle(x, dtype) for x, dtype in (*results, *arrays)], plan,
                   numbers)


def prepared(state: DeviceState, name: tuple[Any, ...], formula: Callable[..., Any],
             operands: Sequence[tuple[Any, DType]], shape: tuple[int, ...], results: Sequence[tuple[Any, DType]]
             ) -> tuple[Hashable, Callable[[], Program], list[int]]:
    """Return the parts of a launch of ``run_generated``: the program's key and builder, the scalars before the numbers.

    They depend on shapes and strides only, not on the arrays that have them.
    """
    from tensocket_plugins.ir.build.nest import Operand, pointwise_nest

    arrays = [(x, dtype) for x, dtype in operands if type(x) not in NUMBER_TYPES]
    flat = all(x.shape == shape and contiguous(x) for x, _ in (*arrays, *results))
    if not flat:
        order = memory_order(shape, [element_strides(results[0][0])])
        if order != sorted(order):
            # Loops walk through the result's memory in order: transposed like this, the result is row-major.
            turned = [[(x if type(x) in NUMBER_TYPES else expand(x, shape).transpose(tuple(order)), dtype)
                       for x, dtype in group] for group in (operands, results)]
            return prepared(state, name, formula, turned[0], turned[1][0][0].shape, turned[1])
    strides: list[tuple[int, ...]] = []
    if flat:
        sizes: tuple[int, ...] = (results[0][0].size,)
    else:
        sizes, strides = coalesce(shape, [expanded_strides(x.shape, element_strides(x), shape)
                                          for x, _ in (*results, *arrays)])
    kind: Literal["flat", "strided"] = "flat" if flat else "strided"
    known = _known_strides(state, sizes, strides)
    targets = tuple(Operand(kind, dtype, *known(k)) for k, (_, dtype) in enumerate(results))
    places = iter(range(len(results), len(results) + len(arrays)))
    specs = tuple(Operand("number", dtype) if type(x) in NUMBER_TYPES else Operand(kind, dtype, *known(next(places)))
                  for x, dtype in operands)
    reach = [sum((n - 1) * abs(s) for n, s in zip(sizes, step, strict=True)) for step in strides]
    words = 2 if any(dtype.kind == "complex" for _, dtype in (*results, *arrays)) else 1
    index = index_dtype(state, [words * n for n in (*sizes, results[0][0].size, *reach)])
    return ((name, specs, targets, len(sizes), index),
            lambda: pointwise_nest(name[0], formula, specs, targets, len(sizes), index),
            [*sizes, *(s for step in strides for s in step)])


def _known_strides(state: DeviceState, sizes: tuple[int, ...], strides: Sequence[tuple[int, ...]]
                   ) -> Callable[[int], tuple[int | None, bool]]:
    """Return a function from an array's number to its compile-time strides: ``along`` and ``still`` of ``Operand``.

    Vectors and tiles need them; lanes that run one after the other have neither. If the schedule transposes, each array
    has stride 1 along one of two dimensions: the results' last one, and the first other one that is found.
    """
    target, last = state.runtime.target, len(sizes) - 1
    if not strides or target is None or target.kind == "interpreter" or target.sequential:
        return _nothing
    turned = [k for step in strides if step[last] not in (0, 1)
              for k in range(last) if step[k] == 1 and sizes[k] >= _SQUARE]
    other = turned[0] if turned and strides[0][last] == 1 and sizes[last] >= _SQUARE else last

    def known(array: int) -> tuple[int | None, bool]:
        step = strides[array]
        return (last if step[last] == 1 else other if step[other] == 1 else None), step[last] == 0

    return known


def _nothing(array: int) -> tuple[None, bool]:
    return None, False


def _arguments(value: Any, dtype: DType) -> tuple[Any, ...]:
    """Return a Python number as scalar arguments: two for a complex one."""
    number = as_number(value, dtype)
    return (number.real, number.imag) if dtype.kind == "complex" else (number,)
