"""Tier T0: the backend can be found, has a valid declaration and has no side effects. Only ``open`` needs hardware."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any, Final

import tensocket as ts

from ..case import Case, Excluded
from ..numerics import Failure
from ..subject import Subject
from .child import NO_ENTRY_POINT, entry_points_of, run_child, run_on_device

_HOOKS: Final = ("tensocket_describe", "tensocket_backend")
_FEATURES: Final = frozenset(
    {"streams", "events", "pinned", "fp64", "dlpack", "multi_device", "deterministic", "reference"})
_PROBE_LIMIT: Final = 0.2
#: Number of processes, one of which must keep the limit: on a busy machine they wait for a processor.
_PROBE_TRIES: Final = 6


def _entry_point(subject: Subject) -> EntryPoint:
    found = entry_points_of(subject.name)
    if not found:
        raise Excluded(NO_ENTRY_POINT)
    if len({point.value for point in found}) > 1:
        raise Failure(f"{len(found)} entry points are called {subject.name!r}: {[point.value for point in found]}")
    return found[0]


def _record(subject: Subject) -> Any:
    return next(record for record in ts.backends() if record.name == subject.name)


def _name(subject: Subject) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]{1,31}", subject.name, re.ASCII):
        raise Failure(f"{subject.name!r} is not a lower-case word of 2 to 32 letters, digits and '_'")


def _found(subject: Subject) -> None:
    _entry_point(subject)


def _state(subject: Subject) -> None:
    state = _record(subject).state.value
    if "broken" in (state, subject.state) or state == "incompatible":
        raise Failure(f"the backend is {subject.state}: {subject.reason}")
    if state in ("unavailable", "lost") and not _record(subject).reason:
        raise Failure(f"the backend is {state} without a reason")


def _hooks(subject: Subject) -> None:
    module = importlib.import_module(_entry_point(subject).module)
    problems = [f"{name} is missing" for name in _HOOKS if not callable(getattr(module, name, None))]
    problems += [f"{name} is not marked with @hookimpl" for name in _HOOKS
                 if hasattr(module, name) and not hasattr(getattr(module, name), "tensocket_impl")]
    problems += [f"{name} is not a hook" for name, value in vars(module).items()
                 if hasattr(value, "tensocket_impl") and name not in _HOOKS]
    if problems:
        raise Failure("; ".join(problems))


def _descriptor(subject: Subject) -> None:
    descriptor = _record(subject).descriptor
    if descriptor is None:
        raise Failure("the backend has no descriptor")
    if descriptor.name != subject.name:
        raise Failure(f"the descriptor says {descriptor.name!r}, the entry point {subject.name!r}")
    first, end = descriptor.contract
    if not tuple(first) < tuple(end):
        raise Failure(f"the contract range {descriptor.contract} is empty")


def _profile(subject: Subject) -> None:
    profile = _record(subject).descriptor.profile
    unknown = sorted(profile.features - _FEATURES)
    if unknown:
        raise Failure(f"unknown features in the profile: {', '.join(unknown)}")
    lacking = sorted({"float32", "int64", "bool"} - set(profile.dtypes))
    if lacking:
        raise Failure(f"the profile lacks {', '.join(lacking)}, which every device has")
    if "fp64" in profile.features and "float64" not in profile.dtypes:
        raise Failure("the profile has the feature fp64, but not the dtype float64")


def _lazy(subject: Subject) -> None:
    module = _entry_point(subject).module
    out = run_child("import sys, tensocket; print(sys.argv[1] in sys.modules)", module)
    if out.strip() != "False":
        raise Failure(f"importing tensocket imported {module}")


def _first(subject: Subject) -> None:
    """Check that importing the backend before the runtime changes nothing."""
    code = ("import importlib, sys\nimportlib.import_module(sys.argv[1])\nimport tensocket\n"
            "print(next(r.state.value for r in tensocket.backends() if r.name == sys.argv[2]))")
    state = run_child(code, _entry_point(subject).module, subject.name).strip()
    if state != ("available" if subject.usable else subject.state):
        raise Failure(f"the backend is {state} when its module is imported before tensocket")


def _silent(subject: Subject) -> None:
    # The module that lists the backends is an attribute of the package from its first use.
    code = ("import sys, tensocket, tensocket.backends\nbefore = set(vars(tensocket))\n"
            "for r in tensocket.backends(): pass\n"
            "late = set(vars(tensocket)) - before\nprint(sorted(n for n in late if not n.startswith('_')))")
    out = run_child(code, environ={"TENSOCKET_BACKENDS": f"cpu,{subject.name}"})
    if out.strip() != "[]":
        raise Failure(f"loading the backend printed, or changed the namespace of tensocket: {out.strip()}")


def _probe(subject: Subject) -> None:
    code = ("import sys, tensocket\nname = sys.argv[1].partition(':')[0]\n"
            "print(next(r.probe_seconds for r in tensocket.backends() if r.name == name))")
    seconds = math.inf
    for _ in range(_PROBE_TRIES):
        seconds = min(seconds, float(run_on_device(code, subject)))
        if seconds <= _PROBE_LIMIT:
            return
    raise Failure(f"probe() took {seconds * 1000:.0f} ms; {_PROBE_LIMIT * 1000:.0f} ms are allowed")


def _fork(subject: Subject) -> None:
    """Check that a forked child can use the device, which it cannot if a probe initialises the driver's runtime."""
    if not sys.platform.startswith("linux"):
        raise Excluded("there is no fork on this system")
    # Threads of libraries make os.fork warn.
    code = ("import os, sys, tensocket, warnings\nwarnings.simplefilter('ignore')\n"
            "list(tensocket.backends())\nchild = os.fork()\n"
            "if child == 0:\n    t = tensocket.ones(3, device=sys.argv[1])\n"
            "    os._exit(0 if (t + t).tolist() == [2.0] * 3 else 1)\n"
            "_, status = os.waitpid(child, 0)\nprint(os.waitstatus_to_exitcode(status))")
    if run_on_device(code, subject).strip() != "0":
        raise Failure("after a probe in the parent, a forked child can't use the device")


