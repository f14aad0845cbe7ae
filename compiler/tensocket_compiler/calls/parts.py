"""Parts of a compiled function that is no graph as a whole: its modules and optimizers' steps, each with graphs.

The function runs as Python, so that prints, branches and exceptions happen as written. The outermost modules that it
calls, and the steps of its optimizers, are compiled functions of their own; where one of these is no graph either, the
modules inside of it are tried.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.dispatch.modes import ACTIVE, STATE

from .intercept import THREAD, run_with

if TYPE_CHECKING:
    from .function import CompiledFunction
    from .variant import Variant

Members = Callable[[], list[Any]]
#: Least number of operators of a graph that pays for its call, with a backward pass and without one, and the bytes of a
#: result from which the number does not matter; benchmarks/parts.py.
FEWEST: Final = 24
FEWEST_FORWARD: Final = 10
LARGE: Final = 1 << 20
#: Most parts that a function makes until it is reset.
MOST: Final = 512
#: Most functions that run in parts, one inside another: each adds five frames to the stack.
DEPTH: Final = 8
#: Calls of the function between two looks at whether any part has graphs.
LOOK: Final = 64
#: Calls of the function without a call of a part, after which the part goes when a new module shows up.
IDLE: Final = 16


class Part:
    """A module or an optimizer that a function calls.

    Attributes:
        owner: The module or the optimizer, weakly.
        first: The function's call that called it first.
        last: The function's last call that did.
        compiled: Its compiled function, from the second of the function's calls on.
        open: Whether it has no graph yet.
        plain: Whether it runs as Python with all that is inside of it, because graphs do not pay or cannot be made.
    """

    __slots__ = ("compiled", "first", "last", "open", "owner", "plain")

    def __init__(self, owner: weakref.ref[Any], first: int) -> None:
        self.owner, self.first, self.last = owner, first, first
        self.compiled: CompiledFunction | None = None
        self.open, self.plain = True, False

    def settle(self, compiled: CompiledFunction) -> None:
        """Decide after a call without a graph whether to go on."""
        if compiled.variants:
            self.open = False
            self.plain = not is_worthwhile(compiled.variants[0])
        elif compiled.is_exhausted() and not self.has_children():
            self.plain = True

    def has_children(self) -> bool:
        """Whether modules are inside."""
        return bool(getattr(self.owner(), "_modules", None))

    def is_hopeless(self, clock: int) -> bool:
        """Whether it has no graphs and is not going to have any, or is called no more."""
        return self.plain or clock - self.last > IDLE or (
            self.open and self.compiled is not None and self.compiled.is_exhausted())


def is_worthwhile(variant: Variant) -> bool:
    """Whether a graph takes less time than its operators take one by one."""
    operations = variant.recording.operations
    if any(x.buffer.nbytes >= LARGE for operation in operations for x in operation.results):
        return len(operations) > 1
    return len(operations) >= (FEWEST_FORWARD if variant.backward is None else FEWEST)


class Parts:
    """The parts of one compiled function.

    Args:
        function: The function; if it is a module, its own call is not a part.
        compile: Makes the compiled function of a call, given these parts and the last argument of ``take``.
    """

    def __init__(self, function: Callable[..., Any], compile: Callable[..., CompiledFunction]) -> None:
        #: The module that is the function; programs that wrap calls of modules compile ``partial(call, module)``.
        self._function = function.args[0] if isinstance(function, functools.partial) and function.args else function
        self._compile = compile
        #: By identity of the module or optimizer; at most ``MOST``; entries go with their owners, or by ``IDLE``.
        self._table: dict[int, Part] = {}
        self._left = MOST
        self._clock = 0
        self._rests = False
        self._take = self.take

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, or the Python code of a part, with graphs for the parts inside."""
        if THREAD.take is not self._take:
            self._clock += 1
            if self._clock % LOOK == 0:
                self._rests = self._rests or all(part.is_hopeless(self._clock) for part in list(self._table.values()))
        if self._rests:
            return function(*args, **kwargs)
        return run_with(self._take if THREAD.depth < DEPTH else None, function, args, kwargs)

    def take(self, owner: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
             members: Members | None = None) -> Any:
        """Call a module or an optimizer's step, or run a graph of it; see ``intercept.Take``."""
        if owner is self._function or (ACTIVE and STATE.mask is None):
            return call(*args, **kwargs)
        part = self._table.get(id(owner))
        if part is None or part.owner() is not owner:
            part = self._add(owner)
        part.last = self._clock
        if part.plain:
            return run_with(None, call, args, kwargs) if part.has_children() else call(*args, **kwargs)
        compiled = part.compiled
        if compiled is None:
            if part.first == self._clock or self._left <= 0:
                return call(*args, **kwargs)
            self._left -= 1
            compiled = part.compiled = self._compile(call, parts=self, members=members)
        result = compiled(*args, **kwargs)
        if part.open:
            part.settle(compiled)
        return result

    def found(self) -> list[tuple[str, Part]]:
        """Return the parts that were tried, with the names of their modules."""
        names: dict[int, str] = {}
        for owner in (self._function, *[part.owner() for part in list(self._table.values())]):
            for name, module in getattr(owner, "named_modules", tuple)():
                names.setdefault(id(module), name)
        found = [(part.owner(), part) for part in list(self._table.values()) if part.compiled is not None]
        return [(" ".join(filter(None, (names.get(id(owner)), type(owner).__name__))), part) for owner, part in found
                if owner is not None]

    def _add(self, owner: Any) -> Part:
        """Add a module or an optimizer, and drop those that have been idle, whose graphs keep them alive."""
        table, key = self._table, id(owner)
        for number, part in list(table.items()):
            if self._clock - part.last > IDLE:
                table.pop(number, None)
        added = Part(weakref.ref(owner, lambda _: table.pop(key, None)), self._clock)
        if len(table) < MOST:
            table[key] = added
        return added
