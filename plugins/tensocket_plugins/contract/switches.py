"""The environment variables that select backends.

``TENSOCKET_BACKENDS=cpu,opencl`` allows only these, ``TENSOCKET_BACKENDS_DISABLE=cuda`` excludes one, and
``TENSOCKET_BACKENDS_STRICT=1`` turns every broken or incompatible backend into an error (for continuous integration).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .errors import ArgumentError

ALLOW: Final = "TENSOCKET_BACKENDS"
DENY: Final = "TENSOCKET_BACKENDS_DISABLE"
STRICT: Final = "TENSOCKET_BACKENDS_STRICT"

_ON: Final = frozenset({"1", "true", "yes", "on"})
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class Switches:
    """The switches in force.

    Attributes:
        allow: Names that are allowed; None means all.
        deny: Names that are excluded.
        strict: Whether a broken or incompatible backend makes every query an error.
    """

    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    strict: bool = False

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Switches:
        """Return the switches that ``environ`` sets; an empty variable counts as unset.

        Raises:
            ArgumentError: ``TENSOCKET_BACKENDS_STRICT`` is neither on nor off.
        """
        return cls(_names(environ.get(ALLOW, "")) or None, _names(environ.get(DENY, "")),
                   _flag(STRICT, environ.get(STRICT, "")))

    def exclusion(self, name: str) -> tuple[str, str]:
        """Return why ``name`` is excluded and what to do about it; two empty strings if it is allowed."""
        if name in self.deny:
            return (f"{DENY}={','.join(sorted(self.deny))} excludes it", f"remove '{name}' from {DENY}")
        if self.allow is not None and name not in self.allow:
            return (f"{ALLOW}={','.join(sorted(self.allow))} does not name it", f"add '{name}' to {ALLOW}, or unset it")
        return "", ""


def _names(value: str) -> frozenset[str]:
    return frozenset(name for part in value.split(",") if (name := part.strip()))


def _flag(variable: str, value: str) -> bool:
    word = value.strip().lower()
    if word not in _ON | _OFF:
        raise ArgumentError("device", f"{variable}={value}", "a switch is on (1) or off (0)",
                            f"set {variable}=1, or unset it")
    return word in _ON
