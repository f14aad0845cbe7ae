"""Calls of every rung of the ladder, compared bit for bit with those of ``compose``.

Calls are collected while a sample runs: the operator's own and those of all operators inside of it. Each is made again
by the closure of every rung, with arguments that lie in memory in several ways, with other contents, with other numbers
and, where that makes sense, with many elements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import tensocket as ts
from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.layers import highest
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK
from tensocket_core.launch.path import LadderOperator
from tensocket_operators.kinds.composite import Composite
from tensocket_operators.random import from_positions, positions

#: About so many elements have tensors that are tiled.
LARGE: Final = 1 << 16
#: Rows of a tiled tensor are at most so many times those of the sample.
_MAX_TILES: Final = LARGE
#: Layouts in which arguments are given; ``given`` is the sample's own.
LAYOUTS: Final = ("given", "dense", "transposed", "step")
#: Positions of numbers in a call take these values one after the other: equal ones that are not identical, too.
NUMBERS: Final = (0.0, -0.0, 0.0, 2, 2.0, 2)
#: A call is repeated so often with the same arguments; replays are recorded on the way.
REPEATS: Final = 10
Closure = Callable[..., Any]
Args = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """A call of an operator on one device.

    Attributes:
        operator: The operator.
        key: The key, without layers.
        args: Arguments in schema order, as they were before the call.
    """

    operator: Operator
    key: int
    args: Args

    @property
    def place(self) -> tuple[Any, ...]:
        """Equal for calls that differ in contents only."""
        return self.operator.name, self.operator.kind, self.key, tuple(map(_outline, self.args))


@dataclass(frozen=True)
class Difference:
    """A call with a result that is not that of ``compose``.

    Attributes:
        operator: Name of the operator.
        rung: Name of the rung.
        text: Variant, arguments, and where the results differ first.
    """

    operator: str
    rung: str
    text: str


@dataclass
class Report:
    """Results of many comparisons.

    Attributes:
        compared: Compared calls by the name of the rung.
        variants: Compared calls by the kind of variant.
        skipped: Calls, or variants of them, that were left out, by reason.
        differences: Calls whose results differ.
    """

    compared: Counter[str] = field(default_factory=Counter)
    variants: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)


class Collector(Tracer):
    """Collects calls with plain tensors of one device; counts all others."""

    def __init__(self, report: Report) -> None:
        super().__init__(None, None)
        self.report = report
        self.found: dict[tuple[Any, ...], Call] = {}

    def operator(self, operator: Any, key: int, kernel: Any, args: Args) -> Any:
        """Note a call, then make it."""
        with thread_state(tracer=None):
            reason = _unfit(operator, key)
            if reason:
                self.report.skipped[reason] += 1
            else:
                call = Call(operator, key & ~AUTOGRAD, _kept(operator, args))
                self.found.setdefault(call.place, call)
        return operator.invoke(kernel, args)


def collected(report: Report, run: Callable[[], Any]) -> list[Call]:
    """The calls that ``run`` makes."""
    collector = Collector(report)
    with thread_state(tracer=collector):
        run()
    return list(collector.found.values())


def _unfit(operator: Operator, key: int) -> str:
    """Why a call is not repeated."""
    layer = highest(key & ~AUTOGRAD)
    if layer is not None:
        return f"layer {layer.name}"
    if key & DEVICE_MASK not in BY_KEY or not key & DTYPE_MASK:
        return "no device or dtype"
    if operator.name.startswith(("empty", "new_empty")) or operator.name in ("resize_", "set_"):
        return "results are not written, or the argument's storage is replaced"
    return ""


def _kept(operator: Operator, args: Args) -> Args:
    """Arguments without their history; those that the operator writes to are copied, in their layout."""
    mutated = [parameter.mutated for parameter in operator.schema.parameters]
    return tuple([_alone(x, copies) for x, copies in zip(args, mutated, strict=True)])


def _alone(value: Any, copies: bool) -> Any:
    if type(value) in (list, tuple):
        return type(value)([_alone(x, copies) for x in value])
    if not _is_plain(value):
        return value
    return value.detach().clone() if copies else value.detach()


def _outline(value: Any) -> Any:
    if type(value) in (list, tuple):
        return tuple(map(_outline, value))
    if _is_plain(value):
        return tuple(value.shape), value.stride(), str(value.dtype)
    return type(value), repr(value)


def _is_plain(value: Any) -> bool:
    return getattr(value, "_array", None) is not None


# ------------------------------------------------------------------------------------------------ variants


def laid_out(value: Any, layout: str, turn: int) -> Any:
    """A copy of an argument with another layout, and with its elements turned by ``turn`` places."""
    if type(value) in (list, tuple):
        return type(value)([laid_out(x, layout, turn) for x in value])
    if not _is_plain(value):
        return value
    dense = value.detach().clone(memory_format=ts.contiguous_format)
    if turn and dense.ndim and dense.numel():
        dense = dense.reshape(-1).roll(turn).reshape(dense.shape)
    if layout == "transposed" and dense.ndim > 1:
        order = tuple(reversed(range(dense.ndim)))
        return dense.permute(order).clone(memory_format=ts.contiguous_format).permute(order)
    if layout == "step" and dense.ndim:
        return ts.stack([dense, dense], -1).reshape(*dense.shape[:-1], 2 * dense.shape[-1])[..., ::2]
    return dense


def tiled(call: Call) -> Call | str:
    """The call with its tensors repeated along their first dimension; the reason, where that makes no sense.

    It does where all tensors that have more than one element have the same shape, and there is one of these.
    """
    tensors = [x for x in call.args if _is_plain(x)]
    shapes = {tuple(x.shape) for x in tensors if x.numel() != 1}
    if any(type(x) in (list, tuple) and any(map(_is_plain, x)) for x in call.args):
        return "lists of tensors are not tiled"
    if len(shapes) != 1 or not (shape := shapes.pop()) or not math.prod(shape):
        return "shapes differ, or there are no elements to tile"
    times = min(max(1, LARGE // math.prod(shape)), _MAX_TILES)

    def grown(x: Any) -> Any:
        if not _is_plain(x) or x.numel() == 1:
            return x
        return x.detach().clone(memory_format=ts.contiguous_format).repeat(times, *[1] * (x.ndim - 1))

    return Call(call.operator, call.key, tuple(map(grown, call.args)))


def numbers(call: Call) -> Iterator[Args]:
    """The arguments of the call with other numbers where the key does not say which kind they are of."""
    for k, parameter in enumerate(call.operator.schema.parameters):
        value = call.args[k]
        if type(value) not in (int, float) or parameter.type not in ("Operand", "Scalar", "float"):
            continue
        kinds = (type(value),) if parameter.type == "Operand" else (int, float)
        for number in NUMBERS:
            if type(number) in kinds:
                yield (*call.args[:k], number, *call.args[k + 1:])


# ------------------------------------------------------------------------------------------------ comparison


def compare_call(call: Call, report: Report, *, large: bool = False) -> None:
    """Compare all rungs of a call with ``compose``, in all variants."""
    whole: Call | str = tiled(call) if large else call
    if isinstance(whole, str):
        report.skipped[whole] += 1
        return
    if not isinstance(call.operator, LadderOperator | Composite):
        report.skipped[f"kind {call.operator.kind} has one way to run"] += 1
        return
    rungs = call.operator.rungs(call.key, BY_KEY[call.key & DEVICE_MASK])
    assert rungs[-1][0] == "compose"
    if len(rungs) == 1:
        report.skipped["only one way to run"] += 1
        return
    layouts = ("dense", "transposed") if large else LAYOUTS
    for layout in layouts:
        _compare_layout(whole, layout, rungs, report, 3 if large else REPEATS, "large" if large else "small")


def _compare_layout(call: Call, layout: str, rungs: list[tuple[str, Closure]], report: Report, repeats: int,
                    size: str) -> None:
    series: list[tuple[str, Args, int, int]] = [("contents", call.args, 0, repeats)]
    if layout != "given":
        series += [("changed contents", call.args, turn, 1) for turn in (1, 2)]
    if size == "small":
        series += [("changed number", args, 0, 1) for args in numbers(call)]
    for variant, args, turn, count in series:
        expected = outcome(call.operator, rungs[-1][1], _made(call.operator, args, layout, turn))
        if expected[0] == "error":
            report.skipped[f"{size}, {variant}: compose refuses, only the error is compared"] += 1
        for name, closure in rungs[:-1]:
            report.compared[name] += count
            report.variants[f"{size} {layout}, {variant}"] += count
            found = [outcome(call.operator, closure, _made(call.operator, args, layout, turn)) for _ in range(count)]
            k = next((k for k, result in enumerate(found) if result != expected), -1)
            if k >= 0:
                text = f"{size} {layout}, {variant}, call {k}, {list(map(_outline, args))}: "
                report.differences.append(Difference(call.operator.name, name, text + _shown(found[k], expected)))


def _made(operator: Operator, args: Args, layout: str, turn: int) -> Args:
    return _kept(operator, args) if layout == "given" else tuple([laid_out(x, layout, turn) for x in args])


def outcome(operator: Operator, closure: Closure, args: Args) -> tuple[Any, ...]:
    """The result of a call and its arguments afterwards, as something that ``==`` compares bit for bit."""
    try:
        with from_positions(positions()), np.errstate(all="ignore"):
            result = operator.invoke(closure, args)
            return "result", bits(result), bits(args)
    except Exception as error:
        return "error", type(error).__name__


def bits(value: Any) -> Any:
    """Type, dtype, shape, strides and bytes; all NaNs are equal. Strides of dimensions of one element do not count."""
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(bits, value))
    if _is_plain(value):
        strides = [step for step, size in zip(value.stride(), value.shape, strict=True) if size > 1]
        strides = strides if value.numel() else []
        return "tensor", str(value.dtype), tuple(value.shape), tuple(strides), _bytes(value)
    if isinstance(value, float):
        return "float", value.hex()
    return type(value).__name__, repr(value)


def _bytes(tensor: Any) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == ts.bfloat16:
        plain = plain.to(ts.float32)
    values = np.array(plain.numpy(), order="C")
    if values.dtype.kind == "c":
        values = values.reshape(-1).view(values.real.dtype)
    if values.dtype.kind == "f":
        values[np.isnan(values)] = np.nan
    return values.tobytes()


def _shown(found: Any, expected: Any) -> str:
    """Where two outcomes differ first."""
    if isinstance(found, tuple) and isinstance(expected, tuple) and len(found) == len(expected):
        return next((_shown(x, y) for x, y in zip(found, expected, strict=True) if x != y), "")
    if isinstance(found, bytes) and isinstance(expected, bytes):
        where = [k for k, (x, y) in enumerate(zip(found, expected, strict=False)) if x != y]
        return f"{len(where)} of {len(expected)} bytes, from {where[:1]}: {found[:16].hex()} {expected[:16].hex()}"
    return f"{found!r}, not {expected!r}"
