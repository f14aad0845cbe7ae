"""Rules: the functions that accept nested tensors, and their implementations.

A function is looked up by its name: first in the table of the tensor's layout, then in the common table. Elementwise
functions need no entry: they run on the dense tensors of the nested ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_core.dispatch.modes import thread_state
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import UnsupportedOperator

from .tensors import HANDLERS, Nested, NestedTensor, StridedNested

F = TypeVar("F", bound=Callable[..., Any])
#: Runs an elementwise function: ``(function, name, arguments, keywords)``.
Elementwise = Callable[[Any, str, tuple[Any, ...], dict[str, Any]], Any]

_TABLES: Final[dict[type, dict[str, Callable[..., Any]]]] = {Nested: {}, StridedNested: {}, NestedTensor: {}}
_ELEMENTWISE: Final[dict[type, Elementwise]] = {}

#: Composites of elementwise functions.
_COMPOSED: Final = frozenset((
    "alpha_dropout", "bernoulli", "bernoulli_", "cauchy_", "celu", "clip", "clip_", "dropout", "elu",
    "exponential_", "float_power", "frexp", "geometric_", "hardtanh", "isclose", "isreal", "log_normal_",
    "masked_fill", "masked_fill_", "mvlgamma", "nan_to_num", "nan_to_num_", "normal_", "positive", "random_",
    "real", "relu6", "rrelu", "rsub", "selu", "softshrink", "softsign", "tanhshrink", "true_divide", "uniform_",
    "zero_",
))
#: Attributes that a nested tensor shares with its dense tensor.
_SHARED: Final = frozenset((
    "data_ptr", "dtype", "element_size", "get_device", "is_complex", "is_floating_point", "is_signed",
    "register_hook", "requires_grad_", "retain_grad", "storage_offset", "untyped_storage", "is_pinned", "is_shared",
    "nelement", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "numel",
))


def rule(kind: type, *names: str) -> Callable[[F], F]:
    """Register the decorated rule for functions of these names and a class of nested tensors."""

    def register(function: F) -> F:
        for name in names:
            _TABLES[kind][name] = function
        return function

    return register


def elementwise(kind: type) -> Callable[[F], F]:
    """Register the decorated function as the one that runs elementwise functions for a class of nested tensors."""

    def register(function: F) -> F:
        _ELEMENTWISE[kind] = function
        return function

    return register


def name_of(function: Any) -> str:
    """Return the name by which a public function is looked up."""
    name = str(getattr(function, "__name__", None) or getattr(function, "name", function))
    return name.removeprefix("method_")


def is_elementwise(name: str) -> bool:
    """Whether a function computes each element from the elements at the same position."""
    operator = OPERATORS.get(name)
    if operator is not None and operator.kind == "pointwise":
        return True
    if name.endswith("_"):
        base = OPERATORS.get(name[:-1])
        if base is not None and base.kind == "pointwise":
            return True
    return name in _COMPOSED


def run(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a function that has a nested argument.

    Raises:
        UnsupportedOperator: Nested tensors of this layout do not support the function.
    """
    name = name_of(function)
    first = next(nested_in((*args, *keywords.values())), None)
    kind = type(first)
    if name in _SHARED:
        with thread_state(overrides_off=True):
            return function(*args, **keywords)
    found = _TABLES.get(kind, {}).get(name) or _TABLES[Nested].get(name)
    if found is not None:
        return found(*args, **keywords)
    if kind in _ELEMENTWISE and is_elementwise(name):
        return _ELEMENTWISE[kind](function, name, args, keywords)
    layout = getattr(getattr(first, "layout", None), "name", "nested")
    raise UnsupportedOperator(name, f"a nested tensor of layout {layout}",
                              f"nested tensors of layout {layout} do not support {name}",
                              "apply it to the components, which unbind() gives, or to to_padded_tensor()")


def nested_in(values: Any) -> Any:
    """Return the nested tensors among arguments and in their lists."""
    for value in values:
        if isinstance(value, Nested):
            yield value
        elif type(value) in (tuple, list):
            yield from nested_in(value)


def replaced(values: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return arguments with ``change`` applied to their tensors, also in lists."""
    return type(values)([change(x) if isinstance(x, Tensor) else replaced(x, change) if type(x) in (tuple, list) else x
                         for x in values])


def each(result: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to the result, or to each tensor of a result with several."""
    if isinstance(result, Tensor):
        return change(result)
    values = [change(value) for value in result]
    return type(result)(*values) if hasattr(result, "_fields") else tuple(values)


HANDLERS.append(run)
