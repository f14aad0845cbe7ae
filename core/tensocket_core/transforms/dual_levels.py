"""Dual levels as a context: the interface of ``tensocket.autograd.forward_ad``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tensocket_plugins.contract.errors import AutogradError

from ..autograd.jacobians import ALONG
from .forward import _ENABLED, Forward, check_tangent


class _Levels(threading.local):
    open: tuple[Forward, ...] = ()


_LEVELS: Final = _Levels()


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent, None where it has none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level, 0: tensors can have tangents until it is closed.

    Raises:
        AutogradError: One is open; there is no second one.
    """
    if _LEVELS.open:
        raise AutogradError("enter_dual_level", "a second level", "dual levels do not nest", "use func.jvp to nest")
    level = Forward("dual_level", lenient=True)
    level.__enter__()
    _LEVELS.open = (level,)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; its tensors lose their tangents.

    Raises:
        AutogradError: None is open, or another one than ``level``.
    """
    if not _LEVELS.open or level not in (None, 0):
        raise AutogradError("exit_dual_level", f"level {level}, {len(_LEVELS.open)} open", "the open level is closed",
                            "call enter_dual_level first")
    (opened,) = _LEVELS.open
    _LEVELS.open = ()
    opened.__exit__()


class dual_level:
    """``with dual_level():`` — tensors can have tangents in the block."""

    __slots__ = ()

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with a tangent, on the memory of ``tensor``.

    Raises:
        AutogradError: No level is open.
        ArgumentError: One is no tensor, or the dtype has no derivatives.
        ShapeError: The tangent has another shape.
    """
    if not _LEVELS.open:
        raise AutogradError("make_dual", "a tangent outside of a dual level", "tangents live in a dual level",
                            "use `with dual_level():`")
    check_tangent("make_dual", tensor, tangent)
    return _LEVELS.open[0].dual(tensor, tangent)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Primal and tangent; the tangent is None where there is none."""
    for opened in _LEVELS.open:
        if opened.owns(tensor):
            return UnpackedDualTensor(tensor._value, opened.tangent(tensor))
    return UnpackedDualTensor(tensor, None)


class set_forward_grad_enabled:
    """Whether tangents are computed, from the call on, or as a context manager."""

    __slots__ = ("_before",)

    def __init__(self, mode: bool) -> None:
        self._before = _ENABLED.value
        _ENABLED.value = mode

    def __enter__(self) -> None:
        """The mode holds already."""

    def __exit__(self, *error: object) -> None:
        _ENABLED.value = self._before


def pushed_along(function: Callable[[Any], tuple[Any, ...]], x: Any, tangent: Any) -> list[Any]:
    """Tangents of a function's results for one of its argument; zeros where a result does not depend on it."""
    with dual_level():
        found = [unpack_dual(y) for y in function(make_dual(x, tangent))]
        return [y.primal.new_zeros(tuple(y.primal.shape)) if y.tangent is None else y.tangent for y in found]


# Checks of gradients compare tangents, too.
ALONG.append(pushed_along)
