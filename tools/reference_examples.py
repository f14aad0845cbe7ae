"""Examples for the reference pages: simple calls that operators take, found by trial."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import tensocket
from tensocket.utils._pytree import tree_map_only
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.schema import Parameter

#: Tensor arguments as Python source, in order of trial.
_TENSORS: Final = (
    "torch.tensor([[1.0, -2.0], [0.5, 4.0]])",
    "torch.tensor([[1, 2], [3, 4]])",
    "torch.tensor([1.0, -2.0, 0.5])",
    "torch.tensor([0, 2, 1])",
    "torch.tensor([[2.0, 1.0], [1.0, 3.0]])",
    "torch.tensor([True, False, True])",
    "torch.tensor([[0, 1], [1, 0]])",
    "torch.tensor(2.0)",
    "torch.arange(16.0).reshape(1, 1, 4, 4)",
    "torch.ones(1, 1, 2, 2)",
    "torch.arange(8.0).reshape(1, 1, 8)",
    "torch.ones(1, 1, 3)",
    "torch.arange(8.0).reshape(1, 1, 2, 2, 2)",
    "torch.tensor([1 + 2j, 3 - 1j])",
)
#: Values of other types.
_VALUES: Final = {
    "int": ("0", "1", "2", "-1"), "int[]": ("(0,)", "(0, 1)", "(2, 2)", "(1, 0)", "1"), "bool": ("False",),
    "Scalar": ("2.0", "2"), "float": ("0.5", "1.0"), "str": ("'sum'", "'mean'", "'none'", "'reduced'"),
    "dtype": ("torch.float64",), "device": ("'cpu'",), "Tensor[]": (f"[{_TENSORS[2]}, {_TENSORS[2]}]", ),
    "any": ("(0,)", "1", "[1, 2]", _TENSORS[2]), "int...": ("(2, 2)", "(1, 0)", "(4,)"),
}
#: Maximum number of calls to try for one operator.
_LIMIT: Final = 600
#: The largest rounding error of a zero, relative to the largest element.
_NOISE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Example:
    """One call.

    Attributes:
        lines: Python source: arguments, and the call with its result in a comment.
        shapes: Shapes of its arguments and results.
    """

    lines: list[str]
    shapes: str


def example(record: Operator, name: str, function: Any) -> Example | None:
    """Return the first call that the operator takes, or None if it takes none of the calls tried."""
    needed = [p for p in record.schema.parameters if p.default is None and not (p.optional and p.keyword_only)]
    for values in itertools.islice(_choices(needed), _LIMIT):
        found = _attempt(name, function, needed, values, record.kind == "pointwise")
        if found is not None:
            return found
    return None


def _choices(needed: list[Parameter]) -> Iterator[tuple[str, ...]]:
    """Yield the plain arguments, then all others in a fixed shuffled order, so that any combination can come early."""
    pools = [_VALUES.get(p.type, _TENSORS) if p.type not in ("Tensor", "Operand") else _TENSORS for p in needed]
    yield from (tuple(pool[min(k, len(pool) - 1)] for pool in pools) for k in range(len(_TENSORS)))
    order = random.Random(0)
    while True:
        yield tuple(order.choice(pool) for pool in pools)


def _attempt(name: str, function: Any, needed: list[Parameter], values: tuple[str, ...], exact: bool) -> Example | None:
    space: dict[str, Any] = {"torch": tensocket}
    lines, given, shapes = [], [], []
    for parameter, source in zip(needed, values, strict=True):
        if source.startswith("torch.") and parameter.type != "dtype":
            lines.append(f"{parameter.name} = {source}")
            exec(lines[-1], space)
            given.append(f"{parameter.name}={parameter.name}" if parameter.keyword_only else parameter.name)
            shapes.append(_shape(space[parameter.name]))
        else:
            given.append(f"{parameter.name}={source}" if parameter.keyword_only else source)
    if name.startswith("torch.Tensor."):
        call = f"{given[0]}.{name.rpartition('.')[2]}({', '.join(given[1:])})"
    else:
        call = f"{name}({', '.join(given)})"
    try:
        tensocket.manual_seed(0)
        result = eval(call, space)
        text = str(result if exact else tree_map_only(tensocket.Tensor, _without_noise, result))
    except Exception:
        return None
    if len(text) > 400 or "function" in text:
        return None
    shown = text.splitlines()
    shapes.append(f"→ {_shape(result)}")
    return Example([*lines, call, *(f"# {line}".rstrip() for line in shown)], ", ".join(shapes).replace(", →", " →"))


def _without_noise(x: Any) -> Any:
    """Set elements to zero that differ from zero only by rounding, which depends on the processor."""
    if not x.is_floating_point() or not x.numel():
        return x
    size = x.abs().nan_to_num(0.0, 0.0, 0.0)
    return x.masked_fill((size > 0) & (size < _NOISE * size.max()), 0.0)


def _shape(value: Any) -> str:
    if hasattr(value, "shape"):
        return str(tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_shape(item) for item in value)}]"
    return type(value).__name__
