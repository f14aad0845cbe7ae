"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensocket as torch

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property


def _log_bessel(concentration: Any, order: int) -> Any:
    """Return the logarithm of the modified Bessel function of the first kind."""
    scaled = torch.special.i1e(concentration) if order else torch.special.i0e(concentration)
    return scaled.log() + concentration


class VonMises(Distribution):
    """exp(concentration cos(x - loc)) / (2 pi I0(concentration)): angles from -pi to pi.

    Args:
        loc: The most probable angle.
        concentration: The larger it is, the narrower the distribution.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, torch.Size(), validate_args)

    @lazy_property
    def _proposal_r(self) -> Any:
        """Parameter of the wrapped Cauchy proposal, in float64."""
        kappa = self.concentration.detach().double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw by rejection from wrapped Cauchy numbers (D. Best, N. Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            kappa, r = self.concentration.double().expand(shape), self._proposal_r.expand(shape)
            result, pending = torch.zeros_like(kappa), torch.ones_like(kappa, dtype=torch.bool)
            while pending.any():
                u = torch.rand((3, *shape), dtype=torch.float64, device=kappa.device)
                z = torch.cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accepted = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
                angle = (u[2] - 0.5).sign() * torch.acos(f.clamp(-1, 1))
                result = torch.where(pending & accepted, angle, result)
                pending = pending & ~accepted
            turned = (result + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """Return the log-density of ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return (self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi)
                - _log_bessel(self.concentration, 0))

    @property
    def mean(self) -> Any:
        """The circular mean, loc."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance, 1 - I1 / I0."""
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()
