"""Dual levels as a context: the interface of ``tensocket.autograd.forward_ad``."""

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
    """A tensor of a dual level: it lies in the memory of its primal, and its graph is the primal's."""

    __slots__ = ()

    @property
    def recorded_dual(self) -> RecordedDual:
        """The tensor as autograd sees it."""
        return RecordedDual(self._value, content(self) if self.is_dual else None, self._transform.dual)

    @property
    def is_dual(self) -> bool:
        """Whether there is a tangent."""
        return self._transform.is_open and content(self) is not None

    @property
    def grad_fn(self) -> Any:
        """The node that made the primal."""
        return self._value.grad_fn

    def requires_grad_(self, requires_grad: bool = True) -> LevelDual:
        """Set whether gradients are recorded, of this tensor and not of the one that it was made of."""
        if requires_grad is not self.requires_grad and self.grad_fn is None:
            with lowered():
                self._value = self._value.detach()
        self.requires_grad = requires_grad
        return self

    def detach_(self) -> LevelDual:
        """Cut this tensor off from the graph, in place; it has no tangent any more.

        Raises:
            AutogradError: It is a view.
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
        """The primal's."""
        return self._value.untyped_storage()

    def storage(self) -> Any:
        """The primal's."""
        return self._value.storage()

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        text = repr(self._value)
        return f"{text[:-1]}, tangent={content(self)!r})" if self.is_dual else text


class DualLevel(Forward):
    """Forward mode for the tensors that ``make_dual`` makes, and for what is computed of them.

    As in PyTorch, an in-place operator writes into the tangent that there is, and a view of a dual tensor has a view of
    its tangent.
    """

    kind: ClassVar[type[DualTensor]] = LevelDual
    lenient: ClassVar[bool] = True
    functional = False

    def __init__(self) -> None:
        super().__init__("dual_level")
        self.transparent = 1

    @property
    def is_open(self) -> bool:
        """Whether tensors have tangents still."""
        return self in _LEVELS.open

    def own(self, tangent: Any, given: list[Any]) -> Any:
        """Return a result's tangent in memory of its own, so that writing into it changes no other tensor's."""
        if isinstance(tangent, (tuple, list)):
            return type(tangent)([self.own(part, given) for part in tangent])
        if tangent is None:
            return None
        # Tangents of levels below stand for memory that only these know.
        shared = tangent._level or 0 in tangent.stride() or any(
            x._level or memory_of(x._array) is memory_of(tangent._array) for x in given)
        return tangent.clone() if shared else tangent

    def move(self, target: Any, tangent: Any) -> None:
        """Write another tangent into the one that there is, where that can be written."""
        root, old = root_of(target), content(target)
        if (tangent is None or old is None or old._level or old.dtype is not tangent.dtype or tangent is old
                or (old._key & AUTOGRAD and old._grad_fn is None)
                or memory_of(old._array) is not memory_of(root._content._array)):
            super().move(target, tangent)
            return
        old.copy_(tangent)
        self.changed(target)

    def adopt(self, tensor: Any) -> None:
        """Make a tensor without tangent, which is about to get one, a dual, together with its base and all views."""
        base = tensor if tensor._base is None else tensor._base
        # Nobody remembers views of plain tensors; the garbage collector knows whom the base is held by.
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
        if tensor._key & AUTOGRAD:  # history goes on below
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
    """A primal and its tangent, None where it has none."""

    primal: Any
    tangent: Any


def current_level() -> int:
    """Return the number of the open level; -1 where none is open."""
    return len(_LEVELS.open) - 1


def enter_dual_level() -> int:
    """Open a level, 0: tensors can have tangents until it is closed.

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
    """Return a tensor with a tangent, on the memory of ``tensor``.

    The tangent is used as it is where it has the layout of the tensor, so that views of the one are views of the
    other; otherwise it is copied.

    Raises:
        AutogradError: No level is open, or one of the two has a tangent.
        ArgumentError: One is not a tensor, or its dtype has no derivatives.
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
    """Return the number of elements in the memory that a tensor lies in."""
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
    """Primal, a new view, and tangent; the tangent is None where there is none."""
    for opened in _LEVELS.open:
        if opened.owns(tensor):
            with lowered():
                return UnpackedDualTensor(tensor._value.alias(), opened.tangent(tensor))
    return UnpackedDualTensor(tensor, None)


def is_forward_grad_enabled() -> bool:
    """Whether tangents are computed."""
    return _ENABLED.value


class set_forward_grad_enabled:
    """Whether tangents are computed, from the call on, or as a context manager."""

    __slots__ = ("_before",)

    def __init__(self, mode: bool) -> None:
        self._before = _ENABLED.value
        _ENABLED.value = mode

    def __enter__(self) -> None:
        """Do nothing; the mode holds already."""

    def __exit__(self, *error: object) -> None:
        _ENABLED.value = self._before


def pushed_along(function: Callable[..., Any], inputs: tuple[Any, ...], tangents: list[Any]) -> list[Any]:
    """Primals and tangents of a function's results; of results that are not tensors, and where there is none, None.

    Args:
        function: Takes the inputs, cut off from their graph, and returns a value or several.
        inputs: Tensors and other values.
        tangents: For each input its tangent or None.
    """
    with dual_level():
        given = [x.detach() if hasattr(x, "_key") else x for x in inputs]
        found = function(*[x if t is None else make_dual(x, t) for x, t in zip(given, tangents, strict=True)])
        found = found if isinstance(found, (tuple, list)) else (found,)
        return [unpack_dual(y) if hasattr(y, "_key") else UnpackedDualTensor(None, None) for y in found]
