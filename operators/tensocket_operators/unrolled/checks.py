"""Checks of values that composites make before they compute.

A composite that reads elements itself cannot be unrolled. Through ``run_check``, it can: every unrolled call repeats
the check, and an error sends the call to the composite, which raises it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_core.dispatch.modes import ACTIVE, STATE, thread_state

F = TypeVar("F", bound=Callable[..., None])
#: The checks that ``declared`` marks.
DECLARED: Final[set[Callable[..., None]]] = set()


def run_check(check: Callable[..., None], *args: Any) -> None:
    """Call ``check(*args)``, which reads values of tensors and raises an error or does nothing."""
    tracer = STATE.tracer if ACTIVE else None
    if tracer is None:
        check(*args)
    else:
        with thread_state(tracer=None):
            tracer.helper(check, args)


def declared(check: F) -> F:
    """Mark a check that tells recordings of launches about all values that it reads.

    It reads them through ``any_true`` and ``any_outside`` (``reductions/value_checks.py``), or passes them to
    ``note_range``, so that replays repeat it.
    """
    DECLARED.add(check)
    return check
