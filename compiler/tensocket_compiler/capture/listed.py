"""State of the runtime that decides how operators behave. Guards list it; no observation could discover all of it.

Each entry is a holder, an object of the runtime, whose attributes or items are watched as words. Holders that are local
to threads have other words in each thread, so guards hold in the thread that made them only. The front end adds its own
holders with ``register_state``.
"""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any, Final

import numpy as np

from tensocket_core.autograd.anomaly import _MODE
from tensocket_core.device import _ANSWERING, PROCESS_DEFAULT
from tensocket_core.device import _THREAD as _DEVICE_THREAD
from tensocket_core.dispatch.autocast import REGISTERED
from tensocket_core.dispatch.fallback import FALLBACKS
from tensocket_core.dispatch.modes import INHERITED
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.pytree_nodes import NODES
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_core.tensor import Tensor
from tensocket_core.warned import _ALWAYS
from tensocket_operators.deterministic import SETTING
from tensocket_operators.differentiation.mutation import _THREAD as _SAVING_THREAD
from tensocket_operators.library.operators import _RUNNING
from tensocket_operators.random import generator
from tensocket_operators.settings import _PRECISION

#: Holders of state by the names that reports show.
HOLDERS: Final[dict[str, Any]] = {
    **{type(local).__name__.strip("_"): local for local in INHERITED},
    "device": _DEVICE_THREAD,
    "saving": _SAVING_THREAD,
    "library": _RUNNING,
    "default_dtype": DEFAULT_DTYPE,
    "default_device": PROCESS_DEFAULT,
    "answering_device": _ANSWERING,
    "slow_recording": RECORDING_SLOW_PATHS,
    "overridden_kernels": OVERRIDDEN_KERNELS,
    "fallbacks": FALLBACKS,
    "autocast_registrations": vars(REGISTERED)["data"],
    "anomaly_mode": _MODE,
    "deterministic": SETTING,
    "matmul_precision": _PRECISION,
    "tree_nodes": NODES,
    "warn_always": _ALWAYS,
    "generators": generator._GENERATORS,
}


def register_state(name: str, holder: Any) -> None:
    """Add state that decides how functions behave: a list, a dict, a ``threading.local``, or an object.

    Its attributes or items are watched from then on, and closures do not look into it.
    """
    HOLDERS[name] = holder


#: The module of NumPy's functions that ``str`` and ``repr`` of arrays call.
_PRINTING: Final[Any] = importlib.import_module("numpy._core.arrayprint")


def _code_of(member: Any) -> types.CodeType:
    function: Any = member.fget if isinstance(member, property) else member
    code: types.CodeType = function.__code__
    return code


#: Functions of the runtime that no replay of operators stands for, by their code, with the reason.
UNREPLAYABLE: Final[dict[types.CodeType, str]] = {
    **{_code_of(member): "it reads or sets the state of a random number generator" for member in (
        generator.manual_seed, generator.seed, generator.initial_seed, generator.get_rng_state, generator.set_rng_state,
        *(vars(generator.Generator)[name] for name in ("manual_seed", "seed", "initial_seed", "get_state", "set_state",
                                                       "clone_state", "position", "__reduce__")))},
    _code_of(vars(Tensor)["data_ptr"]): "it reads an address",
    **{_code_of(vars(Tensor)[name]): "it reads where a tensor lies in its storage"
       for name in ("storage_offset", "untyped_storage", "storage")},
    _code_of(vars(Tensor)["_version"]): "it reads how often a tensor was modified",
    **{_code_of(inspect.unwrap(function)): "it reads options of NumPy" for function in (
        _PRINTING._array_str_implementation, _PRINTING._array_repr_implementation, np.array2string,
        np.get_printoptions, np.geterr, np.geterrcall, np.getbufsize)},
}


def register_unreplayable(function: Any, reason: str) -> None:
    """Refuse observed calls that call a function of the runtime, given or as a property, directly."""
    UNREPLAYABLE[_code_of(function)] = reason
