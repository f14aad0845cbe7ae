"""Running passes in an order that fulfils constraints, until nothing changes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from queue import Queue
from typing import Any

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.nn import Module

from .pass_base import PassResult

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass) -> Pass:
    """Return a pass that returns a ``PassResult``, from one that may return nothing or a module."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm: Module) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, Module):
            return PassResult(result, True)
        return None

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    """Check that no pass stands behind one that has to follow it."""
    for at, first in enumerate(passes):
        for later in passes[at + 1:]:
            if not constraint(first, later):
                raise ArgumentError("PassManager", f"{[p.__name__ for p in passes]}", "pass schedule constraint "
                                    f"violated. Expected {later.__name__} before {first.__name__}", "call "
                                    "solve_constraints()")


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """Return passes in an order that fulfils constraints.

    Raises:
        ArgumentError: There is none.
    """
    if not constraints:
        return passes
    later: dict[Pass, list[Pass]] = {p: [] for p in passes}
    missing: dict[Pass, int] = dict.fromkeys(passes, 0)
    for candidate in passes:
        for other in passes:
            if other is not candidate and any(not constraint(candidate, other) for constraint in constraints):
                later[other].append(candidate)
                missing[candidate] += 1
    ready: Queue[Pass] = Queue()
    for candidate in passes:
        if missing[candidate] == 0:
            ready.put(candidate)
    found: list[Pass] = []
    while not ready.empty():
        current = ready.get()
        found.append(current)
        for follower in later[current]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.put(follower)
    if len(found) != len(passes):
        circle = [p.__name__ for p in passes if missing[p] > 0]
        raise ArgumentError("PassManager", f"{len(passes)} passes", f"Circular dependency detected within the "
                            f"following passes: {circle}", "take one of the constraints away")
    return found


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Return the constraint that one pass runs before another."""
    def is_fulfilled(a: Pass, b: Pass) -> bool:
        return not (a == that and b == this)

    return is_fulfilled


class PassManager:
    """Runs passes in order.

    Args:
        passes: The passes.
        constraints: Constraints on their order.
        steps: How often all passes run; fewer times if a round changes nothing.
        run_checks_after_each_pass: Whether the check runs behind each pass.
        suppress_check_failures: Whether errors of passes are raised as they are.
    """

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None,
                 steps: int | None = None, run_checks_after_each_pass: bool = False,
                 suppress_check_failures: bool = False) -> None:
        self.passes = passes or []
        self.constraints = constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Check that the order fulfils the constraints.

        Raises:
            ArgumentError: It does not.
        """
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes in an order that fulfils the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """Set the check that runs behind passes.

        Raises:
            ArgumentTypeError: The function does not take one argument.
        """
        parameters = list(inspect.signature(check).parameters)
        if len(parameters) != 1:
            raise ArgumentTypeError("PassManager.add_checks", f"a check with parameters {parameters}", "PassManager "
                                "check function should only take in one variable, a module", "take the module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: Module) -> None:
        """Check a module; by default nothing is checked."""

    def __call__(self, module: Module) -> PassResult:
        """Run the passes.

        Returns:
            The module, and whether a pass changed it.

        Raises:
            ArgumentError: A pass fails, or does not return a module.
        """
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for at, run in enumerate(self.passes):
                result = self._run(run, module, [p.__name__ if hasattr(p, "__name__") else type(p).__name__
                                                 for p in self.passes[:at]])
                module, modified = result.graph_module, modified or result.modified
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)

    def _run(self, run: Pass, module: Module, before: list[str]) -> PassResult:
        name = getattr(run, "__name__", type(run).__name__)
        try:
            result = run(module)
            if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                raise PassTypeError("PassManager", f"a {type(result).__name__} from {name}", f"The result of the "
                                    f"pass {name} should be type PassResult. Please wrap it with pass_result_wrapper()",
                                    "return PassResult(module, changed)")
        except Exception as error:
            text = f"An error occurred when running the '{name}' pass after the following passes: {before}"
            raise Exception(text) from error
        return result  # type: ignore[no-any-return]


class PassTypeError(ArgumentError, TypeError):
    """A result of a pass that is not a ``PassResult``."""
