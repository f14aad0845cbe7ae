"""The runtime's knowledge of a backend: its state, the reason for it, and advice.

discovered ──first use──> incompatible | broken | unavailable | available ──open──> initialised ──> lost
disabled                  (by the environment; never imported)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .descriptor import Descriptor
from .errors import BackendBroken, BackendDisabled, BackendError, BackendIncompatible, BackendUnavailable


class State(enum.Enum):
    """A backend's state in its life cycle."""

    #: Its metadata was read; none of it is imported.
    DISCOVERED = "discovered"
    #: The environment excludes it.
    DISABLED = "disabled"
    #: It was written for another version of the contract.
    INCOMPATIBLE = "incompatible"
    #: Its name is refused, or its own code failed.
    BROKEN = "broken"
    #: A library, driver or device that it needs is missing.
    UNAVAILABLE = "unavailable"
    #: Loaded and probed; at least one device can be opened.
    AVAILABLE = "available"
    #: At least one of its devices is open.
    INITIALISED = "initialised"
    #: Its device stopped working while it was in use.
    LOST = "lost"

    @property
    def usable(self) -> bool:
        """Whether devices can be opened."""
        return self in (State.AVAILABLE, State.INITIALISED)


_ERRORS: dict[State, type[BackendError]] = {
    State.DISABLED: BackendDisabled,
    State.INCOMPATIBLE: BackendIncompatible,
    State.UNAVAILABLE: BackendUnavailable,
    State.LOST: BackendUnavailable,
}


@dataclass(frozen=True)
class BackendRecord:
    """A snapshot of what is known about one backend.

    Attributes:
        name: The device name.
        state: The state.
        reason: Why it is unusable; for a usable backend, why a device failed to open. Empty if all is well.
        advice: The next step for the user. Empty if there is nothing to do.
        exception: The exception that was caught, if any.
        traceback: Its traceback as text.
        distribution: Name of the distribution that provides it; if several clash, separated by commas.
        version: Version of that distribution.
        entry_point: The module that the entry point names.
        descriptor: The backend's description of itself; None until it is loaded.
        device_count: Number of devices; 0 until it is loaded.
        load_seconds: Time from the start of the import to the end of the probe.
        probe_seconds: Time that ``probe`` took.
    """

    name: str
    state: State
    reason: str = ""
    advice: str = ""
    exception: BaseException | None = None
    traceback: str = ""
    distribution: str = ""
    version: str = ""
    entry_point: str = ""
    descriptor: Descriptor | None = None
    device_count: int = 0
    load_seconds: float = 0.0
    probe_seconds: float = 0.0

    @property
    def origin(self) -> str:
        """Distribution and version, such as ``tensocket-cuda 0.1.0``."""
        return f"{self.distribution} {self.version}".strip()

    def error(self) -> BackendError:
        """Return the error for a request for this unusable backend; its cause is the caught exception."""
        given = f"backend '{self.name}'" + (f" of {self.origin}" if self.origin else "")
        kind = _ERRORS.get(self.state, BackendBroken)
        error = kind("device", given, f"{self.state.value}: {self.reason}", self.advice)
        error.__cause__ = self.exception
        return error
