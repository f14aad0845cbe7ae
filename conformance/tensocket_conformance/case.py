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

#: Tiers in the order in which a backend is brought up: loading, memory, operators, gradients.
TIERS: Final = ("T0", "T1", "T2", "T4")

_ID: Final = re.compile(r"T[0-9]\.[a-z0-9_.]+(/[a-z0-9_]+)*(#[0-9]+)?", re.ASCII)


class Outcome(enum.Enum):
    """The six outcomes of a case."""

    #: The device did what it should.
    PASS = "PASS"
    #: It did not.
    FAIL = "FAIL"
    #: Outside of the declared profile, and verified to be refused with the typed error.
    UNSUPPORTED = "UNSUPPORTED"
    #: Left out for a stated reason.
    EXCLUDED = "EXCLUDED"
    #: A case that this one depends on failed.
    BLOCKED = "BLOCKED"
    #: No device can run it.
    NOT_RUN = "NOT_RUN"


class Excluded(Exception):
    """Raised by a case that does not apply to the device; the message is the reason."""


@dataclass(frozen=True)
class Case:
    """One thing to check.

    Attributes:
        id: ``T2.op.add/f32/broadcast#3``: selector, exclusion key and key of the reproduction.
        run: Performs the check; returns the worst deviation where values were compared.
        requires: Ids of cases without which this one means nothing.
        dtype: Short name of the element type, if it is about one.
        refusal: Whether it checks that something undeclared is refused; passing counts as UNSUPPORTED.
        hardware: Whether it needs a device that can be opened.
        quick: Whether the quick run includes it.
        area: The family of operators that it belongs to, such as ``reduction``; empty if it is about none.
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
        """``T2``."""
        return self.id.partition(".")[0]

    @property
    def family(self) -> str:
        """``op.add``: what the id says before the first slash, without the tier."""
        return self.id.partition(".")[2].partition("/")[0].partition("#")[0]


@dataclass(frozen=True)
class Result:
    """The outcome of a case.

    Attributes:
        case: The case.
        outcome: The outcome.
        seconds: How long it took.
        message: Why it did not pass; empty if it did.
        metric: The worst deviation, if values were compared.
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
