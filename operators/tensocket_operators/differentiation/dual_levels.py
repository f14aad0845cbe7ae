"""Dual levels as context managers: the interface of ``tensocket.autograd.forward_ad``."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

from tensocket_core import functions
from tensocket_core.autograd.differentiate import RecordedDual
from tensocket_core.dispatch.modes import INHERITED
from tensocket_core.geometry import element_strides, memory_nbytes, memory_of, memory_offset
from tensocket_core.keys import AUTOGRAD, CONJ, LAZY, NEG
from tensocket_core.transforms.aliasing import content, make_view, root_of, shown
from tensocket_core.transforms.forward import _ENABLED, DualTensor, Forward, check_tangent
from tensocket_core.transforms.levels import lowered
from tensocket_plugins.contract.errors import AutogradError


class LevelDual(DualTensor):
    """A tensor of a dual level. It shares the memory and the graph of its primal."""

    __slots__ = ()

    @property
    def recorded_dual(self) -> RecordedDual:
        """The dual tensor on which autograd records."""
        return RecordedDual(self._value, content(self) if self.is_dual else None, self._transform.dual)

    @property
    def is_dual(self) -> bool:
        """Whether the tensor has a tangent."""
        return self._transform.is_open and content(self) is not None

    @property
    def grad_fn(self) -> Any:
        """The node that made the primal."""
        return self._value.grad_fn

    def requires_grad_(self, requires_grad: bool = True) -> LevelDual:
        """Set whether gradients are recorded for this tensor, but not for the tensor from which it was made."""
        if requires_grad is not self.requires_grad and self.grad_fn is None:
            with lowered():
                self._value = self._value.detach()
        self.requires_grad = requires_grad
        return self

    def detach_(self) -> LevelDual:
        """Detach this tensor from the graph in place, and drop its tangent.

        Raises:
            AutogradError: The tensor is a view.
        """
        super().detach_()  # type: ignore[misc]
        with lowered():
            self._value = self._value.detach()
        self._transform.move(self, None)
        return self

    def data_ptr(self) -> int:
        """Return the address of the primal."""
        return int(self._value.data_ptr())

    def untyped_storage(self) -> Any:
        """Return the storage of the primal."""
        return self._value.untyped_storage()

    def storage(self) -> Any:
        """Return the storage of the primal."""
        return self._value.storage()

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        text = repr(self._value)
        return f"{text[:-1]}, tangent={content(self)!r})" if self.is_dual else text


class DualLevel(Forward):
    """Forward mode for the tensors that ``make_dual`` makes, and for results computed from them.

    As in PyTorch, an in-place operator writes into the existing tangent, and a view of a dual tensor has a view of its
    tangent.
    """

    kind: ClassVar[type[DualTensor]] = LevelDual
    lenient: ClassVar[bool] = True
    functional = False

    def __init__(self) -> None:
        super().__init__("dual_level")
        self.transparent = 1

    @property
    def is_open(self) -> bool:
        """Whether tensors still have tangents."""
        return self in _LEVELS.open

    def own(self, tangent: Any, given: list[Any]) -> Any:
        """Return a result's tangent in its own memory, so that writes into it do not change other tangents."""
        if isinstance(tangent, (tuple, list)):
            return type(tangent)([self.own(part, given) for part in tangent])
        if tangent is None:
            return None
        # Only the levels below know the memory of their tangents.
        shared = tangent._level or 0 in tangent.stride() or any(
            x._level or memory_of(x._array) is memory_of(tangent._array) for x in given)
        return tangent.clone() if shared else tangent

    def move(self, target: Any, tangent: Any) -> None:
        """Set the tangent of a tensor, by a write into its existing tangent if that is possible."""
        root, old = root_of(target), content(target)
        if (tangent is None or old is None or old._level or old.dtype is not tangent.dtype or tangent is old
                or (old._key & AUTOGRAD and old._grad_fn is None)
                or memory_of(old._array) is not memory_of(root._content._array)):
            super().move(target, tangent)
            return
        old.copy_(tangent)
        self.changed(target)

    def adopt(self, tensor: Any) -> None:
        """Turn a tensor that is about to get a tangent into a dual tensor, together with its base and all views."""
        base = tensor if tensor._base is None else tensor._base
        # No list holds the views of ordinary tensors, but the garbage collector knows the referrers of the base.
        views = [x for x in gc.get_referrers(base) if hasattr(type(x), "_grad_fn") and x._base is base]
        if not self.owns(base):
            self._make_dual(base)
        for view in views:
            if not view._level:
                self._make_dual(view)
                view._value._base = base._value
                make_view(view, base, self._reading(base._array, view._array))

    def _make_dual(self, tensor: Any) -> None:
        value = tensor._cut()
        if tensor._key & AUTOGRAD:  # the history continues in the level below
            value._grad_fn, value._key = tensor._grad_fn, tensor._key
        tensor.__class__ = LevelDual
        dual = self.wrap(value)
        tensor._array, tensor._key, tensor._version_counter = dual._array, dual._key, dual._version_counter
        tensor._grad_fn = None
        tensor._value, tensor._transform = value, self

    def _reading(self, base: Any, view: Any) -> Callable[[Any], Any]:
        def replay(whole: Any) -> Any:
            with lowered(depth=self.level - 1):
                return shown(whole, base, view)

        return replay


