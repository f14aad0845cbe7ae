"""Stand-ins for tensors: they show to a function what follows from layouts, and refuse to show anything else."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any, Final

from tensocket_core import geometry, strides
from tensocket_core.dispatch import modes
from tensocket_core.dispatch.overrides import disabled_torch_function
from tensocket_core.tensor import Tensor

#: Attributes of handles that are part of the layout; ``flags`` is one if the next attribute is of the second set.
_LAYOUT: Final = frozenset({"shape", "strides", "size", "ndim", "itemsize", "dtype", "nbytes"})
_FLAGS: Final = frozenset({"c_contiguous", "f_contiguous"})
#: Attributes that hold the state of one tensor rather than facts that all tensors of a layout share.
_STATE: Final = frozenset({"__dict__", "_base", "_fixed_view", "_grad", "_grad_fn", "_version_counter", "_views"})
#: Attributes that a function may set, of new tensors: they cease to be views.
_CUT: Final = frozenset({"_base", "_fixed_view", "_version_counter"})
_FILLERS: Final = frozenset({"CACHE", "EXTENDED_ARG"})
#: Modules whose functions take handles of any device, with strides in elements, and read nothing but layouts.
_GEOMETRY: Final = frozenset({id(vars(geometry)), id(vars(strides))})


class UnrollError(BaseException):
    """Raised if a function does more than call operators; no handler of errors of operators catches it."""


class Outline:
    """A stand-in for a handle: what follows from its layout."""

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

    Python code reaches elements, storage and history of a tensor through attributes of its class only, and these read
    the slots. So it is enough to watch the slots.
    """

    __slots__ = ("_cut_note", "_plain")
    __torch_function__ = disabled_torch_function

    def __getattribute__(self, name: str) -> Any:
        if name == "_array" and not _reads_layout(sys._getframe(1)):
            return Outline(plain(self)._array)
        if name in _STATE and sys._getframe(1).f_globals is not vars(modes):  # modes settle results of operators
            raise UnrollError(f"the function reads {name}")
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _CUT or value is not None:
            raise UnrollError(f"the function sets {name}")
        object.__getattribute__(self, "_cut_note")(self, name)


def stand_in(tensor: Tensor, cut_note: Callable[[StandIn, str], None]) -> StandIn:
    """Return a stand-in for a tensor; ``cut_note`` is called if a function makes an attribute None."""
    made = object.__new__(StandIn)
    put = object.__setattr__
    put(made, "_array", tensor._array)
    put(made, "_key", tensor._key)
    put(made, "_base", None)
    put(made, "_plain", tensor)
    put(made, "_cut_note", cut_note)
    return made


def plain(shown: StandIn) -> Tensor:
    """Return the tensor behind a stand-in."""
    return object.__getattribute__(shown, "_plain")  # type: ignore[no-any-return]


def _reads_layout(frame: FrameType) -> bool:
    first, second = _followers(frame.f_code, frame.f_lasti)
    return first in _LAYOUT or (first == "flags" and second in _FLAGS)


@cache
def _followers(code: CodeType, offset: int) -> tuple[str, str]:
    """Return the names of the attributes that the two instructions behind an offset read; empty for all others."""
    behind = [x for x in dis.get_instructions(code) if x.offset > offset and x.opname not in _FILLERS][:2]
    first, second, *_ = [str(x.argval) if x.opname in ("LOAD_ATTR", "LOAD_METHOD") else "" for x in behind] + ["", ""]
    return first, second
