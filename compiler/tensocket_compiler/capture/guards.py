"""Guards: words of memory that must keep their values while a compiled call stands for Python code."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tensocket_core.tensor import Tensor

from .object_words import TensorPart
from .offsets import WORD, read_word
from .places import DATA, Place, value_of
from .state import unwatched_state
from .watch import Observation, Refusal
from .words import MISSING, Fact, Part, Word, is_same, pretty

Words = np.ndarray[Any, np.dtype[np.uint64]]
Places = frozenset[tuple[int, str]]

#: User addresses of the processors that have 8-byte pointers are below 2**47.
_MEMORY_WORDS: Final = (1 << 44) - 1
#: All of memory but its first word, as NumPy has no array at address 0.
_MEMORY: Final[Words] = np.ctypeslib.as_array((ctypes.c_uint64 * _MEMORY_WORDS).from_address(WORD))
#: Attempts to read a part while other threads write to it.
_TRIES: Final = 3


class Change(NamedTuple):
    """A change of what a call may have read.

    Attributes:
        path: The place that changed, as a program would write it.
        old, new: The values; ``MISSING`` where there is none.
    """

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Effect:
    """A write of a call to an object that existed before.

    Attributes:
        path: The place that changed.
        owner: The object that holds it.
        label: The place in the object: ``.grad``, ``['lr']``, ``[0]``.
        old, new: The values; ``MISSING`` where there is none.
        fact: A value as a part of guards reads it.
    """

    path: str
    owner: Any
    label: str
    old: Any
    new: Any
    fact: Any = None


def check(addresses: Words, values: Words) -> bool:
    """Whether words of memory have the given values.

    NumPy gathers them from an array over all of memory. The CPU backend may supply a machine-code loop instead.
    """
    return bool(np.array_equal(read_words(addresses), values))


def read_words(addresses: Words) -> Words:
    """Return the words of memory at addresses."""
    found: Words = _MEMORY[addresses // WORD - 1]
    return found


class Guards:
    """Words that must not change, by the parts of objects that they stand for.

    Attributes:
        parts: The watched parts.
        refusals: Reasons why the call cannot be captured.
        addresses, values: The words, level 0 first; a loop over them must stop at the first difference.
        stable: Number of words of level 0.
        unequal_addresses, unequal_values: Words with the values that they must not have.
        keep_alive: Objects whose addresses the words hold.
        state: State that no words stand for; see ``state.unwatched_state``.
        check: Whether all words hold. A backend may replace it by machine code; ``on_renewal`` tells it of new words.
        exact: Whether code may compare identities of numbers and texts.
        cut: Owners' identities and labels of places that are not watched, because each call writes there.
        seen: The observed call; None if there is none.
        moving: Places among those whose tensors each call gets from there, as if they were arguments.
    """

    def __init__(self, parts: Sequence[Part], refusals: Iterable[Refusal] = (), keep_alive: Iterable[Any] = (),
                 exact: bool = False, rebuild: Callable[[Places, bool], Guards] | None = None,
                 cut: Places = frozenset(), seen: Observation | None = None, with_words: bool = True,
                 moving: Sequence[Place] = ()) -> None:
        self.parts = list(parts)
        self.refusals = list(refusals)
        self.keep_alive = list(keep_alive)
        self.exact = exact
        self.check: Callable[[], bool] = self.compare
        self.on_renewal: Callable[[], None] | None = None
        self.state = unwatched_state()
        self._rebuild, self.cut, self.seen, self.moving = rebuild, cut, seen, moving
        #: Guards whose words tell that the first parts have their facts, and the number of these parts.
        self._held: Guards | None = None
        self._unread = 0
        self._words: dict[int, tuple[list[Word], list[int]]] = {}
        if with_words:
            self._take(range(len(self.parts)), walked=True)
        self._assemble()

    def _renew(self, numbers: Sequence[int]) -> None:
        """Take the present words of parts whose facts are the same; most words stay where they are."""
        before = [(self.parts[number].facts, self._words[number][0]) for number in numbers]  # alive until words change
        self._take(numbers)
        if self._unequal_owners or any(self._words[number][0] != words
                                       for number, (_, words) in zip(numbers, before, strict=True)):
            self._assemble()
            if self.on_renewal is not None:
                self.on_renewal()
            return
        for number in numbers:
            for (_, address), value in zip(*self._words[number], strict=True):
                self.values[self._rows[address]] = value

    def _take(self, numbers: Iterable[int], *, walked: bool = False) -> None:
        """Take the present facts and words of some parts, but leave the arrays of words as they are.

        Args:
            numbers: The numbers of the parts.
            walked: Whether their facts are those of a walk that has just ended.
        """
        for number in numbers:
            part = self.parts[number]
            for attempt in range(_TRIES):
                if attempt or not (walked and part.facts):
                    part.refresh()
                words = list(part.words())
                self._words[number] = words, [read_word(address) for _, address in words]
                if first_change(part, part.facts, part.visible(), self.exact) is None:
                    break
            else:
                self.refusals.append(Refusal("another thread changes it while it is read", pretty(part.path)))

    def _assemble(self) -> None:
        """Put the words of all parts into arrays. A word may belong to several parts."""
        levels: tuple[dict[int, tuple[int, list[int]]], ...] = ({}, {})
        for number, (words, values) in self._words.items():
            for (level, address), value in zip(words, values, strict=True):
                levels[level].setdefault(address, (value, []))[1].append(number)
        rows = [*levels[0].items(), *levels[1].items()]
        self.stable = len(levels[0])
        self._rows = {address: row for row, (address, _) in enumerate(rows)}
        self.addresses: Words = np.array([address for address, _ in rows], np.uint64)
        self.values: Words = np.array([value for _, (value, _) in rows], np.uint64)
        self._owners = [owners for _, (_, owners) in rows]
        unequal = [(*pair, number) for number, part in enumerate(self.parts) for pair in part.unequal()]
        self.unequal_addresses: Words = np.array([row[0] for row in unequal], np.uint64)
        self.unequal_values: Words = np.array([row[1] for row in unequal], np.uint64)
        self._unequal_owners = [row[2] for row in unequal]

    @property
    def paths(self) -> list[str]:
        """The path of the object of each word."""
        return [pretty(self.parts[owners[0]].path) for owners in self._owners]

    @property
    def tensors(self) -> list[tuple[str, Tensor]]:
        """The captured tensors with their paths."""
        return [(pretty(part.path), part.owner) for part in self.parts if isinstance(part, TensorPart)]

    @property
    def captured(self) -> list[Tensor]:
        """The captured tensors whose memory stays."""
        return [part.owner for part in self.parts if isinstance(part, TensorPart) and DATA not in part.cut]

    def compare(self) -> bool:
        """Whether all words hold, in Python and NumPy, and the state without words is the same."""
        n = self.stable
        return (unwatched_state() == self.state and check(self.addresses[:n], self.values[:n])
                and check(self.addresses[n:], self.values[n:])
                and not bool((read_words(self.unequal_addresses) == self.unequal_values).any()))

    def _stale_parts(self) -> list[int]:
        """Return the numbers of the parts with a word that changed."""
        n = self.stable
        differs = np.nonzero(read_words(self.addresses[:n]) != self.values[:n])[0]
        stale = {number for k in differs for number in self._owners[k]}
        # Words of level 1 may be read only if the pointers in front of them, words of the same part, hold.
        rest = [k for k in range(n, len(self.addresses)) if stale.isdisjoint(self._owners[k])]
        differs = np.nonzero(read_words(self.addresses[rest]) != self.values[rest])[0]
        stale.update(number for k in differs for number in self._owners[rest[k]])
        forbidden = np.nonzero(read_words(self.unequal_addresses) == self.unequal_values)[0]
        stale.update(self._unequal_owners[k] for k in forbidden)
        return sorted(stale)

    def changed(self) -> Change | None:
        """Return the first change of what the call may have read; None if there is none.

        Where words changed but facts did not, as after the assignment of an equal value, the words are renewed.
        """
        if self.compare():
            return None
        state = unwatched_state()
        if state != self.state:
            return Change("state", self.state, state)
        stale = self._stale_parts()
        for number in stale:
            part = self.parts[number]
            found = first_change(part, part.facts, part.visible(), self.exact)
            if found is not None:
                return found
        for number in stale:
            self.parts[number].alarms += 1
        self._renew(stale)
        return None

    def release(self) -> None:
        """Let go of all objects at once; cycles of references would keep them until a collection."""
        self.parts, self.keep_alive = [], []
        self._rebuild = self.seen = None
        self.check = lambda: False

    def changes(self) -> list[Effect]:
        """Return all changes of what the call may have read, as far as words that hold lead to them."""
        if unwatched_state() != self.state:
            return []
        found = []
        for number in self._stale_parts():
            part = self.parts[number]
            found += _effects_on(part, part.facts, part.visible(), self.exact)
        return found

    def snapshot(self) -> list[tuple[Fact, ...]]:
        """Return the present facts of all parts, for ``effects``."""
        if self._held is None or not self._held.check():
            return [part.visible() for part in self.parts]
        return [part.facts if number < self._unread else part.visible() for number, part in enumerate(self.parts)]

    def effects(self, before: list[tuple[Fact, ...]], after: list[tuple[Fact, ...]]) -> list[Effect]:
        """Return the differences of two snapshots: what a call between them wrote."""
        found = []
        for part, old, new in zip(self.parts, before, after, strict=True):
            if old is not new:
                found += _effects_on(part, old, new, self.exact)
        return found

    def without(self, effects: Iterable[Effect]) -> Guards:
        """Return guards, from now on, over all that was read except the places that the effects write to."""
        assert self._rebuild is not None
        return self._rebuild(self.cut | places_of(effects), True)

    def everything(self) -> Guards:
        """Return what was read, with the places that each call writes to, for ``snapshot``; the guards hold.

        These places usually hold tensors without attributes. If they do, the words tell whether all else stays.
        """
        assert self._rebuild is not None
        held = [part for part in self.parts if not part.cut]
        written = [copy.copy(part) for part in self.parts if part.cut]
        values = [value for part in written for label, value in part.read() if label in part.cut]
        if not all(value is None or (type(value) is Tensor and not value.__dict__) for value in values):
            return self._rebuild(frozenset(), False)
        for part in written:
            part.cut = frozenset()
        behind = [TensorPart(value, "a tensor that is replaced") for value in values if value is not None]
        found = Guards([*held, *written, *behind], (), self.keep_alive, self.exact, self._rebuild, frozenset(),
                       self.seen, with_words=False)
        found._held, found._unread = self, len(held)
        return found


def _effects_on(part: Part, old: tuple[Fact, ...], new: tuple[Fact, ...], exact: bool) -> list[Effect]:
    """Return the differences of two readings of a part; the key of a dict's item is not a part of its value."""
    return [Effect(pretty(part.path + label), part.owner, label, value_of(part.owner, label, was),
                   value_of(part.owner, label, now), was if now is MISSING else now)
            for label, was, now in differences(old, new, exact)]


def places_of(effects: Iterable[Effect]) -> Places:
    """Return the owners' identities and the labels of effects."""
    return frozenset([(id(effect.owner), effect.label) for effect in effects])


def differences(old: tuple[Fact, ...], new: tuple[Fact, ...], exact: bool) -> list[tuple[str, Any, Any]]:
    """Return label, old and new value of the facts that differ."""
    before, after = dict(old), dict(new)
    return [(label, before.get(label, MISSING), after.get(label, MISSING)) for label in {**before, **after}
            if label not in before or label not in after or not is_same(before[label], after[label], exact)]


def first_change(part: Part, old: tuple[Fact, ...], new: tuple[Fact, ...], exact: bool) -> Change | None:
    """Return the first difference of two readings of a part."""
    if len(old) == len(new) and all(a[0] == b[0] and is_same(a[1], b[1], exact) for a, b in zip(old, new, strict=True)):
        return None
    found = differences(old, new, exact)
    if not found:
        return Change(pretty(part.path), "items in their order", "the same items in another order")
    label, was, now = found[0]
    return Change(pretty(part.path + label), was, now)
