"""Mixtures."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one class, which lie along the last batch dimension.

    Args:
        mixture_distribution: The distribution of the component's index, a ``Categorical``.
        component_distribution: The components.
        validate_args: Whether values are checked.

    Raises:
        ArgumentError: The arguments are not such distributions, or their shapes do not fit.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, mixture_distribution: Any, component_distribution: Any,
                 validate_args: bool | None = None) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical) or not isinstance(component_distribution, Distribution):
            raise ArgumentError("MixtureSameFamily", f"{mixture_distribution!r} and {component_distribution!r}",
                                "a Categorical chooses among the distributions of another one",
                                "pass a Categorical and a Distribution")
        given = component_distribution.batch_shape
        batch, chosen = given[:-1], mixture_distribution.batch_shape
        count = mixture_distribution.probs.shape[-1]
        fits = all(a == b or 1 in (a, b) for a, b in zip(chosen[::-1], batch[::-1], strict=False))
        if not fits or not len(given) or given[-1] != count:
            raise ArgumentError("MixtureSameFamily", f"batch shapes {tuple(chosen)} of {count} categories and "
                                f"{tuple(given)}", "the last batch dimension has a component for each category",
                                "pass fitting shapes")
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape=batch, event_shape=event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same mixtures, repeated to a larger batch shape."""
        batch_shape = torch.Size(batch_shape)
        new = super().expand(batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """Return the support of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of the component's index."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Any:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    def _over(self, values: Any) -> Any:
        """Return the weighted sum over components."""
        return (self._weights() * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        """The mean of the means."""
        return self._over(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The mean of the variances plus the variance of the means."""
        means = self._component_distribution.mean
        centre = self.mean.unsqueeze(-1 - self._event_ndims)
        return self._over(self._component_distribution.variance) + self._over((means - centre).pow(2.0))

    def cdf(self, x: Any) -> Any:
        """Return the weighted mean of the components' ``cdf``."""
        values = self._component_distribution.cdf(self._pad(x))
        return (values * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        """Return the logarithm of the weighted mean of the densities."""
        if self._validate_args:
            self._validate_sample(x)
        values = self._component_distribution.log_prob(self._pad(x))
        return torch.logsumexp(values + torch.log_softmax(self._mixture_distribution.logits, -1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Return a sample of a random component."""
        with torch.no_grad():
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            place = values.dim() - 1 - self._event_ndims
            index = chosen.reshape((*chosen.shape, *(1,) * (self._event_ndims + 1)))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return values.gather(place, index).squeeze(place)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
