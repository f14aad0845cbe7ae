"""Shapes of results: those of a graph follow from the shapes of its arguments, never from values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from tensocket_core.device import DeviceState, open_device
from tensocket_core.launch.arguments import frozen
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.normalized_row import RowOperator
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction
from tensocket_operators.kinds.row import SoftmaxLike
from tensocket_operators.linalg.kind import MatMul
from tensocket_operators.random.positions import from_positions, positions
from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.value_observers import unobserved

#: Kinds of operators whose shapes always follow.
_INFERRED: Final = (Pointwise, InPlace, Reduction, RowOperator, SoftmaxLike, MatMul)


def reason_of_shapes(operator: Any, args: Sequence[Any], kwargs: dict[str, Any], made: Sequence[Any],
                     known: set[Hashable] | None = None) -> str | None:
    """Infer the shapes of results by a call without data; return why they are not those that a call made, or None.

    Args:
        operator: The operator.
        args, kwargs: The arguments of the call; its numbers are plain.
        made: The tensors that it returned.
        known: Calls that have been checked, which only calls with equal layouts and arguments skip; gets this one.
    """
    if isinstance(operator, _INFERRED) or not _holds_tensor([*args, *kwargs.values()]):
        return None
    shapes = [tuple(x.shape) for x in made]
    key = None if known is None else _key(operator, args, kwargs, shapes)
    if known is not None and key in known:
        return None
    try:
        with unobserved(), from_positions(positions()):
            found = operator(*_without_data(tuple(args)), **_without_data(kwargs))
    except (TensocketError, NotImplementedError):
        return f"the shape of the result of {operator.name} may depend on values"
    found = [x for x in (found if isinstance(found, (tuple, list)) else (found,)) if hasattr(x, "_key")]
    if [tuple(x.shape) for x in found] != shapes:
        return f"the shape of the result of {operator.name} depends on values"
    if known is not None and key is not None:
        known.add(key)
    return None


def _key(operator: Any, args: Sequence[Any], kwargs: dict[str, Any], shapes: list[tuple[int, ...]]) -> Hashable:
    """Return a key of calls from which the same shapes are inferred; None if an argument has none."""
    try:
        return operator, tuple(map(_layout, args)), tuple([(k, _layout(x)) for k, x in kwargs.items()]), tuple(shapes)
    except TypeError:  # an argument that may change
        return None


def _layout(value: Any) -> Hashable:
    if hasattr(value, "_key"):
        return type(value), value._key, tuple(value.shape), value.stride()
    if type(value) in (list, tuple):
        return type(value), tuple(map(_layout, value))
    return frozen(value)


def _holds_tensor(values: Sequence[Any]) -> bool:
    return any(_holds_tensor(x) if isinstance(x, (list, tuple)) else hasattr(x, "_key") for x in values)


def _without_data(value: Any) -> Any:
    """Return arguments with tensors on the device meta."""
    if hasattr(value, "_key"):
        return value.to("meta")
    if isinstance(value, DeviceState):
        return open_device("meta")
    if isinstance(value, dict):
        return {name: _without_data(x) for name, x in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_without_data(x) for x in value])
    return value
