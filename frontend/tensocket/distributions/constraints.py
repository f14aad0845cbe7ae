"""Sets of values: supports of distributions, domains of their parameters, and of transforms.

``constraint.check(value)`` is a tensor of booleans, one for each event. ``event_dim`` is the number of dimensions of an
event, ``is_discrete`` says whether the set is countable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensocket as torch

from ..errors import ArgumentError


class Constraint:
    """A set of values.

    Attributes:
        is_discrete: Whether the set is countable.
        event_dim: Dimensions of one event.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return which events are in the set.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no check")

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Dependent(Constraint):
    """A set that depends on the parameters of a distribution."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        """Whether the set is countable.

        Raises:
            NotImplementedError: The parameters decide it.
        """
        if self._is_discrete is NotImplemented:
            raise NotImplementedError("is_discrete depends on parameters")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:
        """Dimensions of one event.

        Raises:
            NotImplementedError: The parameters decide it.
        """
        if self._event_dim is NotImplemented:
            raise NotImplementedError("event_dim depends on parameters")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        """Return the same constraint with other properties."""
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, value: Any) -> Any:
        """Refuse: the set is not known.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError("constraints.dependent", "a value", "a dependent constraint is that of an object",
                            "ask the distribution's or transform's own attribute")


def is_dependent(constraint: Any) -> bool:
    """Whether a set depends on parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint; on the class, a dependent constraint."""

    def __init__(self, fn: Callable[..., Any] | None = None, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        """Decorate a method."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)

    def __repr__(self) -> str:
        return "DependentProperty()"


class _IndependentConstraint(Constraint):
    """Events that consist of several events of a base constraint."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        """Whether the base constraint is countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """Number of event dimensions, more than that of the base constraint."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """Whether all events of the base constraint are in its set.

        Raises:
            ArgumentError: The value has too few dimensions.
        """
        result = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if result.dim() < count:
            expected = self.base_constraint.event_dim + count
            raise ArgumentError("constraints.independent", f"a value of {value.dim()} dimensions",
                                f"an event has {expected} dimensions", "add dimensions")
        return result.reshape((*result.shape[:result.dim() - count], -1)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: that of its components."""

    def __init__(self, base_constraint: Any) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        """Whether the components' support is countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """Number of event dimensions of the components."""
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        """Return whether each event is in the support of every component."""
        place = value.dim() - self.event_dim
        result = self.base_constraint.check(value.unsqueeze(place))
        return result.reshape((*result.shape[:value.dim() - self.event_dim], -1)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


# ---------------------------------------------------------------------------------------------------------- numbers


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of zeros with a single one."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """Numbers with bounds, which the repr shows."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _IntegerInterval(_Bounded):
    """Integers from one bound to another, both included."""

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    """Integers up to a bound."""

    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    """Integers that are greater than or equal to a bound."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """All numbers."""

    def check(self, value: Any) -> Any:
        """Return whether each number is not NaN."""
        return value == value


class _GreaterThan(_Bounded):
    """Numbers above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    """Numbers that are greater than or equal to a bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return self.lower_bound <= value


class _LessThan(_Bounded):
    """Numbers below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return value < self.upper_bound


class _Interval(_Bounded):
    """Numbers between two bounds, both included."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Numbers from one bound (included) to another (excluded)."""

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (self.lower_bound <= value) & (value < self.upper_bound)


# --------------------------------------------------------------------------------------------- vectors and matrices


class _Simplex(Constraint):
    """Vectors of nonnegative numbers whose sum is 1."""

    event_dim = 1

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is at most a bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlations: rows have length 1."""

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        tolerance = torch.finfo(value.dtype).eps * value.size(-1) * 10
        return super().check(value) & ((value.square().sum(-1) - 1).abs() < tolerance).all(-1)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        return torch.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=torch.bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices."""

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        square = super().check(value)
        return square & torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        symmetric = super().check(value)
        return torch.linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value: Any) -> Any:
        """Return whether each event is in the set."""
        symmetric = super().check(value)
        return torch.linalg.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


class _Joined(Constraint):
    """Sets that are joined along a dimension."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> Any:
        """Whether any of the sets is countable."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        """The largest number of event dimensions."""
        return max(c.event_dim for c in self.cseq)


class _Cat(_Joined):
    """Parts of given lengths along a dimension, each in a set of its own."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def check(self, value: Any) -> Any:
        """Return whether each part is in its set."""
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return torch.cat(checks, self.dim)


class _Stack(_Joined):
    """Positions along a dimension, each in a set of its own."""

    def check(self, value: Any) -> Any:
        """Return whether each position is in its set."""
        parts = [value.select(self.dim, k) for k in range(value.size(self.dim))]
        return torch.stack([c.check(v) for v, c in zip(parts, self.cseq, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip
