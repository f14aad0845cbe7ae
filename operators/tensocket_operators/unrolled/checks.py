"""Functions that composites call on tensors, and that are not operators: above all, checks of values.

A composite that reads elements itself cannot be unrolled. Through ``run_check``, it can: every unrolled call repeats
the check, and an error sends the call to the composite, which raises it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_core.dispatch.modes import ACTIVE, STATE, thread_state

F = TypeVar("F", bound=Callable[..., Any])
#: The functions that ``declared`` marks.
DECLARED: Final[set[Callable[..., Any]]] = set()


def run_check(check: Callable[..., None], *args: Any) -> None:
    """Call ``check(*args)``, which reads values of tensors and raises an error or does nothing."""
    tracer = STATE.tracer if ACTIVE else None
    if tracer is None:
        check(*args)
    else:
        with thread_state(tracer=None):
            tracer.helper(check, args)


def declared(check: F) -> F:
    """Mark a function that tells recordings of launches about all values that it reads, or reads none.

    A check reads them through ``any_true`` and ``any_outside`` (``reductions/value_checks.py``), or passes them to
    ``note_range``, so that replays repeat it.
    """
    DECLARED.add(check)
    return check
