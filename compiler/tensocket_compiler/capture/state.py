"""State of the runtime that decides how operators behave. Guards list it; no observation could discover all of it.

Each entry is a holder, an object of the runtime, whose attributes or items are watched as words. Holders that are local
to threads have other words in each thread, so guards hold in the thread that made them only. The front end adds its own
holders with ``register_state``.
"""

from __future__ import annotations

import abc
import threading
import types
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
from tensocket_core.tensor import Tensor
from tensocket_operators.deterministic import SETTING
from tensocket_operators.differentiation.mutation import _THREAD as _SAVING_THREAD
from tensocket_operators.library.operators import _RUNNING
from tensocket_operators.random import generator
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
    "autocast_registrations": vars(REGISTERED)["data"],
    "anomaly_mode": _MODE,
    "deterministic": SETTING,
    "matmul_precision": _PRECISION,
    "generators": generator._GENERATORS,
}


def register_state(name: str, holder: Any) -> None:
    """Add state that decides how functions behave: a list, a dict, a ``threading.local``, or an object.

    Its attributes or items are watched from then on, and closures do not look into it.
    """
    _HOLDERS[name] = holder


def _code_of(member: Any) -> types.CodeType:
    function: Any = member.fget if isinstance(member, property) else member
    code: types.CodeType = function.__code__
    return code


#: Functions of the runtime that no replay of operators stands for, by their code, with the reason.
UNREPLAYABLE: Final[dict[types.CodeType, str]] = {
    **{_code_of(member): "it reads or sets the state of a random number generator" for member in (
        generator.manual_seed, generator.seed, generator.initial_seed, generator.get_rng_state, generator.set_rng_state,
        *(vars(generator.Generator)[name] for name in ("manual_seed", "seed", "initial_seed", "get_state", "set_state",
                                                       "position")))},
    _code_of(vars(Tensor)["data_ptr"]): "it reads an address",
    _code_of(vars(Tensor)["_version"]): "it reads how often a tensor was modified",
}


def register_unreplayable(function: Any, reason: str) -> None:
    """Refuse observed calls that call a function of the runtime, given or as a property, directly."""
    UNREPLAYABLE[_code_of(function)] = reason


def is_listed(holder: Any) -> bool:
    """Whether an object is a listed holder of state."""
    return any(holder is each for each in _HOLDERS.values())


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
        return tuple((key, _content(item)) for key, item in sorted(value.items(), key=repr))
    return tuple(value) if type(value) is list else value


def _names_of(holder: Any) -> frozenset[str]:
    known = {name for kind in type(holder).__mro__ for name, value in vars(kind).items()
             if name[:2] != "__" and not callable(value) and not isinstance(value, property)}
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
            parts.append(ValuesPart(holder, path, _names_of(holder)))
        else:
            slots = {slot: vars(type(holder))[slot] for slot in type(holder).__slots__}
            parts.append(InstancePart(holder, path, slots))
    return parts


def unwatched_state() -> tuple[Any, ...]:
    """Return the state that no words stand for: thread, threads of kernels, and registrations of abstract classes.

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
