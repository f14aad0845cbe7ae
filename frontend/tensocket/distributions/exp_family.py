"""Exponential families: log p(x) = <natural parameters, t(x)> - A(natural parameters) + k(x)."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket_core.dispatch.modes import as_leaf

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """A distribution with natural parameters, a log-normaliser and a mean of its carrier measure."""

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        """Natural parameters."""
        raise self._unknown("natural parameters")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        """Return A of the natural parameters."""
        raise self._unknown("log-normaliser")

    @property
    def _mean_carrier_measure(self) -> Any:
        """Mean of k(x)."""
        raise self._unknown("mean of the carrier measure")

    def entropy(self) -> Any:
        """Return A minus the sum of the natural parameters times the gradient of A, minus the mean of k (F. Nielsen,
        R. Nock, 2010).
        """
        result = -self._mean_carrier_measure
        parameters = [as_leaf(p.detach()) for p in self._natural_params]
        with torch.enable_grad():
            normalizer = self._log_normalizer(*parameters)
            gradients = torch.autograd.grad(normalizer.sum(), parameters, create_graph=True)
        result = result + normalizer
        dims = len(self._event_shape)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            product = parameter * gradient
            result = result - (product.reshape((*self._batch_shape, -1)).sum(-1) if dims else product)
        return result


__all__ = ["ExponentialFamily"]