class _Levels(threading.local):
    open: tuple[DualLevel, ...] = ()


_LEVELS: Final = _Levels()
INHERITED.append(_LEVELS)


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent, or None if it has none."""

    primal: Any
    tangent: Any


def current_level() -> int:
    """Return the number of the open level, or -1 if none is open."""
    return len(_LEVELS.open) - 1


def enter_dual_level() -> int:
    """Open level 0 and return it: tensors can have tangents until it is closed.

    Raises:
        AutogradError: A level is open already; a second one is not possible.
    """
    if _LEVELS.open:
        raise AutogradError("enter_dual_level", "a second level", "dual levels do not nest", "use func.jvp to nest")
    level = DualLevel()
    level.__enter__()
    _LEVELS.open = (level,)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; its tensors lose their tangents.

    Raises:
        AutogradError: No level is open, or the open one is not ``level``.
    """
    if not _LEVELS.open or level not in (None, 0):
        raise AutogradError("exit_dual_level", f"level {level}, {len(_LEVELS.open)} open", "the open level is closed",
                            "call enter_dual_level first")
    (opened,) = _LEVELS.open
    _LEVELS.open = ()
    opened.__exit__()


class dual_level:
    """Context manager of a dual level: tensors can have tangents inside of the ``with`` block."""

    __slots__ = ()

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return a tensor with a tangent, on the memory of ``tensor``.

    A tangent with the layout of the tensor is used as it is, so that views of the tensor have views of the tangent;
    any other tangent is copied.

    Raises:
        AutogradError: No level is open, or ``tensor`` or ``tangent`` already has a tangent.
        ArgumentError: An argument is not a tensor, or its dtype has no derivatives.
        ShapeError: The tangent has another shape.
    """
    if not _LEVELS.open:
        raise AutogradError("make_dual", "a tangent outside of a dual level", "tangents live in a dual level",
                            "use `with dual_level():`")
    check_tangent("make_dual", tensor, tangent)
    (opened,) = _LEVELS.open
    for what, value in (("primal", tensor), ("tangent", tangent)):
        if opened.owns(value):
            raise AutogradError("make_dual", f"a {what} that has a tangent", "a level has first derivatives only",
                                "unpack it first, or use func.jvp to nest")
    with lowered():
        return opened.dual(tensor, tangent if _lie_alike(tensor, tangent) else _laid_out(tangent, tensor))


def _extent(tensor: Any) -> int:
    """Return the number of elements in a tensor's storage."""
    return memory_nbytes(tensor._array) // int(tensor.dtype.itemsize)


def _lie_alike(primal: Any, tangent: Any) -> bool:
    """Whether a view of the primal is a view of the same elements of the tangent."""
    if primal._level or tangent._level or primal.is_sparse or tangent.is_sparse or 0 in primal._array.shape:
        return True
    x, y = primal._array, tangent._array
    shape = x.shape
    if (primal._key ^ tangent._key) & LAZY:
        return False
    strides = [[s for s, n in zip(element_strides(a), shape, strict=True) if n != 1] for a in (x, y)]
    return (strides[0] == strides[1] and memory_offset(x) == memory_offset(y)
            and _extent(primal) == _extent(tangent))


def _laid_out(tangent: Any, primal: Any) -> Any:
    """Return a copy of the tangent in the layout of the primal."""
    shape, strides, offset = primal._array.shape, element_strides(primal._array), memory_offset(primal._array)
    if any(s == 0 and n > 1 for s, n in zip(strides, shape, strict=True)):
        return tangent  # elements that share memory may have different tangents
    made = tangent.new_zeros(_extent(primal)).as_strided(shape, strides, offset)
    if primal._key & CONJ:
        made = made.conj()
    if primal._key & NEG:
        made = functions._neg_view(made)
    return made.copy_(tangent)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a new view of the primal, and the tangent or None."""
    for opened in _LEVELS.open:
        if opened.owns(tensor):
            with lowered():
                return UnpackedDualTensor(tensor._value.alias(), opened.tangent(tensor))
    return UnpackedDualTensor(tensor, None)


def is_forward_grad_enabled() -> bool:
    """Whether tangents are computed."""
    return _ENABLED.value


class set_forward_grad_enabled:
    """Setting that turns the computation of tangents on or off, from the call on, or as a context manager."""

    __slots__ = ("_before",)

    def __init__(self, mode: bool) -> None:
        self._before = _ENABLED.value
        _ENABLED.value = mode

    def __enter__(self) -> None:
        """Do nothing; the setting applies already."""

    def __exit__(self, *error: object) -> None:
        _ENABLED.value = self._before


def pushed_along(function: Callable[..., Any], inputs: tuple[Any, ...], tangents: list[Any]) -> list[Any]:
    """Return the primals and tangents of a function's results; None for results without, or that are not tensors.

    Args:
        function: Takes the inputs, detached from their graph, and returns a value or several.
        inputs: Tensors and other values.
        tangents: The tangent of each input, or None.
    """
    with dual_level():
        given = [x.detach() if hasattr(x, "_key") else x for x in inputs]
        found = function(*[x if t is None else make_dual(x, t) for x, t in zip(given, tangents, strict=True)])
        found = found if isinstance(found, (tuple, list)) else (found,)
        return [unpack_dual(y) if hasattr(y, "_key") else UnpackedDualTensor(None, None) for y in found]
