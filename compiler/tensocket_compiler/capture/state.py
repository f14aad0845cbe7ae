"""Words and facts of the listed state; see ``listed``."""

from __future__ import annotations

import abc
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from numpy._core import umath

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import STATE
from tensocket_operators.settings import get_num_threads

from .layout import layout
from .listed import HOLDERS
from .object_words import InstancePart
from .words import Fact, ItemsPart, ListPart, NamesPart, Part, Word

#: Attributes that follow from others or that only speed calls up.
_DERIVED: Final = frozenset({"mask", "_busy", "converted", "streams", "reason", "outer", "runs_host_queue", "depth"})

#: Returns how NumPy's functions treat errors; ``np.seterr`` makes a new object.
_ERRORS: Final[Callable[[], Any]] = umath._extobj_contextvar.get


class ValuesPart(NamesPart):
    """Attributes of a holder, which may be those of its class; dicts and lists are compared by content.

    Args:
        holder: The holder; its dict in this thread is the part's owner.
    """

    __slots__ = ("held", "holder")

    def __init__(self, holder: Any, path: str, names: frozenset[str]) -> None:
        super().__init__(holder.__dict__, path, names, by_entries=True)
        self.holder = holder

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        # The attributes' dicts stay alive, because words lie in them.
        self.held = [value for value in self.owner.values() if type(value) is dict]
        return [(f".{name}", _content(getattr(self.holder, name, None))) for name in sorted(self.names or ())]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        yield from super().words()
        yield from ((1, id(value) + layout().version) for value in self.held)


def _content(value: Any) -> Any:
    if type(value) is dict:
        return tuple([(key, _content(item)) for key, item in sorted(value.items(), key=repr)])
    return tuple(value) if type(value) is list else value


def _names_of(holder: Any) -> frozenset[str]:
    known = {name for kind in type(holder).__mro__ for name, value in vars(kind).items()
             if name[:2] != "__" and not callable(value) and not isinstance(value, property)}
    return frozenset({*known, *vars(holder)} - _DERIVED)


def state_parts() -> list[Part]:
    """Return the watched parts of all listed state, for this thread."""
    parts: list[Part] = []
    for name, holder in HOLDERS.items():
        path = f"state.{name}"
        if isinstance(holder, list):
            parts.append(ListPart(holder, path))
        elif isinstance(holder, dict):
            parts.append(ItemsPart(holder, path))
        elif hasattr(holder, "__dict__"):
            parts.append(ValuesPart(holder, path, _names_of(holder)))
        else:
            slots = {slot: vars(type(holder))[slot] for slot in type(holder).__slots__}
            parts.append(InstancePart(holder, path, slots))
    return parts


def unwatched_state() -> tuple[Any, ...]:
    """Return the state that no words stand for.

    It is the thread, the threads of kernels, the registrations of abstract classes, and the settings of ``np.seterr``.
    A call compares the result with that at the time of the capture.
    """
    return threading.get_ident(), get_num_threads(), abc.get_cache_token(), _ERRORS()


def quick_test(state: tuple[Any, ...], words: Callable[[], Any], uses_arrays: bool) -> Callable[[], bool]:
    """Return a test whether ``words()`` holds and ``unwatched_state() == state``.

    Args:
        state: The present state.
        words: Whether all words hold; they include the default device, which has the threads of kernels.
        uses_arrays: Whether the call may have worked with NumPy's arrays.
    """
    thread, threads, token, errors = state
    count: Callable[[], Any] = getattr(open_device(None).runtime, "get_num_threads", lambda: 1)
    this_thread, this_token = threading.get_ident, abc.get_cache_token
    if uses_arrays:
        return lambda: (this_thread() == thread and words() and this_token() == token and count() == threads
                        and _ERRORS() is errors)
    return lambda: this_thread() == thread and words() and this_token() == token and count() == threads


def state_key() -> tuple[Any, ...]:
    """Return all listed state of this thread; equal keys mean that operators behave in the same way."""
    return unwatched_state(), *[read() for read in _readers(len(HOLDERS))]


@functools.lru_cache(maxsize=1)  # by the number of holders, so that a registration clears it
def _readers(count: int) -> tuple[Callable[[], Any], ...]:
    return tuple([_reader_of(holder) for holder in HOLDERS.values()])


def _reader_of(holder: Any) -> Callable[[], Any]:
    if isinstance(holder, (list, dict)):
        return lambda: _content(holder)
    names = sorted(_names_of(holder)) if hasattr(holder, "__dict__") else type(holder).__slots__
    return lambda: [_content(getattr(holder, name, None)) for name in names]


def holder_state(holder: Any) -> Any:
    """Return the state of one listed holder."""
    return _reader_of(holder)()


def describe_state() -> dict[str, str]:
    """Return the listed state by names, for reports."""
    found = {part.path + label: repr(value) for part in state_parts() for label, value in part.visible()}
    return {"grad_enabled": repr(STATE.grad_enabled), **found}
