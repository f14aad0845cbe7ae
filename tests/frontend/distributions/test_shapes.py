"""Shapes, expansion, checks of arguments and values, names, properties of the base class."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any, ClassVar

import pytest

import tensocket as torch
from tensocket import distributions as D
from tensocket.distributions import constraints
from tensocket.distributions.utils import broadcast_all, tril_matrix_to_vec, vec_to_tril_matrix


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64) + 0.5


def unit(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1


EYE = torch.eye(2, dtype=torch.float64)
#: A batch of three of each.
MADE = [
    D.Bernoulli(unit(3)), D.Beta(positive(3), positive(3)), D.Binomial(5, unit(3)), D.Categorical(positive(3, 4)),
    D.Cauchy(positive(3), positive(3)), D.Chi2(positive(3)), D.ContinuousBernoulli(unit(3)),
    D.Dirichlet(positive(3, 4)),
    D.Exponential(positive(3)), D.FisherSnedecor(positive(3), positive(3)), D.Gamma(positive(3), positive(3)),
    D.GeneralizedPareto(positive(3), positive(3), positive(3)), D.Geometric(unit(3)),
    D.Gumbel(positive(3), positive(3)),
    D.HalfCauchy(positive(3)), D.HalfNormal(positive(3)), D.Independent(D.Normal(positive(3, 2), positive(3, 2)), 1),
    D.InverseGamma(positive(3), positive(3)), D.Kumaraswamy(positive(3), positive(3)), D.LKJCholesky(3, positive(3)),
    D.Laplace(positive(3), positive(3)), D.LogNormal(positive(3), positive(3)),
    D.LogisticNormal(positive(3, 2), positive(3, 2)),
    D.LowRankMultivariateNormal(positive(3, 2), positive(3, 2, 1), positive(3, 2)),
    D.MixtureSameFamily(D.Categorical(positive(3, 4)), D.Normal(positive(3, 4), positive(3, 4))),
    D.Multinomial(4, positive(3, 4)), D.MultivariateNormal(positive(3, 2), EYE),
    D.MultivariateNormal(positive(3, 2), precision_matrix=EYE), D.NegativeBinomial(positive(3), unit(3)),
    D.Normal(positive(3), positive(3)), D.OneHotCategorical(positive(3, 4)),
    D.OneHotCategoricalStraightThrough(logits=positive(3, 4)), D.Pareto(positive(3), positive(3)),
    D.Poisson(positive(3)), D.RelaxedBernoulli(torch.tensor(0.5, dtype=torch.float64), unit(3)),
    D.RelaxedOneHotCategorical(torch.tensor(0.5, dtype=torch.float64), positive(3, 4)),
    D.StudentT(positive(3), positive(3), positive(3)),
    D.TransformedDistribution(D.Normal(positive(3), positive(3)), [D.TanhTransform()]),
    D.Uniform(-positive(3), positive(3)), D.VonMises(positive(3), positive(3)), D.Weibull(positive(3), positive(3)),
    D.Wishart(positive(3) + 2, EYE),
]  # fmt: skip
IDS = [type(d).__name__ for d in MADE]


def test_every_class_is_here() -> None:
    classes = {getattr(D, name) for name in D.__all__ if isinstance(getattr(D, name), type)}
    wanted = {c for c in classes if issubclass(c, D.Distribution)} - {D.Distribution, D.ExponentialFamily}
    assert {type(d) for d in MADE} == wanted


@pytest.mark.parametrize("d", MADE, ids=IDS)
def test_shapes_of_samples_and_probabilities(d: D.Distribution) -> None:
    assert d.batch_shape == (3,)
    for shape in ((), (2,), (2, 1)):
        drawn = d.sample(shape)
        assert drawn.shape == (*shape, *d.batch_shape, *d.event_shape)
        assert d.log_prob(drawn).shape == (*shape, 3)
        assert drawn.dtype in (torch.float64, torch.int64)
    for name in ("mean", "mode", "variance", "stddev"):
        try:
            assert getattr(d, name).shape[:1] == (3,)
        except NotImplementedError:
            assert type(d).__name__ in {
                "ContinuousBernoulli", "Independent", "LKJCholesky", "LogisticNormal", "Multinomial",
                "RelaxedBernoulli", "RelaxedOneHotCategorical", "TransformedDistribution", "MixtureSameFamily"}


@pytest.mark.parametrize("d", MADE, ids=IDS)
def test_expansion(d: D.Distribution) -> None:
    wide = d.expand((5, 3))
    assert type(wide) is type(d)
    assert (wide.batch_shape, wide.event_shape) == ((5, 3), d.event_shape)
    drawn = wide.sample((2,))
    assert drawn.shape == (2, 5, 3, *d.event_shape)
    expected = d.log_prob(drawn)
    assert (wide.log_prob(drawn) - expected).abs().max().item() < 1e-9 * (1 + expected.abs().max().item())
    assert wide.expand((4, 5, 3)).sample().shape == (4, 5, 3, *d.event_shape)
    with contextlib.suppress(NotImplementedError):
        assert wide.entropy().shape == (5, 3)


@pytest.mark.parametrize("d", MADE, ids=IDS)
def test_samples_are_in_the_support(d: D.Distribution) -> None:
    drawn = d.sample((20,))
    assert d.support.check(drawn).all()
    assert d.support.event_dim == len(d.event_shape)
    assert isinstance(d.support.is_discrete, bool)
    if d.has_enumerate_support:
        values = d.enumerate_support()
        assert values.shape[1:] == (3, *d.event_shape)
        assert torch.isclose(d.log_prob(values).exp().sum(0), torch.ones(3, dtype=torch.float64)).all()


@pytest.mark.parametrize("d", MADE, ids=IDS)
def test_copies(d: D.Distribution) -> None:
    drawn = d.sample()
    for copied in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert torch.equal(copied.log_prob(drawn), d.log_prob(drawn))


def test_numbers_make_scalars() -> None:
    assert D.Normal(0, 1).batch_shape == ()
    assert D.Normal(0, 1).sample().dtype is torch.float32
    assert D.Gumbel(0.0, 1.0).sample((2,)).shape == (2,)
    mixed = D.Normal(torch.zeros(2, dtype=torch.float64), 1)
    assert mixed.scale.dtype is torch.float64
    assert mixed.batch_shape == (2,)
    with pytest.raises(ValueError, match="parameters are tensors or numbers"):
        broadcast_all("one", 1.0)
    with pytest.raises(RuntimeError):
        D.Normal(torch.zeros(2), torch.ones(3))


def test_objects_that_override_functions_are_broadcast_by_themselves() -> None:
    class Held:
        def __init__(self, held: torch.Tensor) -> None:
            self.held = held

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            made = func(*(x.held if isinstance(x, Held) else x for x in args), **(kwargs or {}))
            return tuple(map(cls, made))

    shape = broadcast_all(Held(torch.zeros(3)), torch.ones(()))
    assert [type(x) for x in shape] == [Held, Held]
    assert shape[1].held.tolist() == [1.0, 1.0, 1.0]


def test_text() -> None:
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    independent = D.Independent(D.Normal(torch.zeros(2), torch.ones(2)), 1)
    assert repr(independent) == "Independent(Normal(loc: tensocket.Size([2]), scale: tensocket.Size([2])), 1)"
    mixture = D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.zeros(2), torch.ones(2)))
    assert repr(mixture).startswith("MixtureSameFamily(\n  Categorical(probs")
    assert repr(D.Multinomial(2, torch.ones(2))) == "Multinomial()"


# ------------------------------------------------------------------------------------------------------------ checks


def test_parameters_are_checked() -> None:
    for make in (lambda: D.Normal(0.0, -1.0), lambda: D.Gamma(0.0, 1.0), lambda: D.Bernoulli(1.5),
                 lambda: D.Uniform(1.0, 0.0), lambda: D.Normal(torch.tensor(float("nan")), 1.0),
                 lambda: D.MultivariateNormal(torch.zeros(2), -torch.eye(2)),
                 lambda: D.Binomial(2.5, torch.tensor(0.5))):
        with pytest.raises(ValueError, match="satisfies the constraint"):
            make()
    with pytest.raises(ValueError, match="parameter scale satisfies the constraint GreaterThan"):
        D.Normal(0.0, -1.0)
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    with pytest.raises(ValueError, match="either `probs` or `logits` is specified, but not both"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="either `probs` or `logits` is specified, but not both"):
        D.Categorical(torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="the parameter is at least one-dimensional"):
        D.Categorical(torch.tensor(1.0))
    with pytest.raises(ValueError, match="a success has a positive probability"):
        D.Geometric(0.0)
    with pytest.raises(ValueError, match="there are so many batch dimensions"):
        D.Independent(D.Normal(0.0, 1.0), 1)


def test_values_are_checked() -> None:
    d = D.Exponential(torch.ones(2))
    with pytest.raises(ValueError, match="values are in the support GreaterThanEq"):
        d.log_prob(torch.tensor(-1.0))
    with pytest.raises(ValueError, match="the value is a tensor"):
        d.log_prob(1.0)
    with pytest.raises(ValueError, match=r"it broadcasts with batch and event shape \(2,\)"):
        d.log_prob(torch.ones(3))
    with pytest.raises(ValueError, match="values are in the support"):
        D.Categorical(torch.ones(3)).log_prob(torch.tensor(5))
    assert D.Exponential(torch.ones(2), validate_args=False).log_prob(torch.tensor(-1.0)).tolist() == [1.0, 1.0]
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(torch.tensor(2.0)).item() == -torch.inf

    class Bare(D.Distribution):
        arg_constraints: ClassVar[dict[str, Any]] = {}

        def log_prob(self, value: Any) -> Any:
            self._validate_sample(value)
            return value

    with pytest.warns(UserWarning, match="does not define `support`"):
        Bare().log_prob(torch.tensor(1.0))


def test_default_of_checks() -> None:
    before = D.Distribution._validate_args
    try:
        D.Distribution.set_default_validate_args(False)
        assert D.Normal(0.0, -1.0).scale.item() == -1
        assert not D.Normal(0.0, 1.0)._validate_args
    finally:
        D.Distribution.set_default_validate_args(before)
    with pytest.raises(ValueError, match="the default is True or False"):
        D.Distribution.set_default_validate_args(3)


def test_base_class() -> None:
    d = D.Distribution(validate_args=False)
    for name in ("mean", "mode", "variance"):
        with pytest.raises(NotImplementedError, match="it is not known as a formula for this distribution"):
            getattr(d, name)
    for name in ("log_prob", "cdf", "icdf"):
        with pytest.raises(NotImplementedError):
            getattr(d, name)(torch.tensor(0.5))
    for name in ("rsample", "enumerate_support", "entropy"):
        with pytest.raises(NotImplementedError):
            getattr(d, name)()
    family = D.ExponentialFamily(validate_args=False)
    for call in (lambda: family._natural_params, lambda: family._log_normalizer(),
                 lambda: family._mean_carrier_measure):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.warns(UserWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)
    assert D.Independent(D.Bernoulli(unit(3)), 0).has_enumerate_support
    with pytest.raises(NotImplementedError):
        D.Independent(D.Bernoulli(unit(3)), 1).enumerate_support()


def test_transformed_distribution() -> None:
    base = D.Normal(positive(3), positive(3))
    double = D.TransformedDistribution(base, [D.ExpTransform(), D.AffineTransform(1.0, -2.0)])
    value = torch.tensor([-1.0, 0.0, 0.5], dtype=torch.float64)
    inner = (1 - value) / 2
    expected = base.log_prob(inner.log()) - inner.log() - torch.tensor(2.0).log()
    assert torch.allclose(double.log_prob(value), expected)
    # The transform falls.
    assert torch.allclose(double.cdf(value), 1 - base.cdf(inner.log()))
    assert torch.allclose(double.cdf(double.icdf(torch.tensor(0.3, dtype=torch.float64))),
                          torch.full((3,), 0.3, dtype=torch.float64))
    assert repr(double) == "TransformedDistribution()"
    assert D.TransformedDistribution(base, []).support is constraints.real
    broken = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(torch.zeros(4), torch.ones(4)))
    assert broken.batch_shape == (4,)
    stick = D.TransformedDistribution(base, D.StickBreakingTransform())
    assert (stick.batch_shape, stick.event_shape) == ((), (4,))
    with pytest.raises(ValueError, match="transforms is a Transform or a list of them"):
        D.TransformedDistribution(base, ["exp"])
    with pytest.raises(ValueError, match="it has at least 1 dimensions"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())


def test_triangles() -> None:
    matrix = torch.arange(1.0, 10.0).reshape(3, 3)
    for diagonal, expected in ((0, [1, 4, 5, 7, 8, 9]), (-1, [4, 7, 8]), (1, [1, 2, 4, 5, 6, 7, 8, 9])):
        packed = tril_matrix_to_vec(matrix, diagonal)
        assert packed.tolist() == expected
        assert torch.equal(vec_to_tril_matrix(packed, diagonal), matrix.tril(diagonal))
    assert vec_to_tril_matrix(torch.ones(2, 3)).shape == (2, 2, 2)
    with pytest.raises(ValueError, match="a diagonal lies within the matrix"):
        tril_matrix_to_vec(matrix, 3)
    with pytest.raises(ValueError, match="a triangle has so many elements as its rows together"):
        vec_to_tril_matrix(torch.ones(4))


def test_gradients_of_parameters() -> None:
    logits = torch.zeros(2, requires_grad=True)
    D.Bernoulli(logits=logits).probs.sum().backward()
    assert logits.grad.tolist() == [0.25, 0.25]
    d = D.Bernoulli(logits=logits)
    with torch.no_grad():
        assert d.probs.requires_grad


def test_a_class_states_its_parameters() -> None:
    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="Bare does not define `arg_constraints`"):
        made = Bare()
    for name in ("arg_constraints", "support"):
        with pytest.raises(NotImplementedError, match=f"Bare does not define {name}"):
            getattr(made, name)
    Bare(validate_args=False)


def test_probabilities_are_computed_when_they_are_asked_for() -> None:
    d = D.Bernoulli(logits=torch.zeros(2))
    assert d.enumerate_support().shape == (2, 2)
    assert "probs" not in d.__dict__


def test_probabilities_are_checked_before_they_are_clamped() -> None:
    for wrong in (1.1, -1.0):
        with pytest.raises(ValueError, match="parameter probs satisfies the constraint"):
            D.ContinuousBernoulli(torch.tensor([wrong, 0.2]))
    assert D.ContinuousBernoulli(torch.tensor([1.1]), validate_args=False).probs.item() < 1
