"""A counter of floating-point operations of matrix products and convolutions, by module."""

from __future__ import annotations

import functools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tensocket.errors import ArgumentTypeError
from tensocket_core.autograd.engine import current_pass
from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.pytree import tree_map
from tensocket_operators import Tensor
from tensocket_operators.namespaces import OpOverloadPacket, ops

from .module_tracker import ModuleTracker

Formula = Callable[..., int]
_SUFFIXES: Final = ("", "K", "M", "B", "T")
#: User-defined formulas, by operator.
flop_registry: Final[dict[Any, Formula]] = {}


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, Tensor) else value


def shape_wrapper(function: Formula) -> Formula:
    """Wrap a formula over shapes as one over tensors: it gets ``out_shape`` for the result ``out_val``."""

    @functools.wraps(function)
    def wrapped(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = tree_map(_shape, (args, kwargs, out_val))
        return function(*args, out_shape=out_shape, **kwargs)

    return wrapped


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """Register, as a decorator, a formula for the number of operations of a call.

    Args:
        targets: An operator of ``ops``, or several.
        get_raw: Whether the formula gets tensors and ``out_val`` instead of shapes and ``out_shape``.

    Raises:
        ArgumentTypeError: A target is not an operator.
    """
    given = list(targets) if isinstance(targets, (tuple, list)) else [targets]
    for target in given:
        if not isinstance(target, (OpOverloadPacket, AtenOverloads)):
            raise ArgumentTypeError("register_flop_formula", f"a {type(target).__name__}", "targets are operators",
                                    "pass one such as tensocket.ops.aten.mm")

    def register(function: Formula) -> Formula:
        formula = function if get_raw else shape_wrapper(function)
        flop_registry.update(dict.fromkeys(map(_packet, given), formula))
        return function

    return register


def _packet(target: Any) -> Any:
    """Return the packet of an overload; other targets as they are."""
    return target.overloadpacket if isinstance(target, AtenOverloads) else target


def _product(args: Any, result: Any) -> tuple[Any, int]:
    """Return the count of a product of matrices, or of batches of them."""
    left = args[0].shape
    key = ops.aten.mm if len(left) == 2 == args[1].ndim else ops.aten.bmm
    return key, 2 * result.numel() * left[-1]


def _window_sums(weight: Any, batch: int, positions: Iterable[int]) -> int:
    """Return the count of a convolution: every element of a weight is multiplied and added at every position."""
    return 2 * int(weight.numel()) * batch * math.prod(positions)


def _convolution(args: Any, result: Any) -> int:
    return _window_sums(args[1], args[0].shape[0], result.shape[2:])


def _convolution_of_input(args: Any, result: Any) -> int:
    return _window_sums(args[1], args[0].shape[0], args[0].shape[2:])


def _convolution_of_weight(args: Any, result: Any) -> int:
    return _window_sums(result, args[0].shape[0], args[0].shape[2:])


#: The operators that make up all products and convolutions; a transposed convolution is the gradient of the input.
_CONVOLUTIONS: Final = {"convolve": _convolution, "convolve_input": _convolution_of_input,
                        "convolve_weight": _convolution_of_weight}


def _built_in(operator: Any, args: Any, result: Any) -> tuple[Any, int] | None:
    """Return the listed name of an operation and its count, or None if it counts nothing."""
    if operator.name == "matmul":
        return _product(args, result)
    formula = _CONVOLUTIONS.get(operator.name)
    if formula is None:
        return None
    return operator.overloadpacket if current_pass() is not None else ops.aten.convolution, formula(args, result)


class FlopCounterMode(TorchDispatchMode):
    """A context manager that counts floating-point operations in its block, in total and by module.

    Args:
        mods: Ignored: modules are found as they run.
        depth: Depth of modules in the table.
        display: Whether the table is printed at the end of the block.
        custom_mapping: Formulas for operators; ``f(*shapes, out_shape)``, or ``f(*args, out_val)`` for functions with
            an attribute ``_get_raw``.

    Attributes:
        flop_counts: By dotted names of modules, and for ``Global``: operators to counts. Products of matrices are
            ``ops.aten.mm`` and ``ops.aten.bmm``, convolutions ``ops.aten.convolution``.
    """

    def __init__(self, mods: Any = None, depth: int | None = 2, display: bool = True,
                 custom_mapping: Mapping[Any, Formula] | None = None) -> None:
        super().__init__()
        if mods is not None:
            warnings.warn("[FlopCounterMode] mods — the mods argument is not needed anymore — leave it out",
                          UserWarning, stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.mod_tracker = ModuleTracker()
        own = {_packet(target): formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
               for target, formula in (custom_mapping or {}).items()}
        self.flop_registry: dict[Any, Formula] = {**flop_registry, **own}

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run the operator and count its operations."""
        keywords = kwargs or {}
        result = func(*args, **keywords)
        counted = _built_in(func, args, result)
        key = func.overloadpacket if counted is None else counted[0]
        formula = self.flop_registry.get(func.overloadpacket) or self.flop_registry.get(key)
        if formula is not None:
            counted = key, formula(*args, **keywords, out_val=result)
        if counted is not None:
            for name in set(self.mod_tracker.parents):
                self.flop_counts[name][key] += counted[1]
        return result

    def get_total_flops(self) -> int:
        """Return the number of operations in the block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return, by dotted names of modules and for ``Global``, the counts by operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table.

        Args:
            depth: Depth of modules; the constructor's if not given.
        """
        limit = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
        rows: list[tuple[str, str, str]] = []
        subsumed = False
        for name in sorted(self.flop_counts):
            level = name.count(".") + 1
            if name != "Global" and (limit is None or level <= limit):
                subsumed = subsumed or sum(self.flop_counts[name].values()) >= total
                rows += self._rows(name, level - 1, total, suffix)
        if not subsumed and self.flop_counts["Global"]:
            rows = self._rows("Global", 0, total, suffix) + [(" " + name, count, part) for name, count, part in rows]
        return _aligned([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])

    def _rows(self, name: str, level: int, total: int, suffix: int) -> list[tuple[str, str, str]]:
        counts = self.flop_counts[name]
        listed = [(name, sum(counts.values()))]
        listed += [(f" - {operator}", count) for operator, count in counts.items()]
        return [(" " * level + label, f"{count / 1000 ** suffix:.3f}{_SUFFIXES[suffix]}",
                 f"{count / total:.2%}" if total else "0%") for label, count in listed]


def _aligned(rows: list[tuple[str, str, str]]) -> str:
    """Align the rows: a line below the first one, names on the left and numbers on the right of their columns."""
    first, second, third = (max(len(row[k]) for row in rows) for k in range(3))
    lines = [f"{name:<{first}}  {count:>{second}}  {part:>{third}}" for name, count, part in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in (first, second, third)), *lines[1:]])


__all__ = ["FlopCounterMode", "register_flop_formula"]
