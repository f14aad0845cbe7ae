"""Conformance cases and their possible outcomes."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .numerics import Metric

if TYPE_CHECKING:
    from .subject import Subject

#: Tiers in the order in which a backend is brought up: loading, memory, operators, gradients, programs.
TIERS: Final = ("T0", "T1", "T2", "T4", "T5")
#: The highest tier of a run that names none; a quick run takes a sample of all tiers.
DEFAULT_TIER: Final = "T4"

_ID: Final = re.compile(r"T[0-9]\.[a-z0-9_.]+(/[a-z0-9_]+)*(#[0-9]+)?", re.ASCII)


class Outcome(enum.Enum):
    """The outcome of a case, one of six."""

    #: The device behaved as specified.
    PASS = "PASS"
    #: The device did not behave as specified.
    FAIL = "FAIL"
    #: The case is outside of the declared profile, and the device refused it with the typed error.
    UNSUPPORTED = "UNSUPPORTED"
    #: The case was skipped for a stated reason.
    EXCLUDED = "EXCLUDED"
    #: A prerequisite of the case failed.
    BLOCKED = "BLOCKED"
    #: No device can run it.
    NOT_RUN = "NOT_RUN"


class Excluded(Exception):
    """Error that a case raises if it does not apply to the device; the message is the reason."""


class NotRun(Exception):
    """Error that a case raises if something that it needs is not installed; the message says what."""


@dataclass(frozen=True)
class Case:
    """One check.

    Attributes:
        id: Such as ``T2.op.add/f32/broadcast#3``; it selects, excludes and reproduces the case.
        run: Performs the check; returns the worst deviation if it compared values.
        requires: Ids of the cases that are prerequisites of this one.
        dtype: Short name of the element type, if the case tests one.
        refusal: Whether it checks that the device refuses something undeclared; passing counts as UNSUPPORTED.
        hardware: Whether it needs a device that can be opened.
        quick: Whether the quick run includes it.
        area: Its family of operators, such as ``reduction``; empty if it does not test an operator.
    """

    id: str
    run: Callable[[Subject], Metric | None]
    requires: tuple[str, ...] = ()
    dtype: str | None = None
    refusal: bool = False
    hardware: bool = True
    quick: bool = False
    area: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is not a case id")

    @property
    def tier(self) -> str:
        """The tier, such as ``T2``."""
        return self.id.partition(".")[0]

    @property
    def family(self) -> str:
        """The part of the id before the first slash, without the tier, such as ``op.add``."""
        return self.id.partition(".")[2].partition("/")[0].partition("#")[0]


@dataclass(frozen=True)
class Result:
    """The outcome of a case.

    Attributes:
        case: The case.
        outcome: The outcome.
        seconds: Duration of the case.
        message: Why it did not pass; empty if it did.
        metric: The worst deviation, if the case compared values.
        blocked_by: Id of the case that blocked it.
        log: The end of the traceback of an unexpected exception.
        kernels: Kernels built while it ran.
    """

    case: Case
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""
    metric: Metric | None = None
    blocked_by: str | None = None
    log: str = ""
    kernels: int = 0
