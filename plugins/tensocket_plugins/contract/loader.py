"""Loading of one backend, from its entry point to a probed ``Backend``, with every step guarded.

Any exception that the backend's code raises in a step, even ``SystemExit``, becomes a state with a reason; only a
keyboard interrupt passes. Each backend has its own plugin manager, so no backend's hooks can see or hide another's.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import pluggy

from . import hooks
from .backend import Backend, Unavailable
from .descriptor import Descriptor
from .entrypoints import Offer
from .states import BackendRecord, State
from .version import CONTRACT_VERSION

_Result = TypeVar("_Result")

#: The hooks of the contract, all required.
_HOOKS: Final = ("tensocket_describe", "tensocket_backend")
#: Files whose frames do not help to find a backend's mistake.
_GUARDS: Final = frozenset({__file__, str(Path(__file__).with_name("registry.py"))})


class Refusal(Exception):
    """Exception that ends the loading of a backend in an unusable state."""

    def __init__(self, state: State, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.advice = advice


def load(offer: Offer, record: BackendRecord) -> tuple[BackendRecord, Backend | None]:
    """Import, check and probe a discovered backend.

    Returns:
        The record in its new state, and the backend if it is usable.

    Raises:
        KeyboardInterrupt: The user interrupted; the backend may be loaded again.
    """
    start = time.perf_counter()
    plugins = pluggy.PluginManager(hooks.PROJECT)
    plugins.add_hookspecs(hooks)
    backend: Backend | None = None
    try:
        _import(offer, plugins)
        descriptor = _describe(offer, plugins)
        record = replace(record, descriptor=descriptor)
        backend = _create(offer, plugins)
        probe_start = time.perf_counter()
        try:
            _run(offer, "probe()", backend.probe)
        finally:
            record = replace(record, probe_seconds=time.perf_counter() - probe_start)
        record = replace(record, state=State.AVAILABLE, device_count=_count(offer, backend))
    except Refusal as refusal:
        cause = refusal.__cause__
        record = replace(record, state=refusal.state, reason=refusal.reason, advice=refusal.advice, exception=cause,
                         traceback=traceback_text(cause) if cause else "")
        backend = None
    return replace(record, load_seconds=time.perf_counter() - start), backend


def one_line(error: BaseException) -> str:
    """Return ``ValueError: message`` on one line, also for an exception that cannot print itself."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its message cannot be printed"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_text(error: BaseException) -> str:
    """Return the traceback without the frames of this package's guards and of the import machinery."""
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list(
        [frame for frame in told.stack if "importlib" not in frame.filename and frame.filename not in _GUARDS])
    return "".join(told.format())


@contextmanager
def _guarded(offer: Offer, step: str) -> Iterator[None]:
    """Turn any exception of the backend's code in ``step`` into a ``Refusal`` with that cause."""
    try:
        yield
    except (KeyboardInterrupt, Refusal):
        raise
    except Unavailable as error:
        raise Refusal(State.UNAVAILABLE, error.reason, error.advice) from error
    except BaseException as error:
        if isinstance(error, ImportError) and (error.name or "").startswith("tensocket_plugins"):
            raise Refusal(State.INCOMPATIBLE, f"{step} raised {one_line(error)}", _match_versions(offer)) from error
        raise Refusal(State.BROKEN, f"{step} raised {one_line(error)}", _repair(offer)) from error


def _run(offer: Offer, step: str, function: Callable[[], _Result]) -> _Result:
    with _guarded(offer, step):
        return function()


def _import(offer: Offer, plugins: pluggy.PluginManager) -> None:
    plugin = _run(offer, f"the import of {offer.target}", offer.load)
    problems = _run(offer, "inspecting its hooks", lambda: _hook_problems(plugin, plugins))
    if problems:
        reason = f"its hooks do not fit the contract: {'; '.join(problems)}"
        raise Refusal(State.BROKEN, reason, _repair(offer))
    _run(offer, "registering its hooks", lambda: plugins.register(plugin, offer.name))


def _hook_problems(plugin: object, plugins: pluggy.PluginManager) -> list[str]:
    """Return all problems of the hooks, so that an author learns them at once."""
    problems = []
    marked = {name for name in dir(plugin) if plugins.parse_hookimpl_opts(plugin, name) is not None}
    meant = {name for name in dir(plugin) if name.startswith("tensocket_") and inspect.isroutine(getattr(plugin, name))}
    for name in sorted(marked | meant):
        if name not in _HOOKS:
            problems.append(f"{name} is not a hook of contract {_version(CONTRACT_VERSION)}")
        elif name not in marked:
            problems.append(f"{name} is not marked with @hookimpl")
        elif required := _required_parameters(getattr(plugin, name)):
            problems.append(f"{name} takes {', '.join(required)}, but is called without arguments")
    problems += [f"{name} is missing" for name in _HOOKS if name not in marked | meant]
    return problems


def _required_parameters(function: Callable[..., object]) -> list[str]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is parameter.empty and parameter.kind not in variadic]


def _describe(offer: Offer, plugins: pluggy.PluginManager) -> Descriptor:
    descriptor = _run(offer, "tensocket_describe()", plugins.hook.tensocket_describe)
    if not isinstance(descriptor, Descriptor):
        raise Refusal(State.BROKEN, f"tensocket_describe() returned {_kind(descriptor)}, not a Descriptor",
                      _repair(offer))
    first, end = _contract_range(offer, descriptor.contract)
    if not first <= CONTRACT_VERSION < end:
        reason = (f"it supports the contract from {_version(first)} up to, but not including, {_version(end)}; "
                  f"this runtime has {_version(CONTRACT_VERSION)}")
        raise Refusal(State.INCOMPATIBLE, reason, _match_versions(offer))
    if descriptor.name != offer.name:
        reason = f"its descriptor says '{descriptor.name}', but its entry point says '{offer.name}'"
        raise Refusal(State.BROKEN, reason, f"report this to the authors of {offer.distribution}")
    return descriptor


def _contract_range(offer: Offer, given: object) -> tuple[tuple[int, int], tuple[int, int]]:
    match given:
        case ((int(), int()) as first, (int(), int()) as end):
            return (first[0], first[1]), (end[0], end[1])
    raise Refusal(State.BROKEN, f"its contract range is {given!r}, not two versions such as ((1, 0), (2, 0))",
                  _repair(offer))


def _create(offer: Offer, plugins: pluggy.PluginManager) -> Backend:
    backend = _run(offer, "tensocket_backend()", plugins.hook.tensocket_backend)
    if not isinstance(backend, Backend):
        raise Refusal(State.BROKEN, f"tensocket_backend() returned {_kind(backend)}, not a Backend", _repair(offer))
    return backend


def _count(offer: Offer, backend: Backend) -> int:
    count: object = _run(offer, "device_count()", backend.device_count)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise Refusal(State.BROKEN, f"device_count() returned {count!r}, not a number of devices", _repair(offer))
    if count == 0:
        raise Refusal(State.UNAVAILABLE, "it finds no device", "connect or enable a device that it supports")
    return count


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _match_versions(offer: Offer) -> str:
    return f"install versions that fit together: pip install -U tensocket {offer.distribution}"


def _repair(offer: Offer) -> str:
    return (f"see its traceback with: tensocket doctor {offer.name}; then upgrade it (pip install -U "
            f"{offer.distribution}) or exclude it (TENSOCKET_BACKENDS_DISABLE={offer.name})")
