"""The graphs of a function, found by the sizes of a call's arguments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from ..capture.guards import Guards
from .sizes import Form, Key, sizes_of
from .variant import Variant

#: Most graphs of a function.
GRAPHS: Final = 128
#: Most bytes of temporaries that a function's graphs keep, but for the last one.
MEMORY: Final = 1 << 30
#: Changes of sizes for which a graph that nobody uses stays, if another one could take its place.
PATIENCE: Final = 1024
#: Sizes that came once since the last ones that came again; further ones are not observed before they come again.
ONCE: Final = 4
#: Most sizes that are remembered.
_REMEMBERED: Final = 1024


class Table:
    """The graphs of one function."""

    def __init__(self) -> None:
        self._last: Variant | None = None
        self._by_sizes: dict[Key, list[Variant]] = {}
        self._forms: dict[Variant, Form] = {}
        self._time = itertools.count()
        self._met: dict[Key, None] = {}
        self._once = 0
        self._refused: dict[Key, None] = {}

    @property
    def variants(self) -> list[Variant]:
        """The graphs, the most recently used first."""
        return sorted(self._forms, key=lambda variant: variant.used, reverse=True)

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Variant, Sequence[Any]] | None:
        """Return the graph that serves a call, and the call's tensors; None if there is none."""
        last = self._last
        if last is None:
            return None
        tensors = last.fits(args, kwargs)
        if tensors is not None:
            return last, tensors
        for variant in self._by_sizes.get(sizes_of(args, kwargs), ()):
            tensors = None if variant is last else variant.fits(args, kwargs)
            if tensors is not None:
                self._last = variant
                variant.used = next(self._time)
                return variant, tensors
        return None

    def add(self, variant: Variant, form: Form) -> None:
        """Add the graph of calls with arguments of a form."""
        self._by_sizes[form.sizes] = [variant, *self._by_sizes.get(form.sizes, ())]
        variant.used = next(self._time)
        self._forms[variant], self._last, self._once = form, variant, 0
        kept = 0
        for number, each in enumerate(self.variants):
            kept += each.memory if number else 0
            if number >= GRAPHS or kept > MEMORY:
                self.drop(each)

    def drop(self, variant: Variant) -> None:
        """Drop a graph, unless it is gone already."""
        form = self._forms.pop(variant, None)
        if form is None:
            return
        sizes = form.sizes
        self._by_sizes[sizes] = [x for x in self._by_sizes[sizes] if x is not variant]
        if not self._by_sizes[sizes]:
            del self._by_sizes[sizes]
        if self._last is variant:
            self._last = next(iter(self.variants), None)

    def guards_of_resized(self, form: Form) -> Guards | None:
        """Return the guards, which hold, of a graph from whose calls a call differs in sizes only; None without one."""
        if self._last is None or form.sizes in self._by_sizes or form.sizes in self._refused:
            return None
        tried: set[int] = set()
        for variant in self.variants:
            guards = variant.guards
            if id(guards) not in tried and self._forms[variant].resizes(form, guards.exact):
                if guards.check() or guards.changed() is None:
                    return guards
                tried.add(id(guards))
        return None

    def admits(self, form: Form) -> bool:
        """Whether a call with other sizes is observed: unless most sizes come once, or all graphs are in use."""
        now = next(self._time)
        if self._is_full() and min(variant.used for variant in self._forms) > now - PATIENCE:
            return False
        if self._once < ONCE or form.sizes in self._met:
            self._once += 1
            return True
        _remember(self._met, form.sizes)
        return False

    def _is_full(self) -> bool:
        """Whether one more graph, about as large as the last one, takes the place of others."""
        assert self._last is not None
        return len(self._forms) >= GRAPHS or self._last.memory + sum(x.memory for x in self._forms) > MEMORY

    def refuse(self, form: Form) -> None:
        """Note that more than sizes tells such a call from others."""
        _remember(self._refused, form.sizes)


def _remember(known: dict[Key, None], key: Key) -> None:
    known[key] = None
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
