"""Stand-ins for tensors: they show to a function what follows from layouts, and refuse to show anything else."""

from __future__ import annotations

import sys
from functools import cache
from types import FunctionType
from typing import Any, Final

from tensocket_core import geometry, strides
from tensocket_core.dispatch import modes
from tensocket_core.dispatch.overrides import disabled_torch_function
from tensocket_core.tensor import Tensor

#: Attributes that a function may set, of new tensors: they cease to be views.
_CUT: Final = frozenset({"_base", "_fixed_view", "_version_counter"})
#: Slots and facts of classes that keys, layouts and types determine.
_FACTS: Final = frozenset({"__class__", "__doc__", "__module__", "_class_key", "_dispatches", "_key", "_level",
                           "_overrides", "is_sparse"})
#: Members of classes whose tensors operators treat as they treat plain ones.
_HARMLESS: Final = frozenset({
    "__annotations__", "__deepcopy__", "__dict__", "__doc__", "__module__", "__new__", "__reduce_ex__", "__repr__",
    "__torch_function__", "__weakref__", "_class_key", "_dispatches", "_overrides", "_plain_repr"})
#: Modules whose functions take handles of any device, with strides in elements, and read nothing but layouts.
_GEOMETRY: Final = frozenset({id(vars(geometry)), id(vars(strides))})


class UnrollError(BaseException):
    """Raised if a function does more than call operators; no handler of errors of operators catches it."""


class Outline:
    """A stand-in for a handle, as of a device with its own memory: what follows from its layout."""

    __slots__ = ("_elements", "dtype", "ndim", "shape", "size")

    def __init__(self, array: Any) -> None:
        self.shape, self.size, self.ndim, self.dtype = array.shape, array.size, array.ndim, array.dtype
        self._elements = geometry.element_strides(array)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements. Other code could mean bytes, as in NumPy."""
        if id(sys._getframe(1).f_globals) not in _GEOMETRY:
            raise UnrollError("the function reads strides")
        return self._elements

    def __getattr__(self, name: str) -> Any:
        raise UnrollError(f"the function reads {name} of a handle")


class StandIn(Tensor):
    """A stand-in for a tensor: its key and its layout; operators receive the tensor itself (``plain``).

    Python code reaches elements, storage, history and the attributes of one tensor through slots, which refuse to be
    read. Methods and properties are those of all tensors, and read the slots in turn.
    """

    __slots__ = ("_plain", "_tracer")
    __torch_function__ = disabled_torch_function

    def __getattribute__(self, name: str) -> Any:
        if name == "_array":
            return Outline(plain(self)._array)
        if _shown(name) or (name in _CUT and sys._getframe(1).f_globals is vars(modes)):  # it settles results
            return object.__getattribute__(self, name)
        raise UnrollError(f"the function reads {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _CUT or value is not None:
            raise UnrollError(f"the function sets {name}")
        object.__getattribute__(self, "_tracer").cut(self, name)

    def _cut(self) -> Any:
        return object.__getattribute__(self, "_tracer").helper(Tensor._cut, (self,))


@cache
def _shown(name: str) -> bool:
    """Whether an attribute is one of the class: a method, a property, or a fact that keys and types determine."""
    for each in Tensor.__mro__:
        if name in vars(each):
            found = vars(each)[name]
            return name in _FACTS or isinstance(found, (FunctionType, property, classmethod, staticmethod))
    return False


@cache
def is_plain_class(kind: type) -> bool:
    """Whether stand-ins can take the place of tensors of a class: it changes no method that a function could call."""
    return issubclass(kind, Tensor) and not kind._class_key and all(
        name in _HARMLESS for each in kind.__mro__[:kind.__mro__.index(Tensor)] for name in vars(each))


def stand_in(tensor: Tensor, tracer: Any) -> StandIn:
    """Return a stand-in for a tensor; it tells its tracer (``Notes``) what a function does to its state."""
    made = object.__new__(StandIn)
    put = object.__setattr__
    put(made, "_key", tensor._key)
    put(made, "_base", None)
    put(made, "_plain", tensor)
    put(made, "_tracer", tracer)
    return made


def plain(shown: StandIn) -> Tensor:
    """Return the tensor behind a stand-in."""
    return object.__getattribute__(shown, "_plain")  # type: ignore[no-any-return]
