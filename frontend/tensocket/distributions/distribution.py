"""The base class of all distributions."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError, NoClosedForm
from . import constraints
from .utils import lazy_property


class _Undefined:
    """An attribute that subclasses define."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        raise NotImplementedError(f"{owner.__name__} does not define {self.name}")


class Distribution:
    """A distribution, or a batch of independent ones.

    A sample has the shape ``sample_shape + batch_shape + event_shape``.

    Args:
        batch_shape: Shape of the batch.
        event_shape: Shape of one event.
        validate_args: Whether parameters and values are checked; the class's default if not given.

    Raises:
        ArgumentError: A parameter is not in its domain.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool = __debug__
    #: Names of parameters and their domains.
    arg_constraints: ClassVar[Any] = _Undefined("arg_constraints")
    #: Constraint on the values.
    support: Any = _Undefined("support")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions that are made from now on check parameters and values.

        Raises:
            ArgumentError: The value is not a bool.
        """
        if value not in (True, False):
            raise ArgumentError("set_default_validate_args", f"{value!r}", "the default is True or False",
                                "pass a bool")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape = torch.Size(batch_shape)
        self._event_shape = torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self._known_constraints().items():
                known = name in self.__dict__ or not isinstance(getattr(type(self), name, None), lazy_property)
                if known and not constraints.is_dependent(constraint):
                    self._check(name, constraint, getattr(self, name))
        super().__init__()

    def _known_constraints(self) -> Any:
        """Return the domains of the parameters; if the class does not state them, warn and return none."""
        try:
            return self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self).__name__} does not define `arg_constraints`; set it to {{}}, or pass "
                          "validate_args=False to turn validation off", stacklevel=4)
            return {}

    def _check(self, name: str, constraint: Any, value: Any) -> None:
        valid = constraint.check(value)
        if not valid.all():
            raise ArgumentError(type(self).__name__, f"{name} of shape {tuple(value.shape)}: {value.detach()}",
                                f"parameter {name} satisfies the constraint {constraint!r}",
                                "pass values in this domain, or validate_args=False")

    # ---------------------------------------------------------------------------------------------- shapes

    @property
    def batch_shape(self) -> Any:
        """Shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """Shape of one event."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        """Return the shape of samples."""
        return torch.Size((*torch.Size(sample_shape), *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same distributions, repeated to a larger batch shape without copies."""
        batch_shape = torch.Size(batch_shape)
        new = self._get_checked_instance(type(self), _instance)
        domains = {**self.arg_constraints, **self._expanded}
        for name, domain in domains.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                dims = domain if isinstance(domain, int) else domain.event_dim
                setattr(new, name, value.expand((*batch_shape, *value.shape[value.dim() - dims:])))
        for name in self._kept:
            setattr(new, name, getattr(self, name))
        for name in self._parts:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    #: Further attributes that ``expand`` expands, with the dimensions of an event.
    _expanded: ClassVar[dict[str, int]] = {}
    #: Attributes that ``expand`` passes on unchanged.
    _kept: ClassVar[tuple[str, ...]] = ()
    #: Attributes that are distributions with the same batch shape.
    _parts: ClassVar[tuple[str, ...]] = ()

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """Return a new object of this class without parameters, or the one that a subclass made."""
        return self.__new__(type(self)) if _instance is None else _instance

    # ---------------------------------------------------------------------------------------------- formulas

    def _unknown(self, what: str) -> NoClosedForm:
        return NoClosedForm(type(self).__name__, what, "it is not known as a formula for this distribution",
                            "estimate it from samples")

    @property
    def mean(self) -> Any:
        """The mean."""
        raise self._unknown("mean")

    @property
    def mode(self) -> Any:
        """The most probable value."""
        raise self._unknown("mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise self._unknown("variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw samples without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw samples that are differentiable functions of the parameters."""
        raise self._unknown("rsample")

    def sample_n(self, n: int) -> Any:
        """Return ``sample((n,))``. Deprecated."""
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density, or of the probability, at a value."""
        raise self._unknown("log_prob")

    def cdf(self, value: Any) -> Any:
        """Return the probability of values up to this one."""
        raise self._unknown("cdf")

    def icdf(self, value: Any) -> Any:
        """Return the value whose ``cdf`` is this probability."""
        raise self._unknown("icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values, along a new first dimension.

        Args:
            expand: Whether they are expanded to the batch shape.
        """
        raise self._unknown("enumerate_support")

    def entropy(self) -> Any:
        """Return the entropy in nats."""
        raise self._unknown("entropy")

    def perplexity(self) -> Any:
        """Return the exponential of the entropy."""
        return torch.exp(self.entropy())

    def _validate_sample(self, value: Any) -> None:
        """Check that a value is one of this distribution.

        Raises:
            ArgumentError: It is not a tensor, does not broadcast, or is outside of the support.
        """
        name = type(self).__name__
        if not isinstance(value, torch.Tensor):
            raise ArgumentError(name, f"a value of type {type(value).__name__}", "the value is a tensor",
                                "convert it with tensocket.tensor(...)")
        dims = len(self._event_shape)
        expected = (*self._batch_shape, *self._event_shape)
        shape = tuple(value.shape)
        fits = tuple(shape[len(shape) - dims:]) == tuple(self._event_shape) and all(
            a == b or 1 in (a, b) for a, b in zip(shape[::-1], expected[::-1], strict=False))
        if not fits:
            raise ArgumentError(name, f"a value of shape {shape}",
                                f"it broadcasts with batch and event shape {expected}", "reshape it")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{name} does not define `support` to enable sample validation; "
                          "pass validate_args=False to turn validation off", stacklevel=3)
            return
        if not support.check(value).all():
            raise ArgumentError(name, f"a value of shape {shape}: {value.detach()}",
                                f"values are in the support {support!r}",
                                "pass values of the support, or make the distribution with validate_args=False")

    def __repr__(self) -> str:
        given = [name for name in self.arg_constraints if name in self.__dict__]
        shown = ", ".join(f"{name}: {_shown(self.__dict__[name])}" for name in given)
        return f"{type(self).__name__}({shown})"


def _shown(value: Any) -> Any:
    return value.detach().item() if value.numel() == 1 else value.size()


__all__ = ["Distribution"]
