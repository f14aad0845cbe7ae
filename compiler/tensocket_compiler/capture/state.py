"""State of the runtime that decides how operators behave. Guards list it; no observation could discover all of it.

Each entry is a holder, an object of the runtime, whose attributes or items are watched as words. Holders that are local
to threads have other words in each thread, so guards hold in the thread that made them only. The front end adds its own
holders with ``register_state``.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterable
from typing import Any, Final

from tensocket_core.autograd.anomaly import _MODE
from tensocket_core.device import _ANSWERING, _PROCESS_DEFAULT
from tensocket_core.device import _THREAD as _DEVICE_THREAD
from tensocket_core.dispatch.autocast import REGISTERED
from tensocket_core.dispatch.fallback import FALLBACKS
from tensocket_core.dispatch.modes import INHERITED, STATE
from tensocket_core.promotion import _DEFAULT
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_operators.deterministic import SETTING
from tensocket_operators.differentiation.mutation import _THREAD as _SAVING_THREAD
from tensocket_operators.library.operators import _RUNNING
from tensocket_operators.random.generator import _GENERATORS
from tensocket_operators.settings import _PRECISION, get_num_threads

from .layout import layout
from .words import Fact, InstancePart, ItemsPart, ListPart, NamesPart, Part, Word

#: Attributes that follow from others or that only speed calls up.
_DERIVED: Final = frozenset({"mask", "_busy", "converted", "streams", "reason", "outer", "runs_host_queue", "depth"})
_HOLDERS: Final[dict[str, Any]] = {
    **{type(local).__name__.strip("_"): local for local in INHERITED},
    "device": _DEVICE_THREAD,
    "saving": _SAVING_THREAD,
    "library": _RUNNING,
    "default_dtype": _DEFAULT,
    "default_device": _PROCESS_DEFAULT,
    "answering_device": _ANSWERING,
    "slow_recording": RECORDING_SLOW_PATHS,
    "overridden_kernels": OVERRIDDEN_KERNELS,
    "fallbacks": FALLBACKS,
    "autocast_registrations": REGISTERED.data,
    "anomaly_mode": _MODE,
    "deterministic": SETTING,
    "matmul_precision": _PRECISION,
    "generators": _GENERATORS,
}


def register_state(name: str, holder: Any) -> None:
    """Add state that decides how functions behave: a list, a dict, a ``threading.local``, or an object.

    Its attributes or items are watched from then on, and closures do not look into it.
    """
    _HOLDERS[name] = holder


def is_listed(holder: Any) -> bool:
    """Whether an object is a listed holder of state."""
    return any(holder is each for each in _HOLDERS.values())


class ValuesPart(NamesPart):
    """Attributes whose values are compared by content where these are dicts or lists."""

    __slots__ = ("held",)

    def read(self) -> Iterable[Fact]:
        # The attributes' dicts stay alive, because words lie in them.
        self.held = [value for value in self.owner.values() if type(value) is dict]
        return [(label, _content(value)) for label, value in super().read()]

    def words(self) -> Iterable[Word]:
        yield from super().words()
        yield from ((1, id(value) + layout().version) for value in self.held)


def _content(value: Any) -> Any:
    if type(value) is dict:
        return tuple((key, _content(item)) for key, item in sorted(value.items(), key=repr))
    return tuple(value) if type(value) is list else value


def _names_of(holder: Any) -> frozenset[str]:
    known = {name for kind in type(holder).__mro__ for name in (*getattr(kind, "__annotations__", ()), *vars(kind))}
    return frozenset({*known, *vars(holder)} - _DERIVED)


def state_parts() -> list[Part]:
    """Return the watched parts of all listed state, for this thread."""
    parts: list[Part] = []
    for name, holder in _HOLDERS.items():
        path = f"state.{name}"
        if isinstance(holder, list):
            parts.append(ListPart(holder, path))
        elif isinstance(holder, dict):
            parts.append(ItemsPart(holder, path))
        elif hasattr(holder, "__dict__"):
            parts.append(ValuesPart(holder.__dict__, path, _names_of(holder), ".", by_entries=True))
        else:
            slots = {slot: vars(type(holder))[slot] for slot in type(holder).__slots__}
            parts.append(InstancePart(holder, path, slots))
    return parts


def unwatched_state() -> tuple[Any, ...]:
    """Return the state that no words stand for: thread, number of threads of kernels, registrations of abstract classes.

    A call compares the result with that at the time of the capture.
    """
    return threading.get_ident(), get_num_threads(), abc.get_cache_token()


def state_key() -> tuple[Any, ...]:
    """Return all listed state of this thread; equal keys mean that operators behave in the same way."""
    return unwatched_state(), *(part.visible() for part in state_parts())


def describe_state() -> dict[str, str]:
    """Return the listed state by names, for reports."""
    found = {part.path + label: repr(value) for part in state_parts() for label, value in part.visible()}
    return {"grad_enabled": repr(STATE.grad_enabled), **found}
