"""Divergences, compared with integrals over quantiles, sums, and matrix formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import tensocket as torch
from tensocket import distributions as D
from tensocket.distributions.kl import _KL_REGISTRY


def t(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64).tolist(), dtype=torch.float64)


#: Two distributions of each class, and SciPy's quantiles of the first one.
PAIRS = {
    D.Normal: ((D.Normal(t(0.5), t(1.2)), D.Normal(t(-0.3), t(2.0))), stats.norm(0.5, 1.2)),
    D.Laplace: ((D.Laplace(t(0.5), t(1.2)), D.Laplace(t(-0.3), t(2.0))), stats.laplace(0.5, 1.2)),
    D.Cauchy: ((D.Cauchy(t(0.5), t(1.2)), D.Cauchy(t(-0.3), t(2.0))), stats.cauchy(0.5, 1.2)),
    D.Gumbel: ((D.Gumbel(t(0.5), t(1.2)), D.Gumbel(t(-0.3), t(2.0))), stats.gumbel_r(0.5, 1.2)),
    D.Exponential: ((D.Exponential(t(1.4)), D.Exponential(t(0.6))), stats.expon(scale=1 / 1.4)),
    D.Gamma: ((D.Gamma(t(2.5), t(1.5)), D.Gamma(t(1.5), t(0.8))), stats.gamma(2.5, scale=1 / 1.5)),
    D.Beta: ((D.Beta(t(2.0), t(1.5)), D.Beta(t(1.2), t(2.5))), stats.beta(2, 1.5)),
    D.Pareto: ((D.Pareto(t(1.0), t(5.0)), D.Pareto(t(0.5), t(2.0))), stats.pareto(5)),
    D.Uniform: ((D.Uniform(t(0.6), t(0.9)), D.Uniform(t(-0.5), t(1.5))), stats.uniform(0.6, 0.3)),
    D.HalfNormal: ((D.HalfNormal(t(1.2)), D.HalfNormal(t(2.0))), stats.halfnorm(scale=1.2)),
    D.LogNormal: ((D.LogNormal(t(0.5), t(0.8)), D.LogNormal(t(-0.3), t(1.0))),
                  stats.lognorm(0.8, scale=np.exp(0.5))),
    D.ContinuousBernoulli: ((D.ContinuousBernoulli(t(0.3)), D.ContinuousBernoulli(t(0.6))), None),
    D.Chi2: ((D.Chi2(t(3.0)), D.Chi2(t(4.0))), stats.chi2(3)),
}  # fmt: skip
#: With supports that contain the first one's, and without.
WIDER = (D.Normal, D.Laplace, D.Gumbel)


def numerical(p: Any, q: Any, frozen: Any) -> float:
    """The mean of log p - log q over quantiles of p."""
    levels = (np.arange(200000) + 0.5) / 200000
    x = p.icdf(t(levels)) if frozen is None else t(frozen.ppf(levels))
    p._validate_args = q._validate_args = False
    return float((p.log_prob(x) - q.log_prob(x)).mean())


def registered(p: type, q: type) -> bool:
    return (p, q) in _KL_REGISTRY


CROSS = [(p, q) for p in PAIRS for q in PAIRS if registered(p, q) and p is not q]


@pytest.mark.parametrize(("first", "second"), [*((kind, kind) for kind in PAIRS), *CROSS],
                         ids=lambda kind: kind.__name__)
def test_divergence_is_the_mean_of_log_ratios(first: type, second: type) -> None:
    p, q = PAIRS[first][0][0], PAIRS[second][0][1]
    found = D.kl_divergence(p, q).item()
    if np.isinf(found):
        inside = bool(q.support.check(p.sample((1000,))).all())
        narrow = {(D.Beta, D.Pareto), (D.ContinuousBernoulli, D.Pareto)}
        assert not inside or (first, second) in narrow
        return
    assert found == pytest.approx(numerical(p, q, PAIRS[first][1]), rel=2e-3, abs=2e-3)


def test_all_pairs_of_one_dimension_are_covered() -> None:
    names = {(p.__name__, q.__name__) for p, q in CROSS}
    assert len(names) >= 45
    assert ("Normal", "Laplace") in names


def test_supports_decide() -> None:
    wide, narrow = D.Uniform(t([-1.0, 0.2]), t([2.0, 0.8])), D.Uniform(t(0.0), t(1.0))
    assert D.kl_divergence(wide, narrow).isinf().tolist() == [True, False]
    for q in (D.Beta(t(2.0), t(2.0)), D.ContinuousBernoulli(t(0.3)), D.Exponential(t(1.0)), D.Gamma(t(2.0), t(1.0)),
              D.Pareto(t(0.1), t(1.0))):
        assert D.kl_divergence(wide, q).isinf().tolist() == [True, False]
    beta = D.Beta(t(2.0), t(2.0))
    assert D.kl_divergence(beta, narrow).item() == pytest.approx(-float(stats.beta(2, 2).entropy()))
    assert D.kl_divergence(beta, D.Uniform(t(0.0), t(0.5))).item() == np.inf
    assert D.kl_divergence(D.Pareto(t(0.5), t(2.0)), D.Pareto(t(1.0), t(2.0))).item() == np.inf
    assert D.kl_divergence(D.Poisson(t(2.0)), D.Bernoulli(t(0.5))).item() == np.inf


def counted(p: Any, q: Any, values: np.ndarray) -> float:
    first, second = p.log_prob(t(values)), q.log_prob(t(values))
    return float((first.exp() * (first - second)).sum())


def test_counts() -> None:
    k = np.arange(200)
    for make, parameters in ((D.Poisson, (3.0, 5.0)), (D.Geometric, (0.3, 0.6))):
        p, q = make(t(parameters[0])), make(t(parameters[1]))
        assert D.kl_divergence(p, q).item() == pytest.approx(counted(p, q, k), rel=1e-6)
    p, q = D.Binomial(6, t(0.3)), D.Binomial(6, t(0.7))
    assert D.kl_divergence(p, q).item() == pytest.approx(counted(p, q, np.arange(7)), rel=1e-6)
    assert D.kl_divergence(D.Binomial(7, t(0.3)), q).item() == np.inf
    with pytest.raises(NotImplementedError, match="p has at least as many trials as q"):
        D.kl_divergence(p, D.Binomial(8, t(0.3)))
    bernoulli = D.Bernoulli(t([0.3, 0.0, 1.0, 0.5]))
    found = D.kl_divergence(bernoulli, D.Bernoulli(t([0.6, 0.5, 0.5, 0.0])))
    np.testing.assert_allclose(found.numpy(), [0.3 * np.log(0.5) + 0.7 * np.log(0.7 / 0.4), np.log(2), np.log(2),
                                               np.inf], rtol=1e-6)
    expected = 0.3 * np.log(0.3 / 2) + 0.7 * np.log(0.7) + 2
    assert D.kl_divergence(D.Bernoulli(t(0.3)), D.Poisson(t(2.0))).item() == pytest.approx(expected, rel=1e-6)


def test_categories() -> None:
    a, b = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    expected = stats.entropy(a, b)
    assert D.kl_divergence(D.Categorical(t(a)), D.Categorical(t(b))).item() == pytest.approx(expected)
    assert D.kl_divergence(D.OneHotCategorical(t(a)), D.OneHotCategorical(t(b))).item() == pytest.approx(expected)
    zero = D.Categorical(t([0.5, 0.5, 0.0]))
    assert D.kl_divergence(zero, D.Categorical(t(b))).item() == pytest.approx(stats.entropy([0.5, 0.5, 0], b))
    assert D.kl_divergence(D.Categorical(t(a)), zero).item() == np.inf


def test_dirichlet() -> None:
    p, q = D.Dirichlet(t([2.0, 1.5, 3.0])), D.Dirichlet(t([1.0, 2.5, 1.0]))
    torch.manual_seed(1)
    x = p.sample((60000,))
    assert D.kl_divergence(p, q).item() == pytest.approx((p.log_prob(x) - q.log_prob(x)).mean().item(), abs=0.02)
    # Of two categories it is that of beta distributions.
    pair = D.kl_divergence(D.Dirichlet(t([2.0, 1.5])), D.Dirichlet(t([1.2, 2.5]))).item()
    assert pair == pytest.approx(D.kl_divergence(*PAIRS[D.Beta][0]).item())


def test_vectors() -> None:
    rng = np.random.default_rng(0)
    factor, diagonal, mean = rng.normal(size=(3, 2)), rng.uniform(0.5, 2, 3), rng.normal(size=3)
    low = factor @ factor.T + np.diag(diagonal)
    full = np.array([[2.0, 0.3, -0.4], [0.3, 1.0, 0.2], [-0.4, 0.2, 1.5]])
    made = [(D.MultivariateNormal(t(np.zeros(3)), t(full)), np.zeros(3), full),
            (D.LowRankMultivariateNormal(t(mean), t(factor), t(diagonal)), mean, low)]
    for p, m, covariance in made:
        for q, n, other in made:
            inverse, distance = np.linalg.inv(other), n - m
            expected = 0.5 * (np.trace(inverse @ covariance) + distance @ inverse @ distance - 3
                              + np.linalg.slogdet(other)[1] - np.linalg.slogdet(covariance)[1])
            assert D.kl_divergence(p, q).item() == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="both distributions have one event shape"):
        D.kl_divergence(made[0][0], D.MultivariateNormal(t([0.0]), t([[1.0]])))


def test_independent_and_transformed() -> None:
    p, q = D.Normal(t(np.zeros((2, 3))), t(1.0)), D.Normal(t(np.ones((2, 3))), t(2.0))
    plain = D.kl_divergence(p, q)
    found = D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1))
    np.testing.assert_allclose(found.numpy(), plain.sum(-1).numpy())
    with pytest.raises(NotImplementedError, match="both have the same reinterpreted_batch_ndims"):
        D.kl_divergence(D.Independent(p, 1), D.Independent(q, 2))
    exp, tanh = D.ExpTransform(), D.TanhTransform()
    same = D.kl_divergence(D.TransformedDistribution(p, exp), D.TransformedDistribution(q, exp))
    np.testing.assert_allclose(same.numpy(), plain.numpy())
    with pytest.raises(NotImplementedError, match="both have the same transforms and event shape"):
        D.kl_divergence(D.TransformedDistribution(p, exp), D.TransformedDistribution(q, tanh))


def test_exponential_families_without_a_formula() -> None:
    p, q = D.Wishart(t(4.0), t(np.eye(2))), D.Wishart(t(5.0), t(2 * np.eye(2)))
    torch.manual_seed(2)
    x = p.sample((600,))
    p._validate_args = q._validate_args = False
    assert D.kl_divergence(p, q).item() == pytest.approx((p.log_prob(x) - q.log_prob(x)).mean().item(), abs=0.1)
    with pytest.raises(NotImplementedError, match="a Bregman divergence is that of one exponential family"):
        D.kl_divergence(D.Normal(t(0.0), t(1.0)), D.Poisson(t(1.0)))


def test_registering() -> None:
    class Mine(D.Normal):
        pass

    class Yours(D.Normal):
        pass

    p, q = Mine(t(0.0), t(1.0)), Yours(t(0.0), t(2.0))
    plain = D.kl_divergence(p, q).item()
    assert plain == D.kl_divergence(D.Normal(t(0.0), t(1.0)), D.Normal(t(0.0), t(2.0))).item()
    try:
        D.register_kl(Mine, D.Normal)(lambda a, b: t(7.0))
        assert D.kl_divergence(p, q).item() == 7.0
        assert D.kl_divergence(q, p).item() != 7.0
    finally:
        del _KL_REGISTRY[Mine, D.Normal]
    with pytest.raises(TypeError, match="divergences are those of classes of distributions"):
        D.register_kl("Normal", D.Normal)
    with pytest.raises(NotImplementedError, match="a divergence is registered for the pair"):
        D.kl_divergence(D.VonMises(t(0.0), t(1.0)), D.Normal(t(0.0), t(1.0)))
