"""Running functions one after the other, in an order that fulfils constraints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

from tensocket.errors import ArgumentError

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]
logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Pass) -> Pass:
    """Return a pass that returns its argument, which ``fn`` changes."""
    @wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """Return a pass that logs the result of another one."""
    @wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        result = fn(gm, *args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn.__name__, result)
        return result

    return wrapped


def loop_pass(base_pass: Pass, n_iter: int | None = None, predicate: Callable[..., bool] | None = None) -> Pass:
    """Return a pass that runs another one several times.

    Args:
        base_pass: The other pass.
        n_iter: How often.
        predicate: Tells, from the last result, whether it runs again.
    """
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter` or `predicate` must be specified.")

    @wraps(base_pass)
    def wrapped(source: Any) -> Any:
        if predicate is not None:
            while predicate(source):
                source = base_pass(source)
            return source
        if n_iter is None or n_iter <= 0:
            raise AssertionError(f"n_iter must be a positive int, but got {n_iter}.")
        for _ in range(n_iter):
            source = base_pass(source)
        return source

    return wrapped


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    """Check that no pass stands behind one that has to follow it."""
    for at, first in enumerate(passes):
        for later in passes[at + 1:]:
            if not constraint(first, later):
                raise ArgumentError("PassManager", f"{[p.__name__ for p in passes]}", "pass schedule constraint "
                                    f"violated. Expected {later.__name__} before {first.__name__}", "change the "
                                    "order of the passes")


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Return the constraint that one pass runs before another."""
    def is_fulfilled(a: Pass, b: Pass) -> bool:
        return not (a == that and b == this)

    return is_fulfilled


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """Return the constraint that all passes that wrap one function run before those that wrap another."""
    def is_fulfilled(a: Pass, b: Pass) -> bool:
        return not (unwrap(a) == those and unwrap(b) == these)

    return is_fulfilled


class PassManager:
    """Runs passes in order, each on the result of the one before.

    Args:
        passes: The passes.
        constraints: Constraints on their order.
    """

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None) -> None:
        self.passes = passes or []
        self.constraints = constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """Return a manager of these passes."""
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Take the passes with these names away."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Replace all passes with the name of one by another."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Check that the order fulfils the constraints.

        Raises:
            ArgumentError: It does not.
        """
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """Run the passes, and return the last one's result."""
        self.validate()
        for run in self.passes:
            source = run(source)
        return source
