"""All cases for a device, and selections of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import tensocket as ts

from . import ops
from .case import DEFAULT_TIER, TIERS, Case
from .numerics import FORMATS
from .record import KINDS
from .subject import Subject
from .tiers import (
    argument_programs,
    bad,
    compiled,
    gradients,
    loading,
    memory,
    scheduled_programs,
    stateful,
    stateful_programs,
)

#: The quick run takes one of this many operators of a family.
_EACH: Final = 6
#: The class of an element type: the letter of its kind; narrow floats have their own class.
_LETTERS: Final = {short: letter for letter, shorts in KINDS.items() for short in shorts}
_NARROW: Final = frozenset({"f16", "bf16"})
#: Operators with cases that build four kernels or more on OpenCL; in the quick run others represent their families.
COSTLY: Final = frozenset({
    "argsort", "bincount", "cosine_similarity", "grid_sample", "histc", "index", "index.mask", "istft",
    "linalg.matrix_exp", "log_softmax", "logsumexp", "masked_mean", "max.dim", "median", "mode", "multi_margin_loss",
    "multinomial", "nanmean", "nanquantile", "quantile", "sort", "sparse.coalesce", "sparse.mm.csr", "sparse.mul",
    "sparse.to_sparse_csr", "sparse.transpose", "std", "unique", "unique_groups", "unique_rows", "var"})

#: Programs of tier T5 whose state changes, by name.
PROGRAMS = {**stateful_programs.PROGRAMS, **argument_programs.PROGRAMS, **scheduled_programs.PROGRAMS}


class BadProfile(Exception):
    """Error: a profile is not valid, so that tests of its device would have no meaning."""


class UnknownSubject(Exception):
    """Error: no installed backend has this name."""


class NothingSelected(ts.errors.ArgumentError):
    """Error: no case is selected."""


def subject(device: str, seed: int = 0) -> Subject:
    """Return the device called ``device``, with the declarations of its backend.

    Raises:
        UnknownSubject: No installed backend has this name, or the index is wrong.
        BadProfile: The profile is not valid.
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
    # A device may support less than its backend; without a device, only the backend's declaration is available.
    profile = record.descriptor.profile
    if found.usable:
        try:
            profile = ts.profile(found.device)
        except ts.errors.BackendError as error:
            # The suite reports a backend that cannot open its device.
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
    """Return every case for a device that declares the element types ``declared``, prerequisites first."""
    cases = [*loading.cases(), *memory.cases(declared), *ops.cases(declared), *bad.cases(),
             *gradients.cases(declared), *compiled.cases(declared),
             *stateful.cases(PROGRAMS, declared)]
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ValueError(f"two cases are called {case.id}")
        seen.add(case.id)
    return cases


@dataclass(frozen=True)
class Selection:
    """Selection of the cases to run.

    Attributes:
        tier: The highest tier; lower tiers are included. None: the default, or all for a quick run.
        quick: Whether to take a sample that runs in less than a minute.
        pattern: Shell pattern that ids must match; their prerequisites are included.
        shard: ``(i, n)`` takes the i-th of n parts, counted from 1. Cases of one operator, which share kernels, stay
            together; n processes with the same other options run every case.
    """

    tier: str | None = None
    quick: bool = False
    pattern: str | None = None
    shard: tuple[int, int] = (1, 1)

    @property
    def highest(self) -> str:
        """The highest tier."""
        return self.tier or (TIERS[-1] if self.quick or self.pattern else DEFAULT_TIER)

    def apply(self, cases: list[Case]) -> list[Case]:
        """Return the selected cases, in order.

        Raises:
            NothingSelected: There are none: no id matches the pattern, or there are fewer operators than parts.
        """
        chosen = [case for case in cases if case.tier <= self.highest]
        if self.quick:
            chosen = quick_sample(chosen)
        if self.pattern is not None:
            chosen = [case for case in chosen if fnmatchcase(case.id, self.pattern)]
        if not chosen:
            raise NothingSelected(
                "conformance", f"the pattern {self.pattern!r}",
                f"it matches the id of a {'case of the quick run' if self.quick else 'case'} up to tier {self.highest}",
                "see the ids with --list, and check --tier")
        part, parts = self.shard
        families = list(dict.fromkeys(case.family for case in chosen))
        if part > len(families):
            raise NothingSelected(
                "conformance", f"part {part} of {parts}",
                f"parts have whole operators, and the selection has {len(families)}",
                f"take parts up to {len(families)}, or select more cases")
        mine = set(families[part - 1::parts])
        chosen = [case for case in chosen if case.family in mine]
        wanted = _with_prerequisites(chosen, {case.id: case for case in cases})
        return [case for case in cases if case.id in wanted]


def quick_sample(cases: Iterable[Case]) -> list[Case]:
    """Return all cases marked quick, and a few that represent the others.

    A device that compiles spends most of a case's time on kernels, so the sample needs few kernels. It takes one in
    ``_EACH`` operators of each family; together they cover every class of element types, every sample class and a
    refusal, if there are any. Only the full run includes the operators in ``COSTLY``. The choice depends only on the
    ids, so it is the same in every run.
    """
    chosen: list[Case] = []
    areas: dict[str, list[Case]] = {}
    for case in cases:
        if case.quick:
            chosen.append(case)
        elif case.tier in ("T2", "T4") and case.family.partition(".")[2] not in COSTLY:
            areas.setdefault(f"{case.tier} {case.area}", []).append(case)
    drawn = {family for members in areas.values() for family in _draw(members)}
    # Special values first, which reveal most defects.
    remaining = sorted((case for members in areas.values() for case in members),
                       key=lambda case: ("/grid#" not in case.id, _number(case.id)))
    marks = {case.id: _marks(case, drawn) for case in remaining}
    missing = set[str]().union(*marks.values())
    built: set[tuple[str, str | None]] = set()
    while missing:
        # Cases of an operator and element type that are chosen already need no new kernels.
        best = max(remaining, key=lambda case: (len(marks[case.id] & missing), (case.family, case.dtype) in built))
        chosen.append(best)
        missing -= marks[best.id]
        built.add((best.family, best.dtype))
    return chosen


def _draw(cases: list[Case]) -> list[str]:
    """Choose some operators of a family, with their tiers."""
    operators = sorted({f"{case.tier}.{case.family}" for case in cases}, key=_number)
    return operators[:max(2, len(operators) // _EACH)]


def _marks(case: Case, drawn: set[str]) -> frozenset[str]:
    """Return the names of the properties that a case represents."""
    if case.refusal:
        return frozenset({"refusal"})
    marks = {f"{case.tier} sample {case.id.rpartition('/')[2].partition('#')[0]}"}
    if case.dtype is not None:
        marks.add(f"{case.tier} dtype " + ("narrow" if case.dtype in _NARROW else _LETTERS[case.dtype]))
    if f"{case.tier}.{case.family}" in drawn:
        marks.add(f"operator {case.tier}.{case.family}")
    return frozenset(marks)


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little")


def _with_prerequisites(chosen: list[Case], by_id: dict[str, Case]) -> set[str]:
    wanted: set[str] = set()
    waiting = [case.id for case in chosen]
    while waiting:
        case_id = waiting.pop()
        if case_id not in wanted and case_id in by_id:
            wanted.add(case_id)
            waiting += by_id[case_id].requires
    return wanted
