"""Samples: their distribution, shapes, gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import tensocket as torch
from tensocket import distributions as D
from tensocket.distributions.pathwise import gamma_gradient, standard_gamma
from tensocket.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

COUNT = 4000


def t(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64).tolist(), dtype=torch.float64)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(11)


CONTINUOUS = {
    "Normal": (D.Normal(0.5, 2.0), stats.norm(0.5, 2)),
    "LogNormal": (D.LogNormal(0.5, 0.4), stats.lognorm(0.4, scale=math.exp(0.5))),
    "Uniform": (D.Uniform(-1.0, 3.0), stats.uniform(-1, 4)),
    "Gamma": (D.Gamma(2.5, 0.7), stats.gamma(2.5, scale=1 / 0.7)),
    "Gamma below 1": (D.Gamma(0.3, 1.0), stats.gamma(0.3)),
    "Chi2": (D.Chi2(torch.tensor(3.0)), stats.chi2(3)),
    "InverseGamma": (D.InverseGamma(2.0, 1.5), stats.invgamma(2, scale=1.5)),
    "Beta": (D.Beta(0.6, 2.0), stats.beta(0.6, 2)),
    "Exponential": (D.Exponential(0.4), stats.expon(scale=2.5)),
    "Laplace": (D.Laplace(1.0, 2.0), stats.laplace(1, 2)),
    "Cauchy": (D.Cauchy(1.0, 2.0), stats.cauchy(1, 2)),
    "HalfNormal": (D.HalfNormal(2.0), stats.halfnorm(scale=2)),
    "HalfCauchy": (D.HalfCauchy(2.0), stats.halfcauchy(scale=2)),
    "StudentT": (D.StudentT(3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "FisherSnedecor": (D.FisherSnedecor(3.0, 5.0), stats.f(3, 5)),
    "Gumbel": (D.Gumbel(1.0, 2.0), stats.gumbel_r(1, 2)),
    "Weibull": (D.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2)),
    "Pareto": (D.Pareto(1.0, 3.0), stats.pareto(3)),
    "GeneralizedPareto": (D.GeneralizedPareto(1.0, 2.0, 0.1), stats.genpareto(0.1, 1, 2)),
    "VonMises": (D.VonMises(torch.tensor(0.5), torch.tensor(1.7)), stats.vonmises(1.7, 0.5)),
}
DISCRETE = {
    "Bernoulli": (D.Bernoulli(0.3), stats.bernoulli(0.3)),
    "Binomial": (D.Binomial(9, torch.tensor(0.4)), stats.binom(9, 0.4)),
    "Poisson": (D.Poisson(3.5), stats.poisson(3.5)),
    "Geometric": (D.Geometric(0.4), stats.geom(0.4, loc=-1)),
    "NegativeBinomial": (D.NegativeBinomial(3.0, torch.tensor(0.6)), stats.nbinom(3, 0.4)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_samples_follow_the_distribution(name: str) -> None:
    distribution, frozen = CONTINUOUS[name]
    drawn = distribution.sample((COUNT,)).double().numpy()
    assert drawn.shape == (COUNT,)
    cdf = frozen.cdf(drawn)
    if name == "VonMises":
        cdf = frozen.cdf(drawn) - frozen.cdf(-math.pi)
    assert stats.kstest(cdf, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_samples_follow_the_distribution(name: str) -> None:
    distribution, frozen = DISCRETE[name]
    drawn = distribution.sample((COUNT,)).double().numpy()
    top = int(frozen.ppf(0.99)) if name != "Bernoulli" else 1
    observed = np.bincount(np.minimum(drawn, top).astype(int), minlength=top + 1)
    expected = frozen.pmf(np.arange(top + 1))
    expected[-1] = 1 - expected[:-1].sum()
    assert stats.chisquare(observed, expected * COUNT).pvalue > 1e-4


def test_categories_follow_the_probabilities() -> None:
    p = np.array([0.2, 0.3, 0.5])
    drawn = D.Categorical(t([p, p[::-1].copy()])).sample((COUNT,))
    for row, expected in ((0, p), (1, p[::-1])):
        observed = np.bincount(drawn[:, row].numpy(), minlength=3)
        assert stats.chisquare(observed, expected * COUNT).pvalue > 1e-4
    counts = D.Multinomial(5, t(p)).sample((COUNT,))
    assert (counts.sum(-1) == 5).all()
    np.testing.assert_allclose(counts.mean(0).numpy(), 5 * p, atol=0.1)
    np.testing.assert_allclose(D.OneHotCategorical(t(p)).sample((COUNT,)).mean(0).numpy(), p, atol=0.04)


def test_vectors_have_their_moments() -> None:
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    full = D.MultivariateNormal(t([1.0, -1.0]), t(covariance))
    low = D.LowRankMultivariateNormal(t([1.0, -1.0]), t([[1.0], [0.5]]), t([0.5, 0.3]))
    for d in (full, low):
        drawn = d.sample((COUNT,)).numpy()
        np.testing.assert_allclose(drawn.mean(0), [1, -1], atol=0.1)
        np.testing.assert_allclose(np.cov(drawn.T), d.covariance_matrix.numpy(), atol=0.2)
    dirichlet = D.Dirichlet(t([0.5, 1.0, 3.0])).sample((COUNT,)).numpy()
    np.testing.assert_allclose(dirichlet.sum(1), 1, rtol=1e-12)
    for k, (a, b) in enumerate([(0.5, 4.0), (1.0, 3.5), (3.0, 1.5)]):
        assert stats.kstest(dirichlet[:, k], stats.beta(a, b).cdf).pvalue > 1e-4
    wishart = D.Wishart(t(4.0), t(covariance)).sample((COUNT,)).numpy()
    np.testing.assert_allclose(wishart.mean(0), 4 * covariance, atol=0.4)
    factors = D.LKJCholesky(3, t(1.5)).sample((COUNT,))
    matrices = (factors @ factors.mT).numpy()
    np.testing.assert_allclose(matrices[:, [0, 1, 2], [0, 1, 2]], 1, atol=1e-9)
    # Each correlation of three has a beta distribution on (-1, 1) with both parameters c + 1 / 2.
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert stats.kstest(matrices[:, i, j], stats.beta(2, 2, loc=-1, scale=2).cdf).pvalue > 1e-4


def test_mixtures_and_relaxed_ones() -> None:
    mixture = D.MixtureSameFamily(D.Categorical(t([0.3, 0.7])), D.Normal(t([-3.0, 2.0]), t([0.5, 1.0])))
    drawn = mixture.sample((COUNT,)).numpy()
    assert stats.kstest(drawn, lambda x: mixture.cdf(t(x)).numpy()).pvalue > 1e-4
    vectors = D.MixtureSameFamily(D.Categorical(t([[0.3, 0.7]] * 4)),
                                  D.Independent(D.Normal(t(np.zeros((4, 2, 3))), t(np.ones((4, 2, 3)))), 1))
    assert vectors.sample((5,)).shape == (5, 4, 3)
    relaxed = D.RelaxedBernoulli(torch.tensor(0.1), torch.tensor(0.3)).sample((COUNT,))
    assert (relaxed > 0.5).double().mean().item() == pytest.approx(0.3, abs=0.04)
    logits = LogitRelaxedBernoulli(torch.tensor(0.5), logits=torch.tensor(0.4))
    assert stats.kstest(logits.sample((COUNT,)).double().numpy(), stats.logistic(0.8, 2).cdf).pvalue > 1e-4
    soft = D.RelaxedOneHotCategorical(torch.tensor(0.1), t([0.2, 0.3, 0.5])).sample((COUNT,))
    np.testing.assert_allclose(np.bincount(soft.argmax(-1).numpy()) / COUNT, [0.2, 0.3, 0.5], atol=0.04)
    assert D.LogisticNormal(t([0.0, 1.0]), t([1.0, 1.0])).sample((3,)).sum(-1).tolist() == pytest.approx([1.0] * 3)
    kumaraswamy = D.Kumaraswamy(t(1.5), t(2.5))
    assert stats.kstest(kumaraswamy.sample((COUNT,)).numpy(), lambda x: 1 - (1 - x**1.5) ** 2.5).pvalue > 1e-4
    bernoulli = D.ContinuousBernoulli(t(0.2))
    assert stats.kstest(bernoulli.sample((COUNT,)).numpy(), lambda x: bernoulli.cdf(t(x)).numpy()).pvalue > 1e-4


# --------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 3.0, 50.0, 199.0, 201.0, 5000.0])
def test_gradient_of_gamma_numbers(a: float) -> None:
    """dz/da at a fixed quantile, by central differences of SciPy's quantiles."""
    quantiles = np.array([0.02, 0.3, 0.7, 0.98])
    z = special.gammaincinv(a, quantiles)
    keep = z > 1e-200
    step = 1e-5 * a
    expected = (special.gammaincinv(a + step, quantiles) - special.gammaincinv(a - step, quantiles)) / (2 * step)
    found = gamma_gradient(t(np.full(4, a)), t(np.where(keep, z, 1.0))).numpy()
    np.testing.assert_allclose(found[keep], expected[keep], rtol=2e-5)


