"""Batch dimensions that are reinterpreted as event dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .distribution import Distribution
from .utils import sum_rightmost


class Independent(Distribution):
    """A distribution whose events are several independent events of a base distribution.

    Args:
        base_distribution: The base distribution.
        reinterpreted_batch_ndims: How many of its last batch dimensions become dimensions of an event.
        validate_args: Whether values are checked.

    Raises:
        ArgumentError: It has fewer batch dimensions.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ArgumentError("Independent", f"reinterpreted_batch_ndims={reinterpreted_batch_ndims} of a batch "
                                f"shape {tuple(base_distribution.batch_shape)}", "there are so many batch dimensions",
                                "pass a smaller number")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        dims = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:len(shape) - dims], shape[len(shape) - dims:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same distributions, repeated to a larger batch shape."""
        new = self._get_checked_instance(type(self), _instance)
        # First, because subclasses may take attributes of the base class from it.
        new.base_dist = self.base_dist.expand(
            (*torch.Size(batch_shape), *self._event_shape[:self.reinterpreted_batch_ndims]))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return super().expand(batch_shape, new)

    @property
    def has_rsample(self) -> Any:  # type: ignore[override]
        """Whether the base distribution has samples with gradients."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:  # type: ignore[override]
        """Whether all values can be enumerated, which is false for events of several dimensions."""
        return self.base_dist.has_enumerate_support if self.reinterpreted_batch_ndims == 0 else False

    @constraints.dependent_property
    def support(self) -> Any:
        """Return the base's support, over more event dimensions."""
        count = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, count) if count else self.base_dist.support

    @property
    def mean(self) -> Any:
        """The mean of the base."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """The mode of the base."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """The variance of the base."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw from the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw from the base, with gradients."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """Return the base's log-probability, summed over each event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """Return the base's entropy, summed over each event."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values of the base.

        Raises:
            NoClosedForm: Batch dimensions became dimensions of events.
        """
        if self.reinterpreted_batch_ndims > 0:
            raise self._unknown("enumerate_support")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
