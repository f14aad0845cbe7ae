"""Settings of all compiled functions, and switches that let them call their functions as they are."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tensocket_plugins.contract.errors import ArgumentError
from tensocket_plugins.contract.value_observers import is_exporting

from ..capture.listed import register_unreplayable
from .budget import share_of_environment
from .intercept import alone

#: ``default``: as compiled. ``force_eager``: plain calls. ``eager_on_recompile``: graphs that exist, else plain calls.
#: ``fail_on_recompile``: graphs that exist, else an error.
Stance = Literal["default", "force_eager", "eager_on_recompile", "fail_on_recompile"]


@dataclass
class Settings:
    """Settings of the process.

    Attributes:
        variants: Most variants of a function; calls that no variant fits run eagerly after that.
        fails_at_limit: Whether such a call raises instead.
        fails_on_recompile: Whether a call that needs a second variant raises.
        fails_on_break: Whether a call that cannot be captured raises, for all functions.
        suppresses_errors: Whether a call runs eagerly if its backend fails.
        is_disabled: Whether no function is compiled.
        stance: See ``Stance``.
        budget: The share of the program's time that compiling may take; see ``budget``.
    """

    variants: int = 8
    fails_at_limit: bool = False
    fails_on_recompile: bool = False
    fails_on_break: bool = False
    suppresses_errors: bool = False
    is_disabled: bool = False
    stance: Stance = "default"
    budget: float = field(default_factory=share_of_environment)


SETTINGS: Final = Settings()


class _Running(threading.local):
    """Calls of this thread that are running.

    Attributes:
        compiled: Calls of compiled functions that run their function.
        disabled: Calls of functions that are kept out of graphs together with all that they call.
    """

    compiled = 0
    disabled = 0


RUNNING: Final = _Running()
#: Reasons to look at the settings in each call; empty nearly always, so that calls pay for one truth test.
SWITCHES: Final[list[object]] = []


def is_compiling() -> bool:
    """Whether the caller runs inside of a compiled or exported function: a graph may stand for it in later calls."""
    return (RUNNING.compiled > 0 and not RUNNING.disabled) or is_exporting()


@contextmanager
def compiling() -> Iterator[None]:
    """Run a block as part of a compiled function."""
    RUNNING.compiled += 1
    try:
        yield
    finally:
        RUNNING.compiled -= 1


def runs_plain() -> bool:
    """Whether compiled functions call their functions as they are."""
    return SETTINGS.is_disabled or SETTINGS.stance == "force_eager"


class Disabled:
    """A function that no graph contains.

    Args:
        function: The function.
        recursive: Whether compiled functions that it calls run eagerly, too.
        reason: The reason of the program; it is in reports.
    """

    def __init__(self, function: Callable[..., Any], recursive: bool = True, reason: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.recursive, self.reason = function, recursive, reason

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if not self.recursive:
            return self.function(*args, **kwargs)
        RUNNING.disabled += 1
        try:
            with alone():
                return self.function(*args, **kwargs)
        finally:
            RUNNING.disabled -= 1

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Return the method of an object."""
        return self if owner is None else functools.partial(self, owner)

    def __reduce__(self) -> Any:
        return type(self), (self.function, self.recursive, self.reason)


def graph_break(msg: str = "") -> None:
    """End a graph here: a compiled function that calls this runs eagerly."""


register_unreplayable(Disabled.__call__, "it calls a function that torch.compiler.disable() keeps out of graphs")
register_unreplayable(graph_break, "it calls graph_break()")


def check_interval() -> int | None:
    """Return the number in ``TENSOCKET_COMPILE_CHECK``; None if there is none.

    Raises:
        ArgumentError: It is not a number, or negative.
    """
    text = os.environ.get("TENSOCKET_COMPILE_CHECK", "0")
    if not text.isdecimal():
        raise ArgumentError("compile", f"TENSOCKET_COMPILE_CHECK={text!r}", "it is the number of graph calls after "
                            "which one is checked, or 0", "set a positive integer, or leave it out")
    return int(text) or None
