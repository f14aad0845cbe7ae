"""Entry points of installed distributions, read from their metadata without importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import Distribution

#: Entry-point group of backends; an entry point's name is the device name, its value a module that imports no driver.
ENTRY_POINT_GROUP: Final = "tensocket.backends"


@dataclass(frozen=True)
class Offer:
    """An entry point, or an object in this process that replaces one.

    Attributes:
        name: Name of the entry point.
        target: The object that it refers to, ``tensocket_cpu`` or ``package.module:object``.
        load: Function that imports the object and returns it.
        distribution: Name of the distribution that offers it.
        version: Version of the distribution.
        problem: Why the metadata itself is unusable; empty if it is usable.
    """

    name: str
    target: str
    load: Callable[[], object]
    distribution: str
    version: str
    problem: str = ""

    @property
    def origin(self) -> str:
        """Distribution and version, such as ``tensocket-cuda 0.1.0``."""
        return f"{self.distribution} {self.version}".strip()


def offers(group: str) -> list[Offer]:
    """Return all entry points of ``group``, in the order of ``sys.path``; a distribution found twice counts once."""
    from importlib import metadata  # takes longer than many a program's first call

    found: list[Offer] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        # Distributions are read one at a time, because one unreadable entry_points.txt must not hide all others.
        made = list(_read(distribution, group))
        if made and (owner := made[0].distribution.lower().replace("_", "-")) not in seen:
            seen.add(owner)
            found += made
    return found


def _read(distribution: Distribution, group: str) -> Iterator[Offer]:
    try:
        if group not in (distribution.read_text("entry_points.txt") or ""):
            return  # Most distributions; parsing the metadata of all of them would cost much more than this test.
        owner, version = distribution.name, distribution.version
    except Exception:
        return  # Not even its name is readable: nothing tells whether it offers a backend.
    try:
        points = set(distribution.entry_points.select(group=group))
    except Exception as error:
        yield Offer(owner, "", lambda: None, owner, version, f"its entry_points.txt cannot be read: {error}")
        return
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        yield Offer(point.name, point.value, point.load, owner, version)


def closest(name: str, names: Iterable[str]) -> str:
    """Return the one of ``names`` that ``name`` probably meant, or an empty string."""
    import difflib  # errors only

    return next(iter(difflib.get_close_matches(name.lower(), sorted(set(names)), n=1)), "")
