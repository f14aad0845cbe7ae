"""Densities, distribution functions, moments and entropies, compared with SciPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import tensocket as torch
from tensocket import distributions as D

A, B = np.array([0.7, 1.3, 4.0]), np.array([0.6, 2.5, 1.1])
P = np.array([0.1, 0.5, 0.8])


def t(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64).tolist(), dtype=torch.float64)


#: Distributions with SciPy's; those of one dimension.
CONTINUOUS = {
    "Normal": (D.Normal(t(A), t(B)), stats.norm(A, B)),
    "LogNormal": (D.LogNormal(t(A), t(B)), stats.lognorm(B, scale=np.exp(A))),
    "Uniform": (D.Uniform(t(A - 1), t(A + B)), stats.uniform(A - 1, B + 1)),
    "Gamma": (D.Gamma(t(A), t(B)), stats.gamma(A, scale=1 / B)),
    "Chi2": (D.Chi2(t(A)), stats.chi2(A)),
    "InverseGamma": (D.InverseGamma(t(A), t(B)), stats.invgamma(A, scale=B)),
    "Beta": (D.Beta(t(A), t(B)), stats.beta(A, B)),
    "Exponential": (D.Exponential(t(B)), stats.expon(scale=1 / B)),
    "Laplace": (D.Laplace(t(A), t(B)), stats.laplace(A, B)),
    "Cauchy": (D.Cauchy(t(A), t(B)), stats.cauchy(A, B)),
    "HalfNormal": (D.HalfNormal(t(B)), stats.halfnorm(scale=B)),
    "HalfCauchy": (D.HalfCauchy(t(B)), stats.halfcauchy(scale=B)),
    "StudentT": (D.StudentT(t(A), t(B), t(A)), stats.t(A, B, A)),
    "FisherSnedecor": (D.FisherSnedecor(t(A), t(2 * A + 1)), stats.f(A, 2 * A + 1)),
    "Gumbel": (D.Gumbel(t(A), t(B)), stats.gumbel_r(A, B)),
    "Weibull": (D.Weibull(t(A), t(B)), stats.weibull_min(B, scale=A)),
    "Pareto": (D.Pareto(t(A), t(B)), stats.pareto(B, scale=A)),
    "GeneralizedPareto": (D.GeneralizedPareto(t(A), t(B), t([-0.3, 0.0, 0.2])),
                          stats.genpareto([-0.3, 0.0, 0.2], A, B)),
    "VonMises": (D.VonMises(t(A - 2), t(B)), stats.vonmises(B, A - 2)),
}  # fmt: skip
DISCRETE = {
    "Bernoulli": (D.Bernoulli(t(P)), stats.bernoulli(P)),
    "Binomial": (D.Binomial(7, t(P)), stats.binom(7, P)),
    "Poisson": (D.Poisson(t(A)), stats.poisson(A)),
    "Geometric": (D.Geometric(t(P)), stats.geom(P, loc=-1)),
    "NegativeBinomial": (D.NegativeBinomial(t(A), t(P)), stats.nbinom(A, 1 - P)),
}
#: Angles have circular means and variances.
CIRCULAR = {"VonMises"}


def values_of(name: str) -> np.ndarray:
    """Values in the middle of the distributions and in their tails."""
    if name in DISCRETE:
        return np.arange(2 if name == "Bernoulli" else 7)[:, None] * np.ones(3)
    frozen = CONTINUOUS[name][1]
    return np.stack([frozen.ppf(q) for q in (0.001, 0.2, 0.5, 0.9, 0.999)])


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_log_prob(name: str) -> None:
    distribution, frozen = {**CONTINUOUS, **DISCRETE}[name]
    values = values_of(name)
    expected = frozen.logpmf(values) if name in DISCRETE else frozen.logpdf(values)
    np.testing.assert_allclose(distribution.log_prob(t(values)).numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf_and_its_inverse(name: str) -> None:
    distribution, frozen = CONTINUOUS[name]
    if type(distribution).cdf is not D.Distribution.cdf and name not in ("InverseGamma",):
        values = values_of(name)
        np.testing.assert_allclose(distribution.cdf(t(values)).numpy(), frozen.cdf(values), rtol=1e-7, atol=1e-12)
    else:
        with pytest.raises(NotImplementedError):
            D.Distribution.cdf(distribution, t(0.5))
    try:
        found = distribution.icdf(t([0.01, 0.4, 0.97])[:, None])
    except NotImplementedError:
        assert name in ("Gamma", "Chi2", "InverseGamma", "Beta", "StudentT", "FisherSnedecor", "VonMises")
    else:
        expected = np.stack([frozen.ppf(q) for q in (0.01, 0.4, 0.97)])
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_mean_and_variance(name: str) -> None:
    distribution, frozen = {**CONTINUOUS, **DISCRETE}[name]
    if name in CIRCULAR:
        np.testing.assert_allclose(distribution.variance.numpy(), 1 - special.ive(1, B) / special.ive(0, B))
        np.testing.assert_allclose(distribution.mean.numpy(), A - 2)
        return
    with np.errstate(all="ignore"):
        mean, variance = np.broadcast_arrays(*frozen.stats("mv"))
    for ours, expected in ((distribution.mean, mean), (distribution.variance, variance)):
        known = np.isfinite(expected)
        np.testing.assert_allclose(ours.numpy()[known], expected[known], rtol=1e-7)
        assert not np.isfinite(ours.numpy()[~known]).any()
    np.testing.assert_allclose(distribution.stddev.numpy(), np.sqrt(distribution.variance.numpy()))


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_entropy(name: str) -> None:
    distribution, frozen = {**CONTINUOUS, **DISCRETE}[name]
    if name in ("FisherSnedecor", "VonMises", "Poisson", "NegativeBinomial"):
        with pytest.raises(NotImplementedError, match="it is not known as a formula for this distribution"):
            distribution.entropy()
        return
    if name == "GeneralizedPareto":
        expected = np.array([stats.genpareto(c, scale=b).entropy() for c, b in zip((-0.3, 0.0, 0.2), B, strict=True)])
    else:
        expected = frozen.entropy()
    np.testing.assert_allclose(distribution.entropy().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(distribution.perplexity().numpy(), np.exp(expected), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in (*CONTINUOUS, *DISCRETE) if n not in ("Uniform", "Bernoulli")])
def test_mode_is_most_probable(name: str) -> None:
    distribution = {**CONTINUOUS, **DISCRETE}[name][0].expand((3,))
    # Some modes are ends of the support that are not in it.
    distribution._validate_args = False
    mode = distribution.mode
    known = ~torch.isnan(mode)
    at = distribution.log_prob(torch.where(known, mode, t(values_of(name)[1])))
    others = distribution.log_prob(t(values_of(name)))
    # A density without bound has its mode where it is infinite, or not defined by its formula.
    assert ((at + 1e-9 >= others) | ~known | torch.isinf(others) | ~torch.isfinite(at)).all()


def test_exponential_families_agree_with_their_formulas() -> None:
    for name in ("Normal", "Exponential", "Bernoulli", "Gamma"):
        distribution = {**CONTINUOUS, **DISCRETE}[name][0]
        by_gradient = D.ExponentialFamily.entropy(distribution)
        np.testing.assert_allclose(by_gradient.detach().numpy(), distribution.entropy().numpy(), rtol=1e-9)
    with pytest.raises(NotImplementedError):
        D.Poisson(1.0).entropy()


# ------------------------------------------------------------------------------------------- densities on intervals


def test_kumaraswamy() -> None:
    d = D.Kumaraswamy(t(A + 1), t(B + 1))
    x = np.linspace(0.0005, 0.9995, 20001)
    a, b = (A + 1)[:, None], (B + 1)[:, None]
    density = a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)
    far = x > 0.05
    np.testing.assert_allclose(d.log_prob(t(x[far])[:, None]).T.numpy(), np.log(density[:, far]), rtol=1e-6, atol=1e-8)
    mean = np.trapezoid(density * x, x)
    np.testing.assert_allclose(d.mean.numpy(), mean, rtol=1e-3)
    np.testing.assert_allclose(d.variance.numpy(), np.trapezoid(density * x * x, x) - mean**2, rtol=3e-2)
    np.testing.assert_allclose(d.entropy().numpy(), -np.trapezoid(density * np.log(density), x), atol=5e-3)
    np.testing.assert_allclose(d.mode.numpy(), x[density.argmax(1)], atol=1e-3)
    np.testing.assert_allclose(d.cdf(t(0.3)).numpy(), 1 - (1 - 0.3 ** (A + 1)) ** (B + 1), rtol=1e-9)


@pytest.mark.parametrize("p", [0.02, 0.4, 0.4995, 0.5, 0.7, 0.99])
def test_continuous_bernoulli(p: float) -> None:
    d = D.ContinuousBernoulli(t(p))
    x = np.linspace(0, 1, 20001)
    weight = p**x * (1 - p) ** (1 - x)
    density = weight / np.trapezoid(weight, x)
    np.testing.assert_allclose(d.log_prob(t(x)).numpy(), np.log(density), atol=1e-7)
    mean = np.trapezoid(density * x, x)
    assert d.mean.item() == pytest.approx(mean, abs=1e-6)
    assert d.variance.item() == pytest.approx(np.trapezoid(density * (x - mean) ** 2, x), abs=1e-6)
    assert d.stddev.item() == pytest.approx(d.variance.item() ** 0.5)
    assert d.entropy().item() == pytest.approx(-np.trapezoid(density * np.log(density), x), abs=1e-6)
    assert D.ExponentialFamily.entropy(d).item() == pytest.approx(d.entropy().item(), abs=1e-5)
    # Near 1 / 2, the distribution function is that of the uniform distribution.
    assert d.cdf(t(0.3)).item() == pytest.approx(np.trapezoid(density[:6001], x[:6001]), abs=6e-4)
    assert d.icdf(d.cdf(t(0.3))).item() == pytest.approx(0.3, abs=1e-6)
    assert d.cdf(t(0.0)).item() == 0
    assert d.cdf(t(1.0)).item() == 1


# ------------------------------------------------------------------------------------------------------- categories


def test_categorical() -> None:
    p = np.array([[0.2, 0.3, 0.5], [0.7, 0.0, 0.3]])
    for d in (D.Categorical(t(p * 3)), D.Categorical(logits=t(np.log(p + 1e-300)) + 2)):
        np.testing.assert_allclose(d.probs.numpy(), p, atol=1e-12)
        np.testing.assert_allclose(d.log_prob(torch.tensor([[2, 0], [1, 2]])).numpy(),
                                   np.log([[0.5, 0.7], [0.3, 0.3]]), rtol=1e-9)
        np.testing.assert_allclose(d.entropy().numpy(), stats.entropy(p, axis=1), rtol=1e-9)
        assert d.mode.tolist() == [2, 0]
        assert d.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
        assert d.enumerate_support(False).shape == (3, 1)
        assert torch.isnan(d.mean).all()
        assert torch.isnan(d.variance).all()
        assert d.param_shape == (2, 3)


def test_one_hot() -> None:
    p = np.array([0.2, 0.3, 0.5])
    d = D.OneHotCategorical(t(p))
    assert d.enumerate_support().tolist() == np.eye(3).tolist()
    np.testing.assert_allclose(d.log_prob(d.enumerate_support()).exp().numpy(), p)
    np.testing.assert_allclose(d.variance.numpy(), p * (1 - p))
    assert d.mode.tolist() == [0.0, 0.0, 1.0]
    assert d.entropy().item() == pytest.approx(stats.entropy(p))
    assert D.OneHotCategorical(t([p, p])).enumerate_support(False).shape == (3, 1, 3)


def test_multinomial() -> None:
    p = np.array([0.2, 0.3, 0.5])
    d, frozen = D.Multinomial(4, t(p)), stats.multinomial(4, p)
    counts = [[4, 0, 0], [1, 1, 2], [0, 2, 2]]
    np.testing.assert_allclose(d.log_prob(t(counts)).numpy(), frozen.logpmf(counts), rtol=1e-9)
    assert d.entropy().item() == pytest.approx(float(frozen.entropy()), rel=1e-5)
    np.testing.assert_allclose(d.mean.numpy(), 4 * p)
    np.testing.assert_allclose(d.variance.numpy(), 4 * p * (1 - p))
    assert D.Multinomial(2, logits=t([0.0, -math.inf])).log_prob(t([2, 0])).item() == 0
    with pytest.raises(NotImplementedError, match="the number of trials is one int for all"):
        D.Multinomial(torch.tensor([1, 2]), t(p))


def test_binomial_counts() -> None:
    d = D.Binomial(torch.tensor([2, 3]), t([0.5, 0.5]))
    for function in (d.entropy, d.enumerate_support):
        with pytest.raises(NotImplementedError, match="all distributions of the batch have one number of trials"):
            function()
    assert D.Binomial(2, t(P)).enumerate_support().tolist() == [[0.0] * 3, [1.0] * 3, [2.0] * 3]
    assert D.Bernoulli(t(P)).enumerate_support(False).tolist() == [[0.0], [1.0]]
    assert torch.isnan(D.Bernoulli(t(P)).mode).tolist() == [False, True, False]


# ---------------------------------------------------------------------------------------------- vectors and matrices

COVARIANCE = np.array([[2.0, 0.3, -0.4], [0.3, 1.0, 0.2], [-0.4, 0.2, 1.5]])


def test_multivariate_normal() -> None:
    mean, x = np.array([0.5, -1.0, 2.0]), np.array([[0.0, 1.0, 2.0], [1.0, -1.0, 2.5]])
    frozen = stats.multivariate_normal(mean, COVARIANCE)
    made = [D.MultivariateNormal(t(mean), t(COVARIANCE)),
            D.MultivariateNormal(t(mean), precision_matrix=t(np.linalg.inv(COVARIANCE))),
            D.MultivariateNormal(t(mean), scale_tril=t(np.linalg.cholesky(COVARIANCE)))]
    for d in (*made, made[0].expand((2,))):
        np.testing.assert_allclose(d.log_prob(t(x)).numpy(), frozen.logpdf(x), rtol=1e-9)
        np.testing.assert_allclose(d.entropy().numpy(), np.broadcast_to(frozen.entropy(), d.batch_shape), rtol=1e-9)
        for name, expected in (("covariance_matrix", COVARIANCE), ("precision_matrix", np.linalg.inv(COVARIANCE)),
                               ("scale_tril", np.linalg.cholesky(COVARIANCE)), ("variance", np.diag(COVARIANCE)),
                               ("mean", mean), ("mode", mean)):
            found = getattr(d, name).numpy()
            np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=1e-9)
    with pytest.raises(ValueError, match="exactly one of the three matrices is given"):
        D.MultivariateNormal(t(mean))
    with pytest.raises(ValueError, match="loc is at least one-dimensional"):
        D.MultivariateNormal(t(1.0), t(COVARIANCE))
    with pytest.raises(ValueError, match="the matrix is at least two-dimensional"):
        D.MultivariateNormal(t(mean), t(mean))


def test_low_rank_multivariate_normal() -> None:
    mean, factor, diagonal = np.array([0.5, -1.0, 2.0]), np.array([[1.0], [0.5], [-0.3]]), np.array([0.4, 1.0, 0.7])
    covariance = factor @ factor.T + np.diag(diagonal)
    frozen = stats.multivariate_normal(mean, covariance)
    d = D.LowRankMultivariateNormal(t(mean), t(factor), t(diagonal))
    x = np.array([[0.0, 1.0, 2.0], [1.0, -1.0, 2.5]])
    for given in (d, d.expand((2,))):
        np.testing.assert_allclose(given.log_prob(t(x)).numpy(), frozen.logpdf(x), rtol=1e-9)
    assert d.entropy().item() == pytest.approx(float(frozen.entropy()))
    for name, expected in (("covariance_matrix", covariance), ("precision_matrix", np.linalg.inv(covariance)),
                           ("scale_tril", np.linalg.cholesky(covariance)), ("variance", np.diag(covariance))):
        np.testing.assert_allclose(getattr(d, name).numpy(), expected, atol=1e-9)
    with pytest.raises(ValueError, match=r"loc is \[..., n\], cov_factor \[..., n, rank\] and cov_diag \[..., n\]"):
        D.LowRankMultivariateNormal(t(mean), t(factor), t([1.0]))


def test_wishart() -> None:
    scale, df = COVARIANCE[:2, :2], 4.5
    frozen = stats.wishart(df, scale)
    x = np.array([[3.0, 0.5], [0.5, 2.0]])
    for d in (D.Wishart(df, t(scale)), D.Wishart(t(df), precision_matrix=t(np.linalg.inv(scale))),
              D.Wishart(df, scale_tril=t(np.linalg.cholesky(scale)))):
        assert d.log_prob(t(x)).item() == pytest.approx(float(frozen.logpdf(x)))
        assert d.entropy().item() == pytest.approx(float(frozen.entropy()))
        assert D.ExponentialFamily.entropy(d).item() == pytest.approx(float(frozen.entropy()), rel=1e-6)
        np.testing.assert_allclose(d.mean.numpy(), frozen.mean(), rtol=1e-9)
        np.testing.assert_allclose(d.mode.numpy(), frozen.mode(), rtol=1e-9)
        np.testing.assert_allclose(d.variance.numpy(), frozen.var(), rtol=1e-9)
    with pytest.raises(ValueError, match="there are more degrees of freedom than rows less one"):
        D.Wishart(1.0, t(scale))
    with pytest.raises(ValueError, match="exactly one of the three matrices is given"):
        D.Wishart(4.0)
    with pytest.raises(ValueError, match="the matrix is at least two-dimensional"):
        D.Wishart(4.0, t(1.0))


def test_dirichlet() -> None:
    a = np.array([0.7, 1.3, 4.0])
    d, frozen = D.Dirichlet(t(a)), stats.dirichlet(a)
    x = np.array([0.2, 0.3, 0.5])
    assert d.log_prob(t(x)).item() == pytest.approx(frozen.logpdf(x))
    assert d.entropy().item() == pytest.approx(frozen.entropy())
    np.testing.assert_allclose(d.mean.numpy(), frozen.mean())
    np.testing.assert_allclose(d.variance.numpy(), frozen.var())
    np.testing.assert_allclose(D.Dirichlet(t([2.0, 3.0, 4.0])).mode.numpy(), np.array([1, 2, 3]) / 6)
    assert D.Dirichlet(t([0.2, 0.3])).mode.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="the parameter is at least one-dimensional"):
        D.Dirichlet(t(1.0))


def test_lkj_is_uniform_over_correlations_of_two() -> None:
    """With concentration c, the correlation r of two has a density in proportion to (1 - r**2)**(c - 1)."""
    for concentration in (0.7, 1.0, 2.5):
        r = np.linspace(-0.999, 0.999, 7)
        factors = np.zeros((7, 2, 2))
        factors[:, 0, 0], factors[:, 1, 0], factors[:, 1, 1] = 1, r, np.sqrt(1 - r * r)
        found = D.LKJCholesky(2, t(concentration)).log_prob(t(factors)).numpy()
        # Of the factor, whose only free element is r.
        expected = stats.beta(concentration, concentration, loc=-1, scale=2).logpdf(r)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="a correlation matrix has at least two rows"):
        D.LKJCholesky(1)


def test_mixture() -> None:
    weights, x = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.0, 0.7, 3.0])
    d = D.MixtureSameFamily(D.Categorical(t(weights)), D.Normal(t(A), t(B)))
    frozen = stats.norm(A, B)
    np.testing.assert_allclose(d.log_prob(t(x)).exp().numpy(), frozen.pdf(x[:, None]) @ weights, rtol=1e-9)
    np.testing.assert_allclose(d.cdf(t(x)).numpy(), frozen.cdf(x[:, None]) @ weights, rtol=1e-9)
    assert d.mean.item() == pytest.approx(A @ weights)
    assert d.variance.item() == pytest.approx((B**2 + A**2) @ weights - (A @ weights) ** 2)
    with pytest.raises(ValueError, match="the last batch dimension has a component for each category"):
        D.MixtureSameFamily(D.Categorical(t(weights)), D.Normal(t(A[:2]), t(B[:2])))
    with pytest.raises(ValueError, match="a Categorical chooses among the distributions of another one"):
        D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(t(A), t(B)))


def test_relaxed_distributions() -> None:
    """Densities of concrete distributions, as in the paper's formula."""
    temperature, p, x = 0.7, 0.3, np.array([0.1, 0.5, 0.95])
    alpha = p / (1 - p)
    density = temperature * alpha * x ** (-temperature - 1) * (1 - x) ** (-temperature - 1) / (
        alpha * x**-temperature + (1 - x) ** -temperature) ** 2
    found = D.RelaxedBernoulli(t(temperature), t(p)).log_prob(t(x)).exp().numpy()
    np.testing.assert_allclose(found, density, rtol=1e-6)
    weights, y = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.6, 0.3])
    density = 2 * temperature**2 * np.prod(weights * y ** (-temperature - 1)) / np.sum(weights * y**-temperature) ** 3
    d = D.RelaxedOneHotCategorical(t(temperature), t(weights))
    assert d.log_prob(t(y)).exp().item() == pytest.approx(density, rel=1e-6)
    assert d.temperature.item() == temperature
    np.testing.assert_allclose(d.probs.numpy(), weights)
    np.testing.assert_allclose(d.logits.exp().numpy(), weights)


def test_logistic_normal_of_two_is_that_of_log_odds() -> None:
    d, y = D.LogisticNormal(t([0.3]), t([0.8])), np.array([0.2, 0.7])
    expected = stats.norm(0.3, 0.8).logpdf(np.log(y / (1 - y))) - np.log(y * (1 - y))
    np.testing.assert_allclose(d.log_prob(t(np.stack([y, 1 - y], -1))).numpy(), expected, rtol=1e-9)
    assert D.LogisticNormal(0.0, 1.0).event_shape == (2,)
    assert (d.loc.item(), d.scale.item()) == (0.3, 0.8)
