"""Divergences of normal distributions of vectors."""

from __future__ import annotations

from typing import Any

import tensocket as torch

from ..errors import ArgumentError
from .kl import register_kl
from .lowrank_multivariate_normal import LowRankMultivariateNormal, lowrank_log_det, lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, batch_mahalanobis


def _check(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ArgumentError("kl_divergence", f"event shapes {tuple(p.event_shape)} and {tuple(q.event_shape)}",
                            "both distributions have one event shape", "pass fitting distributions")


def _log_det(p: Any) -> Any:
    if isinstance(p, MultivariateNormal):
        return 2 * p._half_log_det()
    return lowrank_log_det(p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag, p._capacitance_tril)


def _divergence(p: Any, q: Any, trace: Any, distance: Any) -> Any:
    """Return ``(log det Q - log det P + tr(Q^-1 P) + distance - n) / 2``."""
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])


def _trace_of_solved(factor: Any, columns: Any) -> Any:
    """Return ``tr((L L^T)^-1 C C^T)`` for columns C."""
    n = columns.shape[-2]
    batch = torch.broadcast_shapes(tuple(factor.shape[:-2]), tuple(columns.shape[:-2]))
    solved = torch.linalg.solve_triangular(factor.expand((*batch, n, n)),
                                           columns.expand((*batch, n, columns.shape[-1])), upper=False)
    return solved.square().sum((-2, -1))


def _square_root(p: Any) -> Any:
    """Return a C for which ``C C^T`` is the covariance."""
    if isinstance(p, MultivariateNormal):
        return p._unbroadcasted_scale_tril
    return torch.cat([p.cov_factor, torch.diag_embed(p.cov_diag.sqrt())], -1)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _to_full(p: Any, q: Any) -> Any:
    _check(p, q)
    factor = q._unbroadcasted_scale_tril
    return _divergence(p, q, _trace_of_solved(factor, _square_root(p)), batch_mahalanobis(factor, q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p: Any, q: Any) -> Any:
    _check(p, q)
    factor, diagonal, capacitance = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q._capacitance_tril
    distance = lowrank_mahalanobis(factor, diagonal, q.loc - p.loc, capacitance)
    root = _square_root(p)
    plain = (root.square() / diagonal.unsqueeze(-1)).sum((-2, -1))
    scaled = torch.matmul(factor.mT / diagonal.unsqueeze(-2), root)
    return _divergence(p, q, plain - _trace_of_solved(capacitance, scaled), distance)