def test_gamma_numbers_pass_gradients() -> None:
    a = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    drawn = standard_gamma(a.expand((20000, 2)))
    # E z = a and E z**2 = a + a**2.
    (slope,) = torch.autograd.grad((drawn.mean(0) + drawn.square().mean(0)).sum(), a)
    np.testing.assert_allclose(slope.numpy(), 1 + 1 + 2 * a.detach().numpy(), rtol=0.08)
    assert torch.tensor(2.0).dtype is standard_gamma(torch.tensor(2.0)).dtype


PATHWISE = {
    "Normal": lambda p: D.Normal(p[0], p[1]), "Laplace": lambda p: D.Laplace(p[0], p[1]),
    "Gumbel": lambda p: D.Gumbel(p[0], p[1]), "Gamma": lambda p: D.Gamma(p[0], p[1]),
    "Beta": lambda p: D.Beta(p[0], p[1]), "Weibull": lambda p: D.Weibull(p[0], p[1]),
    "Uniform": lambda p: D.Uniform(-p[0], p[1]), "Exponential": lambda p: D.Exponential(p[0]),
    "LogNormal": lambda p: D.LogNormal(p[0], p[1] * 0.2), "Kumaraswamy": lambda p: D.Kumaraswamy(p[0], p[1]),
    "InverseGamma": lambda p: D.InverseGamma(p[0] + 4, p[1]), "HalfNormal": lambda p: D.HalfNormal(p[0]),
    "FisherSnedecor": lambda p: D.FisherSnedecor(p[0], p[1] + 9), "ContinuousBernoulli":
    lambda p: D.ContinuousBernoulli(logits=p[0]), "Dirichlet": lambda p: D.Dirichlet(p),
}  # fmt: skip


