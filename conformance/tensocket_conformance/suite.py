"""All cases for a device, and the selection of some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import tensocket as ts

from . import ops
from .case import TIERS, Case
from .numerics import FORMATS
from .subject import Subject
from .tiers import bad, gradients, loading, memory


class BadProfile(Exception):
    """A profile that nothing can be concluded from."""


class UnknownSubject(Exception):
    """No installed backend has this name."""


def subject(device: str, seed: int = 0) -> Subject:
    """The device called ``device``, with what its backend declares.

    Raises:
        UnknownSubject: No installed backend has this name, or the index is wrong.
        BadProfile: Its profile makes no sense.
    """
    try:
        named = ts.device(device)
        ts.device_count(named.type)  # raises, with a suggestion, if no backend has this name
    except ts.errors.DeviceError as error:
        raise UnknownSubject(str(error)) from None
    record = next(record for record in ts.backends() if record.name == named.type)
    found = Subject(named.type, named.index or 0, seed, record.state.value, record.reason)
    if record.descriptor is None:
        return found
    if found.usable and found.index >= record.device_count:
        raise UnknownSubject(f"backend {found.name!r} has {record.device_count} device(s)")
    # A device may do less than its backend; without a device there is only the backend's word.
    profile = record.descriptor.profile
    if found.usable:
        try:
            profile = ts.profile(found.device)
        except ts.errors.BackendError as error:
            # A backend that cannot open its device is what the suite is there to report.
            found.state = "unavailable" if isinstance(error, ts.errors.BackendUnavailable) else "broken"
            found.reason = error.rule
    found.dtypes = tuple(short for short, form in FORMATS.items() if form.name in profile.dtypes)
    found.features = frozenset(profile.features)
    found.host_kernels = frozenset(profile.host_kernels)
    found.host_resident = bool(profile.host_resident)
    if not found.dtypes:
        raise BadProfile(f"the profile of {found.name!r} declares no dtype that the suite knows")
    return found


def all_cases(declared: tuple[str, ...]) -> list[Case]:
    """Every case for a device that declares the element types ``declared``, prerequisites first."""
    cases = [*loading.cases(), *memory.cases(declared), *ops.cases(declared), *bad.cases(),
             *gradients.cases(declared)]
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ValueError(f"two cases are called {case.id}")
        seen.add(case.id)
    return cases


@dataclass(frozen=True)
class Selection:
    """Which cases to run.

    Attributes:
        tier: The highest tier; those below it are included.
        quick: Whether to take a sample of about a minute.
        pattern: Shell pattern that ids must match; the cases they depend on come along.
    """

    tier: str = TIERS[-1]
    quick: bool = False
    pattern: str | None = None

    def apply(self, cases: list[Case]) -> list[Case]:
        """The selected ones, in their order; empty if nothing matches."""
        chosen = [case for case in cases if case.tier <= self.tier]
        if self.quick:
            chosen = quick_sample(chosen)
        if self.pattern is not None:
            chosen = [case for case in chosen if fnmatchcase(case.id, self.pattern)]
        wanted = _with_prerequisites(chosen, {case.id: case for case in cases})
        return [case for case in cases if case.id in wanted]


def quick_sample(cases: Iterable[Case]) -> list[Case]:
    """All cases marked quick, one of each operator, one of another element type for every other, some gradients.

    Between them the operators see every sample class. On a device that compiles, a case costs a kernel, so there are no
    more. The choice depends on nothing but the ids: it is the same in every run.
    """
    chosen: list[Case] = []
    families: dict[str, list[Case]] = {}
    for case in cases:
        if case.quick:
            chosen.append(case)
        elif case.tier in ("T2", "T4"):
            families.setdefault(case.family, []).append(case)
    for family, members in families.items():
        running = [case for case in members if not case.refusal]
        dtypes = [case.dtype for case in running]
        first = "f32" if "f32" in dtypes else dtypes[0] if dtypes else None
        if members[0].tier == "T4" and _number(family) % 4:
            continue
        plain = [case for case in running if case.dtype == first]
        grid = [case for case in plain if "/grid#" in case.id]
        # Most defects show at special values; the others are left to the operators that draw another class.
        chosen += grid if grid and _number(family) % 3 else _pick(family, plain)
        if _number(family) % 2 and members[0].tier == "T2":
            chosen += _pick(family + "+", [case for case in running if case.dtype != first])
            chosen += _pick(family + "-", [case for case in members if case.refusal])
    return chosen


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little")


def _pick(key: str, cases: list[Case]) -> list[Case]:
    return [cases[_number(key) % len(cases)]] if cases else []


def _with_prerequisites(chosen: list[Case], by_id: dict[str, Case]) -> set[str]:
    wanted: set[str] = set()
    waiting = [case.id for case in chosen]
    while waiting:
        case_id = waiting.pop()
        if case_id not in wanted and case_id in by_id:
            wanted.add(case_id)
            waiting += by_id[case_id].requires
    return wanted
