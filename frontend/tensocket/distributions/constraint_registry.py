"""Transforms onto sets: ``biject_to(constraint)`` is one-to-one, ``transform_to(constraint)`` may not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentTypeError, NoClosedForm
from . import constraints, transforms


class ConstraintRegistry:
    """Functions that make the transform for a constraint, by the constraint's class."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Register a function for a class of constraints, or for the class of an object; also a decorator.

        Raises:
            ArgumentTypeError: ``constraint`` is not a constraint.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise ArgumentTypeError("ConstraintRegistry.register", f"{constraint!r}",
                                    "a function is registered for a class of constraints or one of its objects",
                                    "pass a constraint")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """Return the transform for a constraint.

        Raises:
            NoClosedForm: None is registered.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NoClosedForm("transform_to", f"the constraint {constraint!r}",
                               "a transform is registered for this kind of constraint",
                               "register one with .register(constraint)")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(constraint: Any, factory: Callable[[Any], Any]) -> None:
    biject_to.register(constraint, factory)
    transform_to.register(constraint, factory)


def _onto_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(),
                                        transforms.AffineTransform(constraint.lower_bound, 1)])


def _registered_independent(registry: ConstraintRegistry) -> Callable[[Any], Any]:
    return lambda c: transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)


def _registered_joined(registry: ConstraintRegistry) -> None:
    registry.register(constraints.independent, _registered_independent(registry))
    registry.register(constraints.cat, lambda c: transforms.CatTransform(
        [registry(part) for part in c.cseq], c.dim, c.lengths))
    registry.register(constraints.stack, lambda c: transforms.StackTransform(
        [registry(part) for part in c.cseq], c.dim))


_registered_joined(biject_to)
_registered_joined(transform_to)
_both(constraints.real, lambda c: transforms.identity_transform)
_both(constraints.positive, _above)
_both(constraints.nonnegative, _above)
_both(constraints.less_than, lambda c: transforms.ComposeTransform(
    [transforms.ExpTransform(), transforms.AffineTransform(c.upper_bound, -1)]))
_both(constraints.interval, _onto_interval)
_both(constraints.half_open_interval, _onto_interval)
_both(constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform())
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda c: transforms.PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda c: transforms.PositiveDefiniteTransform())

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