@pytest.mark.parametrize("name", PATHWISE)
def test_gradients_of_samples_are_those_of_means(name: str) -> None:
    """The mean of samples changes with the parameters as the mean does."""
    p = torch.tensor([1.5, 2.0], dtype=torch.float64, requires_grad=True)
    distribution = PATHWISE[name](p)
    assert distribution.has_rsample
    weight = t([1.0, 3.0]) if name == "Dirichlet" else 1.0
    by_samples = torch.autograd.grad((distribution.rsample((8000,)).mean(0) * weight).sum(), p, retain_graph=True)[0]
    exact = torch.autograd.grad((PATHWISE[name](p).mean * weight).sum(), p)[0]
    np.testing.assert_allclose(by_samples.numpy(), exact.numpy(), atol=0.05 * max(1.0, exact.abs().max().item()))


@pytest.mark.parametrize(("a", "b"), [(0.01, 0.01), (0.1, 10.0), (1.0, 1.0), (10.0, 0.1), (100.0, 100.0)])
def test_gradients_of_beta_numbers_keep_their_place_in_the_distribution(a: float, b: float) -> None:
    first = torch.full((30,), a, requires_grad=True)
    x = D.Beta(first, torch.full((30,), b)).rsample()
    (found,) = torch.autograd.grad(x.sum(), first)
    place, step = x.detach().double().numpy(), 0.003 * a / (1 + a**0.5)
    moved = stats.beta.cdf(place, a + step, b) - stats.beta.cdf(place, a - step, b)
    np.testing.assert_allclose(found.numpy(), -moved / (2 * step) / stats.beta.pdf(place, a, b), rtol=2e-3)