def _twice(subject: Subject) -> None:
    first, second = _record(subject), _record(subject)
    if (first.state, first.device_count) != (second.state, second.device_count):
        raise Failure(f"asking twice gave {first.state} and {second.state}")
    if first.state.value in ("available", "initialised") and first.device_count < 1:
        raise Failure("the backend is available without any device")


def _disabled(subject: Subject) -> None:
    """Check that a backend that the environment excludes is not imported, and that an error says so."""
    code = ("import sys, tensocket\n"
            "try:\n    tensocket.ones(1, device=sys.argv[1])\n"
            "except tensocket.errors.BackendDisabled as error:\n    print(sys.argv[1] in str(error))\n"
            "print(sys.argv[2] in sys.modules)")
    out = run_child(code, subject.name, _entry_point(subject).module,
                    environ={"TENSOCKET_BACKENDS_DISABLE": subject.name})
    if out.split() != ["True", "False"]:
        raise Failure(f"with TENSOCKET_BACKENDS_DISABLE={subject.name} the backend was imported or not refused")


def _reason(subject: Subject) -> None:
    """Check that a device that can't be used reports the reason, in the form of every error."""
    if subject.usable:
        raise Excluded("the device is available")
    try:
        ts.ones(1, device=subject.name)
    except ts.errors.BackendError as error:
        if subject.reason not in str(error):
            raise Failure(f"the error does not give the reason {subject.reason!r}: {error}") from None
    else:
        raise Failure(f"the backend is {subject.state}, yet a tensor was made on it")


def _open(subject: Subject) -> None:
    if subject.get(ts.ones(3, device=subject.device)).tolist() != [1.0, 1.0, 1.0]:
        raise Failure("ones(3) is not three ones")


def cases() -> Iterator[Case]:
    """Yield the cases of tier T0."""
    def case(name: str, check: Callable[[Subject], None], *requires: str, hardware: bool = False) -> Case:
        return Case(f"T0.load.{name}", check, tuple(f"T0.load.{other}" for other in requires), hardware=hardware,
                    quick=name not in ("first", "silent", "fork"))

    yield case("name", _name)
    yield case("entry_point", _found)
    yield case("state", _state)
    yield case("hooks", _hooks, "entry_point")
    yield case("descriptor", _descriptor, "state")
    yield case("profile", _profile, "descriptor")
    yield case("lazy", _lazy, "entry_point")
    yield case("first", _first, "entry_point")
    yield case("silent", _silent, "entry_point")
    yield case("probe", _probe, "entry_point", "state")
    yield case("twice", _twice, "state")
    yield case("disabled", _disabled, "entry_point")
    yield case("reason", _reason, "state")
    yield case("open", _open, "state", hardware=True)
    yield case("fork", _fork, "entry_point", "open", hardware=True)
