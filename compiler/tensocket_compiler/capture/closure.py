"""The closure of an observed call: everything that the code which ran can have read, as watched parts of objects.

A function reads its arguments, its closure cells, and the globals that its code names; then attributes, by names in its
code, and items of containers, of objects that it reaches so. Values that only local variables hold come from these. So
the closure starts at the roots, follows names and items, and depends on no byte code but the list of names. An object
that cannot be watched, such as an iterator or a lock, refuses the capture.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from tensocket_core.tensor import Tensor

from .guards import Guards
from .options import OptionPlace, is_own_path, other_reader
from .packages import builtins_of, is_inside, is_library
from .places import Place, cut_places
from .state import state_parts
from .walk import Walk
from .watch import Observation, Refusal, title_of
from .words import NamesPart, pretty

#: Names by which code reads more of an argument with a node, or of a view, than its form tells.
_BEHIND_TENSORS: Final = frozenset({"grad_fn", "_grad_fn", "output_nr", "retains_grad", "_base"})
#: Facts of the largest closure; a training step of a small transformer has 4 300, a network of 100 convolutions 60 000.
LIMIT: Final = 100_000


class Closure(Walk):
    """A walk from the roots of an observed call; for its arguments see ``Walk`` and ``find_guards``."""

    def __init__(self, seen: Observation, cut: frozenset[tuple[int, str]] = frozenset(),
                 moving: Sequence[Place] = ()) -> None:
        super().__init__(seen, cut | cut_places(moving))
        self.moving = moving
        self._options = {id(place.owner): place for place in moving if isinstance(place, OptionPlace)}

    def guards(self, with_words: bool = True) -> Guards:
        """Walk, and return the guards over all that was found; without words if they are only to be compared once."""
        before: Any = ()
        while before != (self.names, self.seen.whole):  # classes and getters add names
            before = self.names, self.seen.whole
            self._start()
            for part in state_parts():
                self.watch(part)
            self._push_roots()
            while (self.work or self.keys) and self.facts <= LIMIT:
                value, path, names = (self.work or self.keys).popleft()
                self.visit(value, path, names)
        for place in self._options.values():
            reader = other_reader(place, self.seen)
            if reader is not None:
                self.refuse(reader, title_of(self.seen.function))
        if self.work:
            self.refusals.append(Refusal(f"more than {LIMIT} values can have been read", pretty(self.work[0][1])))
        return Guards(self.parts, self.refusals, self.keep, self.seen.identity,
                      lambda cut, with_words: Closure(self.seen, cut, self.moving).guards(with_words), self.cut,
                      self.seen, with_words, self.moving)

    def visit(self, value: Any, path: str, names: frozenset[str]) -> None:
        """Watch a value, and refuse a path of the program's own to a table of options that change."""
        if id(value) in self._options and is_own_path(path, self.seen):
            self.refuse(f"{self._options[id(value)].path}, which changes", path)
        super().visit(value, path, names)

    def _push_roots(self) -> None:
        seen = self.seen
        function = seen.function
        self.push(function, title_of(function))
        for k, value in enumerate(seen.args):
            self.push_argument(value, f"argument {k}")
        for name, value in seen.kwargs.items():
            self.push_argument(value, name)
        for place in self.moving:
            self.push_argument(place.content(), place.path)
        for each in seen.functions.values():
            if each is not None and not is_inside(each.__globals__):
                self.push(each, each.__qualname__)
        self.push(Tensor, "Tensor")  # the class of tensors that the call makes
        self._push_globals()
        self._push_imports()

    def push_argument(self, value: Any, path: str, above: tuple[int, ...] = ()) -> None:
        """Follow the objects in an argument; its tensors, numbers and containers are checked by ``arguments``.

        Args:
            value: The argument, or an item of it.
            path: Its path.
            above: The identities of the containers that it lies in.
        """
        if id(value) in above:
            return
        if type(value) is list or issubclass(type(value), tuple):
            self.push(type(value), type(value).__qualname__)
            for k, item in enumerate(value):
                self.push_argument(item, f"{path}[{k}]", (*above, id(value)))
        elif type(value) is dict:
            for key, item in value.items():
                self.push_argument(item, f"{path}[{key!r}]", (*above, id(value)))
        elif isinstance(value, Tensor):
            self.push(type(value), type(value).__qualname__)
            if (value._grad_fn is not None or value._base is not None) and self._reads_behind_tensors():
                self.refuse("the node or the base of an argument, which other calls do not have", path)
        else:
            self.push(value, path)

    def _reads_behind_tensors(self) -> bool:
        """Whether code of the program asks tensors for their node or their base."""
        seen = self.seen
        return not _BEHIND_TENSORS.isdisjoint(seen.names) or any(
            not _BEHIND_TENSORS.isdisjoint(seen.code_names(code).attributes)
            for code, space in seen.codes.items() if not is_library(space))

    def _push_globals(self) -> None:
        """Watch the globals that code names, and those builtins that no global hides."""
        spaces: dict[int, tuple[dict[str, Any], dict[str, set[str]]]] = {}
        for code, space in self.seen.codes.items():
            names = self.seen.code_names(code)
            readers = spaces.setdefault(id(space), (space, {}))[1]
            for name in names.globals:
                readers.setdefault(name, set()).update(names.attributes)
        for space, readers in spaces.values():
            hidden = builtins_of(space)
            part = NamesPart(space, "", frozenset(readers), "", not is_library(space))
            for label, value in self.watch(part):
                self.push_named(value, label, frozenset(readers[label]))
            rest = {name: names for name, names in readers.items() if name not in space and name in hidden}
            for label, value in self.watch(NamesPart(hidden, "", frozenset(rest), "")):
                self.push_named(value, label, frozenset(rest[label]))

    def _push_imports(self) -> None:
        """Watch the entries of ``sys.modules`` that import statements in the code read."""
        for code, space in self.seen.codes.items():
            names = self.seen.code_names(code)
            if not names.imports:
                continue
            for label, value in self.watch(NamesPart(builtins_of(space), "", frozenset({"__import__"}), "")):
                self.push_named(value, label, names.attributes)
            package = str(space.get("__package__") or "").split(".")
            above = [".".join(package[:k]) for k in range(1, len(package) + 1)] if package != [""] else []
            wanted = {*names.imports, *above, *(f"{one}.{name}" for one in above for name in names.imports)}
            wanted |= {name.rpartition(".")[0] for name in wanted}
            part = NamesPart(sys.modules, "sys.modules", frozenset(wanted), ".", by_entries=True)
            for label, value in self.watch(part):
                self.push(value, label[1:], names.attributes)


def find_guards(seen: Observation, cut: frozenset[tuple[int, str]] = frozenset(),
                moving: Sequence[Place] = ()) -> Guards:
    """Return the guards of an observed call, over the state as it is now.

    Args:
        seen: The call.
        cut: Places that arguments stand for; see ``Walk``.
        moving: Places whose tensors each call gets from there, as if they were arguments.
    """
    if any(refusal.where == "sys" for refusal in seen.refusals):
        return Guards([], seen.refusals)
    return Closure(seen, cut, moving).guards()
