"""Distributions of functions of random values."""

from __future__ import annotations

from typing import Any, ClassVar

import tensocket as torch

from ..errors import ArgumentError
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost


class TransformedDistribution(Distribution):
    """y = f(x), where x has a distribution: p(y) = p(x) / |det dy/dx|.

    Args:
        base_distribution: The distribution of x.
        transforms: The transforms that make up f, in order.
        validate_args: Whether parameters and values are checked.

    Raises:
        ArgumentError: A transform is not a ``Transform``, or x has too few dimensions.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, base_distribution: Distribution, transforms: Transform | list[Transform],
                 validate_args: bool | None = None) -> None:
        given = list(transforms) if isinstance(transforms, (list, tuple)) else [transforms]
        self.transforms: list[Transform] = given
        if not all(isinstance(t, Transform) for t in given):
            raise ArgumentError("TransformedDistribution", f"transforms {transforms!r}",
                                "transforms is a Transform or a list of them", "pass transforms")
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ArgumentError("TransformedDistribution", f"a base distribution of shape {tuple(base_shape)}",
                                f"it has at least {transform.domain.event_dim} dimensions",
                                "expand the base distribution")
        forward_shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(forward_shape)
        if tuple(base_shape) != tuple(expanded):
            base_distribution = base_distribution.expand(expanded[:len(expanded) - base_dims])
        more = transform.domain.event_dim - base_dims
        self.base_dist: Any = Independent(base_distribution, more) if more > 0 else base_distribution
        dims = max(transform.codomain.event_dim,
                   base_dims + transform.codomain.event_dim - transform.domain.event_dim)
        cut = len(forward_shape) - dims
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the same distributions, repeated to a larger batch shape."""
        new = super().expand(batch_shape, _instance)
        new.transforms = self.transforms
        shape = torch.Size((*torch.Size(batch_shape), *self._event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Return the codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> Any:  # type: ignore[override]
        """Whether x has samples with gradients."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw from the base and apply the transforms."""
        with torch.no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw from the base with gradients and apply the transforms."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of x minus ``log |det dy/dx|``."""
        if self._validate_args:
            self._validate_sample(value)
        dims, result, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            result = result - sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return result + sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """Return ``1 - value`` if the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        """Return the ``cdf`` of x at the inverse transforms of ``value``."""
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        """Return the transforms of the ``icdf`` of x."""
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value
