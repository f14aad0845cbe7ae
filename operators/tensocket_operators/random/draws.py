"""Draws: arrays of random numbers from a generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import contiguous
from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.launch.primitives import primitive, run_formula
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import UndefinedDtype
from tensocket_plugins.ir.element_types import COMPONENT, arithmetic_dtype
from tensocket_plugins.ir.strategies import Strategy

from ..kinds.pointwise import kind_letter
from . import nest
from .ahead import FEW, small_draw
from .distributions import (
    EXACT,
    INT_RANGE,
    NORMAL,
    PLAIN_NORMAL,
    PLAIN_UNIFORM,
    UNIFORM,
    Formula,
    bits64,
    integers64,
    plain_bits64,
    side_by_side,
)
from .generator import Generator, generator_of


def draw_array(name: str, formula: Formula, device_state: DeviceState, shape: tuple[int, ...], dtype: DType,
               words: int, generator: Generator | None, numbers: Sequence[float] = ()) -> Any:
    """Return a new array filled by ``fill_draw``."""
    count = math.prod(shape)
    if 0 < count <= FEW and not ACTIVE:
        made = small_draw(device_state, formula, dtype, words, shape, generator, numbers)
        if made is not None:
            return made
    out = device_state.runtime.empty(shape, dtype, device_state.stream)
    if count:
        fill_draw(name, formula, device_state, out, dtype, words, generator, numbers)
    return out


def fill_draw(name: str, formula: Formula, device_state: DeviceState, out: Any, dtype: DType, words: int,
              generator: Generator | None, numbers: Sequence[float] = ()) -> None:
    """Fill a contiguous array by a formula from the generator's words and, if it takes any, ``numbers``.

    Numbers are ints (int64) or floats (of ``dtype``), and a formula always takes the same types. A device without a
    code generator supports only formulas without numbers.
    """
    count = out.size
    seed, offset = (generator or generator_of(device_state)).take(-(-count * words // 4))
    if not device_state.holds_data:
        return
    known = device_state.programs.get((formula, dtype))
    if known is not None:
        run, group = known
        run([out], [count, -(-count * words // group), seed & 0xFFFFFFFF, seed >> 32, offset, *numbers],
            device_state.stream)
    elif device_state.runtime.target is None:
        _draw_primitives(name, device_state, out, dtype, words, seed, offset)
    else:
        _first_draw(name, formula, device_state, out, dtype, words, (seed & 0xFFFFFFFF, seed >> 32, offset), numbers)


def drawn_in_place(operator: str, formulas: tuple[Formula, Formula], input: Any, generator: Generator | None,
                   numbers: Sequence[float]) -> bool:
    """Fill a contiguous float32 or float64 tensor without history by one kernel, if no mode or transform is active.

    Returns:
        Whether the tensor was filled; if not, nothing was drawn.
    """
    dtype, device_state, array = input.dtype, input._device_state, input._array
    if not all(isinstance(number, (int, float)) for number in numbers):
        return False
    if ACTIVE or input._key & ~DIM0 != device_state.key | dtype_bit(dtype) or device_state.runtime.target is None:
        return False
    if (dtype is not dtypes.float32 and dtype is not dtypes.float64) or not array.size or not contiguous(array):
        return False
    check_writable(operator, input)
    wide = dtype is dtypes.float64
    given = [*map(float, numbers)]
    made = small_draw(device_state, formulas[wide], dtype, 1 + wide, array.shape, generator, given) if (
        array.size <= FEW) else None
    if made is None:
        fill_draw(operator, formulas[wide], device_state, array, dtype, 1 + wide, generator, given)
    else:
        array[...] = made
    bump(input)
    return True


def _first_draw(name: str, formula: Formula, device_state: DeviceState, out: Any, dtype: DType, words: int,
                state: tuple[int, int, int], numbers: Sequence[float]) -> None:
    """Fill an array by a program that is looked up or compiled, and on the host store it for later draws."""
    index, side, count = index_dtype(device_state, (out.size,)), side_by_side(formula), out.size
    kinds = [dtypes.int64 if isinstance(number, int) else dtype for number in numbers]
    key = (name, formula, dtype, index)
    launch(device_state, key, lambda: nest.block_nest(name, formula, dtype, index, kinds, side), Strategy.SERIAL, [out],
           [count, -(-count * words // (4 * side)), *state, *numbers])
    if device_state.runtime.profile.host_resident:  # index arithmetic is the same for all sizes
        device_state.programs[formula, dtype] = device_state.programs[key, Strategy.SERIAL], 4 * side


def through_transforms(name: str, draw: Callable[[tuple[int, ...]], Any]) -> Any:
    """Return ``draw(())``; under transforms that want one draw per example, draw for all examples as their tensor."""
    if not ACTIVE:
        return draw(())
    transforms = STATE.transforms
    copies = [transform.copies(name) for transform in transforms]
    tensor = draw(tuple([n for n in copies if n is not None]))
    for transform, count in zip(transforms, copies, strict=True):
        tensor = transform.created(tensor, count is not None)
    if STATE.inference is not None:
        STATE.inference(tensor)
    return tensor


def drawn_tensor(name: str, formula: Formula, device_state: DeviceState, shape: tuple[int, ...], dtype: DType,
           words: int, generator: Generator | None, numbers: Sequence[float] = ()) -> Any:
    """Return a tensor of drawn numbers; the arguments are those of ``draw_array``."""
    if not ACTIVE:
        drawn = draw_array(name, formula, device_state, shape, dtype, words, generator, numbers)
        return wrap(drawn, device_state.key | dtype_bit(dtype))
    return through_transforms(name, lambda lead: wrap(
        draw_array(name, formula, device_state, (*lead, *shape), dtype, words, generator, numbers),
        device_state.key | dtype_bit(dtype)))


def whole_numbers(device_state: DeviceState, shape: tuple[int, ...], dtype: DType, low: int, high: int,
                  generator: Generator | None) -> Any:
    """Return a tensor of whole numbers in [low, high), of ``dtype`` or int64: 63 random bits modulo the range."""
    size, target = high - low, device_state.runtime.target
    # A range of 2^63 numbers takes all 63 bits; int64 cannot represent its size.
    if target is not None and target.float64 and size < INT_RANGE:
        stored = dtype if dtype.kind == "int" else dtypes.int64
        return drawn_tensor("randint", integers64, device_state, shape, stored, 2, generator, (size, low))
    drawn = drawn_tensor("bits", bits64, device_state, shape, dtypes.int64, 2, generator)
    if size <= INT_RANGE:
        return (drawn if size == INT_RANGE else drawn % size) + low
    # Choose between the first 2^63 numbers of the range and the others, with the probability of each part.
    others = whole_numbers(device_state, shape, dtypes.int64, low + INT_RANGE, high, generator)
    chosen = drawn_tensor("bits", bits64, device_state, shape, dtypes.int64, 2, generator)
    return (drawn + low).where(chosen < INT_RANGE * INT_RANGE // size, others)


def _draw_primitives(name: str, device_state: DeviceState, out: Any, dtype: DType, words: int, seed: int,
                     offset: int) -> None:
    """Draw the same numbers by the primitive ``philox_bits``; only float64 normals use the backend's own functions."""
    count = out.size
    blocks = -(-count * words // 4)
    bits = device_state.runtime.empty((4 * blocks,), dtypes.uint32, device_state.stream)
    primitive(name, device_state, "philox_bits", dtypes.uint32)([bits], [], (seed, offset), device_state.stream)
    lanes = [bits[k::words] for k in range(words)]
    flat = out.reshape((count,))
    if name != "randn":
        formula = plain_bits64 if name == "bits" else PLAIN_UNIFORM[words]
        run_formula(
            name, device_state, formula, [(lane[:count], dtypes.uint32)
                                          for lane in lanes], dtype, (count,), flat, dtype, None
        )
        return
    step = 2 * words
    operands = [(bits[k::step], dtypes.uint32) for k in range(step)]
    for formula, part in zip(PLAIN_NORMAL[words], (flat[0::2], flat[1::2]), strict=True):
        if part.size:
            used = [(x[: part.size], kind) for x, kind in operands]
            fresh = device_state.runtime.empty(part.shape, dtype, device_state.stream)
            run_formula(name, device_state, formula, used, dtype, part.shape, fresh, dtype, None)
            primitive(name, device_state, "copy", dtype)([part], [fresh], (), device_state.stream)


def floats(
    operator: str,
    formulas: tuple[Formula, Formula],
    shape: tuple[int, ...],
    dtype: DType,
    device_state: DeviceState,
    generator: Generator | None,
) -> Any:
    """Return a tensor of floats: drawn as float32 or float64, then rounded.

    Complex numbers are drawn as pairs; each part of a normal one has half of the variance.
    """
    if dtype is dtypes.float32:
        return drawn_tensor(operator, formulas[0], device_state, shape, dtype, 1, generator)
    if dtype.is_complex:
        pairs = floats(operator, formulas, (*shape, 2), COMPONENT[dtype], device_state, generator)
        if 0 in shape:
            return functions.complex(*pairs.unbind(-1))
        return functions.view_as_complex(pairs * math.sqrt(0.5) if formulas is NORMAL else pairs)
    if kind_letter(dtype) != "f":
        if 0 in shape:  # nothing is drawn
            return wrap(device_state.runtime.empty(shape, dtype, device_state.stream),
                        device_state.key | dtype_bit(dtype))
        raise UndefinedDtype(
            operator,
            f"dtype {dtype.name}",
            "random floats have a floating-point dtype",
            "use randint, or pass a float dtype",
        )
    wide = dtype is dtypes.float64
    work = arithmetic_dtype(dtype)
    result = drawn_tensor(operator, formulas[wide], device_state, shape, work, 1 + wide, generator)
    if dtype is work:
        return result
    if formulas is UNIFORM:  # only as many bits as the dtype has: rounded numbers would reach 1
        result = result.mul_(EXACT[dtype]).floor_().mul_(1 / EXACT[dtype])
    return result.to(dtype)
