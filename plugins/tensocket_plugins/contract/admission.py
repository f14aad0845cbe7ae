"""Admission of offered backends: which may be loaded under which name.

A name is refused if

- it does not have the form ``[a-z][a-z0-9_]{1,31}``, or the runtime uses it itself;
- it is offered twice: nothing tells which one is meant, so both are refused;
- it is another offered name followed only by digits and underscores: ``cuda0`` next to ``cuda``, ``cpu_`` next to
  ``cpu``. Read aloud or typed in haste, it names a device of the other backend. The shorter name stays. Other common
  prefixes are fine (``cpu`` and ``cpux``), because device names are compared as a whole and never by prefix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from .devices import NAME
from .entrypoints import Offer
from .states import BackendRecord, State
from .switches import Switches

#: Device names that the runtime uses itself.
RESERVED: Final = frozenset({"meta"})


def admit(offered: Iterable[Offer], switches: Switches) -> dict[str, tuple[Offer, BackendRecord]]:
    """Return one record for each offered name, discovered, disabled or broken, with the offer to load it from."""
    by_name: defaultdict[str, list[Offer]] = defaultdict(list)
    for offer in offered:
        by_name[offer.name].append(offer)
    return {name: (by_name[name][0], _judge(by_name[name], by_name.keys(), switches)) for name in sorted(by_name)}


def _judge(same: list[Offer], names: Collection[str], switches: Switches) -> BackendRecord:
    """Return the first record for the offers of one name."""
    name = same[0].name
    owners = list(dict.fromkeys(offer.distribution for offer in same))
    versions = list(dict.fromkeys(offer.version for offer in same))
    state = State.DISABLED
    reason, advice = switches.exclusion(name)
    if not reason:
        state = State.BROKEN
        reason, advice = _clash(same) if len(same) > 1 else _fault(same[0], names)
    if not reason:
        state = State.DISCOVERED
    return BackendRecord(name, state, reason, advice, distribution=", ".join(owners), version=", ".join(versions),
                         entry_point=", ".join(dict.fromkeys(offer.target for offer in same)))


def _clash(same: list[Offer]) -> tuple[str, str]:
    name = same[0].name
    owners = list(dict.fromkeys(offer.distribution for offer in same))
    if len(owners) == 1:
        targets = " and ".join(offer.target for offer in same)
        return f"{same[0].origin} offers '{name}' twice: {targets}", f"report this to the authors of {owners[0]}"
    origins = " and ".join(offer.origin for offer in same)
    return (f"{len(same)} distributions offer a backend named '{name}': {origins}",
            f"keep one of them, for example: pip uninstall {' '.join(owners[1:])}")


def _fault(offer: Offer, names: Collection[str]) -> tuple[str, str]:
    remove = f"rename the backend, or remove it: pip uninstall {offer.distribution}"
    if offer.problem:
        return offer.problem, f"reinstall it: pip install --force-reinstall {offer.distribution}"
    fault = name_fault(offer.name, names)
    return (fault, remove) if fault else ("", "")


def name_fault(name: str, names: Collection[str]) -> str:
    """Return the rule that the device name ``name`` breaks given the other ``names``; empty if it breaks none."""
    if not NAME.fullmatch(name):
        return (f"'{name}' is not a device name: a lower-case letter, then 1 to 31 lower-case letters, digits or '_' "
                "are required")
    if name in RESERVED:
        return f"the name '{name}' is reserved for the runtime itself"
    base = next((other for other in names if other != name and name.startswith(other)
                 and not name[len(other):].strip("0123456789_")), None)
    return f"the name '{name}' can be mistaken for a device of the backend '{base}'" if base else ""