def test_beta_numbers_of_small_shapes_do_not_meet_in_the_middle() -> None:
    """Both gamma numbers would be too small for float32."""
    shape = torch.tensor(0.01)
    x = D.Beta(shape, shape).sample((20000,)).numpy()
    assert 0.45 < (x < 0.1).mean() < 0.55
    assert 0.45 < (x > 0.9).mean() < 0.55


def test_gradients_of_vectors() -> None:
    factor = t(np.linalg.cholesky([[2.0, 0.6], [0.6, 1.0]])).requires_grad_()
    drawn = D.MultivariateNormal(t([0.0, 0.0]), scale_tril=factor).rsample((COUNT,))
    (slope,) = torch.autograd.grad(drawn.square().mean(0).sum(), factor)
    np.testing.assert_allclose(slope.tril().numpy(), 2 * factor.detach().numpy(), atol=0.2)
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    sample = D.OneHotCategoricalStraightThrough(logits=logits).rsample((2,))
    np.testing.assert_allclose(sample.detach().sum(-1).numpy(), 1)
    assert set(sample.detach().round().flatten().tolist()) == {0.0, 1.0}
    (slope,) = torch.autograd.grad(sample[:, 0].sum(), logits)
    np.testing.assert_allclose(slope.numpy(), [2 * 2 / 9, -2 / 9, -2 / 9], rtol=1e-9)


def test_samples_without_gradients_have_no_history() -> None:
    loc = torch.zeros(2, requires_grad=True)
    assert not D.Normal(loc, 1.0).sample().requires_grad
    assert D.Normal(loc, 1.0).rsample().requires_grad
    assert not D.Bernoulli(logits=loc).sample().requires_grad
    for d in (D.Poisson(1.0), D.Categorical(torch.ones(2)), D.VonMises(torch.tensor(0.0), torch.tensor(1.0))):
        assert not d.has_rsample
        with pytest.raises(NotImplementedError):
            d.rsample()


def test_seeds_repeat_samples() -> None:
    for make in (lambda: D.Normal(0.0, 1.0), lambda: D.Gamma(0.4, 1.0), lambda: D.Poisson(4.0)):
        torch.manual_seed(3)
        first = make().sample((5,))
        torch.manual_seed(3)
        assert make().sample((5,)).tolist() == first.tolist()


def test_matrices_that_rounding_makes_singular_are_drawn_again() -> None:
    d = D.Wishart(torch.tensor(2.1), covariance_matrix=torch.eye(3))
    drawn = d.sample((2000,))
    before, after = [int((np.linalg.eigvalsh(x.double().numpy()) <= 0).sum()) for x in (d._bartlett((2000,)), drawn)]
    assert before > 100
    assert after < before / 2  # those that rounding of eigenvalues decides
    assert D.constraints.positive_definite.check(drawn).all()
    assert torch.isfinite(d.log_prob(drawn)).all()
    assert D.Wishart(torch.tensor(9.0), torch.eye(2)).rsample((3,), max_try_correction=0).shape == (3, 2, 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_samples_of_low_precision_have_the_probabilities_of_their_distribution(dtype: torch.dtype) -> None:
    samples = D.Geometric(torch.tensor(0.25, dtype=dtype)).sample((100_000,))
    assert samples.dtype is dtype
    found = np.bincount(samples.int().numpy(), minlength=16)[:16]
    expected = 100_000 * 0.25 * 0.75 ** np.arange(16)
    assert ((found - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-6, 16)
