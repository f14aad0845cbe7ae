"""Entry points of installed distributions, read from their metadata. This module imports none of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True)
class Offer:
    """One entry point, or an object in this process that takes the place of one.

    Attributes:
        name: Name of the entry point.
        target: The object that it refers to, ``tensocket_cpu`` or ``package.module:object``.
        load: Imports it and returns the object.
        distribution: Name of the distribution that offers it.
        version: Version of the distribution.
        problem: Why the metadata itself cannot be used; empty if it can.
    """

    name: str
    target: str
    load: Callable[[], object]
    distribution: str
    version: str
    problem: str = ""

    @property
    def origin(self) -> str:
        """Distribution and version, ``tensocket-cuda 0.1.0``."""
        return f"{self.distribution} {self.version}".strip()


def offers(group: str) -> list[Offer]:
    """Return all entry points of ``group``, in the order of ``sys.path``; a distribution found twice counts once."""
    found: list[Offer] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        # One distribution at a time, because one unreadable entry_points.txt must not hide all other distributions.
        made = list(_read(distribution, group))
        if made and (owner := made[0].distribution.lower().replace("_", "-")) not in seen:
            seen.add(owner)
            found += made
    return found


def _read(distribution: metadata.Distribution, group: str) -> Iterator[Offer]:
    try:
        if group not in (distribution.read_text("entry_points.txt") or ""):
            return  # Most distributions; parsing the metadata of all of them would cost much more than this.
        owner, version = distribution.name, distribution.version
    except Exception:
        return  # Not even its name can be read: nothing says that it offers anything of ours.
    try:
        points = set(distribution.entry_points.select(group=group))
    except Exception as error:
        yield Offer(owner, "", lambda: None, owner, version, f"its entry_points.txt cannot be read: {error}")
        return
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        yield Offer(point.name, point.value, point.load, owner, version)


def closest(name: str, names: Iterable[str]) -> str:
    """Return the one of ``names`` that ``name`` was probably meant to be, or an empty string."""
    return next(iter(difflib.get_close_matches(name.lower(), sorted(set(names)), n=1)), "")
