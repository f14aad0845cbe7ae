"""Transforms: inverses, determinants against numerical Jacobians, shapes, composition, constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import distributions as D
from tensocket.distributions import constraints as C
from tensocket.distributions.constraint_registry import ConstraintRegistry
from tensocket.distributions.transforms import identity_transform


def t(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64).tolist(), dtype=torch.float64)


REAL = t([-1.3, -0.2, 0.4, 1.7])
POSITIVE = t([0.2, 0.7, 1.1, 2.5])
#: One-to-one transforms with values of their domain.
BIJECTIVE = {
    "exp": (D.ExpTransform(), REAL), "log": (D.ExpTransform().inv, POSITIVE),
    "power": (D.PowerTransform(2.5), POSITIVE),
    "reciprocal": (D.PowerTransform(t(-1.0)), POSITIVE), "sigmoid": (D.SigmoidTransform(), REAL),
    "softplus": (D.SoftplusTransform(), REAL), "tanh": (D.TanhTransform(), REAL),
    "affine": (D.AffineTransform(1.0, -2.0), REAL), "affine of tensors": (D.AffineTransform(POSITIVE, POSITIVE), REAL),
    "affine vector": (D.AffineTransform(1.0, POSITIVE, event_dim=1), REAL),
    "affine number vector": (D.AffineTransform(1.0, 3.0, event_dim=1), REAL),
    "stick": (D.StickBreakingTransform(), REAL), "corr": (D.CorrCholeskyTransform(), t([0.3, -0.4, 1.1])),
    "cdf": (D.CumulativeDistributionTransform(D.Normal(t(0.5), t(2.0))), REAL),
    "compose": (D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0), D.PowerTransform(0.5)]), REAL),
    "compose with stick": (D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.StickBreakingTransform()]), REAL),
    "independent": (D.IndependentTransform(D.ExpTransform(), 1), REAL),
    "cat": (D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 3.0)], dim=0, lengths=[3, 1]), REAL),
    "stack": (D.StackTransform([D.ExpTransform(), D.TanhTransform()], dim=0), REAL.reshape(2, 2)),
    "reshape": (D.ReshapeTransform((4,), (2, 2)), REAL), "identity": (identity_transform, REAL),
}  # fmt: skip


def coordinates(name: str, y: torch.Tensor) -> torch.Tensor:
    """Free coordinates of a result: those that determine the others."""
    if "stick" in name:
        return y[..., :-1]
    if name == "corr":
        return y[torch.tensor([1, 2, 2]), torch.tensor([0, 0, 1])]
    return y


@pytest.mark.parametrize("name", BIJECTIVE)
def test_inverse_and_determinant(name: str) -> None:
    transform, x = BIJECTIVE[name]
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-7, atol=1e-9)
    assert transform.codomain.check(y).all()
    assert transform.domain.check(x).all()
    assert transform.forward_shape(tuple(x.shape)) == tuple(y.shape)
    assert transform.inverse_shape(tuple(y.shape)) == tuple(x.shape)
    jacobian = torch.autograd.functional.jacobian(lambda v: coordinates(name, transform(v)), x)
    matrix = jacobian.reshape(x.numel(), x.numel()).numpy()
    found = transform.log_abs_det_jacobian(x, y)
    dims = transform.domain.event_dim
    assert found.dim() == x.dim() - dims
    np.testing.assert_allclose(found.sum().item(), np.linalg.slogdet(matrix)[1], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x).numpy(), -found.numpy())


@pytest.mark.parametrize("name", BIJECTIVE)
def test_properties(name: str) -> None:
    transform, x = BIJECTIVE[name]
    assert transform.bijective
    assert transform.inv.inv is transform or name.startswith("compose") or name == "identity"
    assert transform.inv.bijective
    cached = transform.with_cache(1)
    given = x.clone()
    assert cached.with_cache(1) is cached
    assert cached.inv(cached(given)) is given or name in ("identity", "log") or name.startswith(("cat", "stack"))
    try:
        sign = torch.as_tensor(transform.sign)
    except NotImplementedError:
        assert name in ("stick", "corr", "cat", "stack", "reshape", "compose with stick")
    else:
        rises = transform(x + 1e-6) > transform(x)
        assert ((sign > 0) == rises).all()


def test_transforms_that_are_not_one_to_one() -> None:
    x = t([[0.3, -1.0, 0.7], [1.0, 2.0, -0.5], [0.1, 0.2, 0.3]])
    softmax = D.SoftmaxTransform()
    np.testing.assert_allclose(softmax(x).sum(-1).numpy(), 1)
    np.testing.assert_allclose(softmax(softmax.inv(softmax(x))).numpy(), softmax(x).numpy())
    assert D.AbsTransform()(x).tolist() == x.abs().tolist()
    factor = D.LowerCholeskyTransform()(x)
    assert C.lower_cholesky.check(factor)
    np.testing.assert_allclose(D.LowerCholeskyTransform().inv(factor).numpy(), np.tril(x.numpy()))
    matrix = D.PositiveDefiniteTransform()(x)
    assert C.positive_definite.check(matrix)
    np.testing.assert_allclose(D.PositiveDefiniteTransform().inv(matrix).numpy(), np.tril(x.numpy()), atol=1e-9)
    for transform in (softmax, D.AbsTransform()):
        assert not transform.bijective
        with pytest.raises(NotImplementedError, match="the transform defines it"):
            transform.log_abs_det_jacobian(x, x)


def test_equality_and_text() -> None:
    assert D.ExpTransform() == D.ExpTransform()
    assert D.ExpTransform() != D.TanhTransform()
    assert D.AffineTransform(0.0, t(2.0)) == D.AffineTransform(0.0, 2.0)
    assert D.AffineTransform(0.0, 1.0) != D.AffineTransform(0.0, 2.0)
    assert D.PowerTransform(2.0) == D.PowerTransform(t(2.0))
    assert D.ExpTransform().inv == D.ExpTransform().inv
    assert D.ComposeTransform([D.ExpTransform()]) == D.ComposeTransform([D.ExpTransform()])
    assert len({D.ExpTransform(), D.ExpTransform()}) == 2
    assert repr(D.SigmoidTransform().inv) == "_InverseTransform(SigmoidTransform())"
    assert repr(D.ComposeTransform([D.ExpTransform(), D.TanhTransform()])) == (
        "ComposeTransform(\n    ExpTransform(),\n    TanhTransform()\n)")
    assert repr(D.IndependentTransform(D.ExpTransform(), 1)) == "IndependentTransform(ExpTransform(), 1)"


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="the cache holds no pair or one"):
        D.ExpTransform(cache_size=2)
    with pytest.raises(ValueError, match="both shapes have as many elements"):
        D.ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match=r"the last dimensions have the shape \(4,\)"):
        D.ReshapeTransform((4,), (2, 2)).forward_shape((3,))
    with pytest.raises(ValueError, match=r"the last dimension has D \(D - 1\) / 2 elements"):
        D.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="the last two dimensions are equal"):
        D.CorrCholeskyTransform().inverse_shape((4, 3))
    for transform in (D.SoftmaxTransform(), D.StickBreakingTransform()):
        with pytest.raises(ValueError, match="values have at least one dimension"):
            transform.forward_shape(())
    with pytest.raises(ValueError, match="event_dim is that of both sides"):
        _ = D.CorrCholeskyTransform().event_dim
    with pytest.raises(ValueError, match="dimension 0 has 2 elements"):
        D.StackTransform([D.ExpTransform(), D.ExpTransform()])(t([1.0]))
    with pytest.raises(ValueError, match="dimension 0 has 1 elements"):
        D.CatTransform([D.ExpTransform()])(t([1.0, 2.0]))
    with pytest.raises(ValueError, match="an event has at least 1 dimensions"):
        D.IndependentTransform(D.ExpTransform(), 1)(t(1.0))

    class Bare(D.Transform):
        def __init__(self) -> None:
            super().__init__()

    for call in (lambda: Bare()(t(1.0)), lambda: Bare().inv(t(1.0))):
        with pytest.raises(NotImplementedError, match="the transform defines it"):
            call()
    with pytest.raises(NotImplementedError, match="it defines with_cache, too"):
        Bare().with_cache()
    with pytest.raises(NotImplementedError, match="a transform with a sign is monotone"):
        _ = Bare().sign


# ------------------------------------------------------------------------------------------------------- constraints

CHECKS = [
    (C.boolean, [0.0, 1.0], [0.5, 2.0]), (C.integer_interval(1, 3), [1.0, 3.0], [0.0, 2.5, 4.0]),
    (C.nonnegative_integer, [0.0, 5.0], [-1.0, 0.5]), (C.positive_integer, [1.0], [0.0]),
    (C.positive, [0.1], [0.0, -1.0]), (C.nonnegative, [0.0], [-0.1]), (C.greater_than(2.0), [2.1], [2.0]),
    (C.greater_than_eq(2.0), [2.0], [1.9]), (C.less_than(2.0), [1.9], [2.0]),
    (C.unit_interval, [0.0, 1.0], [-0.1, 1.1]),
    (C.half_open_interval(0.0, 1.0), [0.0, 0.9], [1.0]), (C.real, [3.0, float("inf")], [float("nan")]),
    (C._IntegerLessThan(2), [2.0, -5.0], [3.0, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize(("constraint", "good", "bad"), CHECKS, ids=lambda value: repr(value)[:30])
def test_numbers(constraint: Any, good: list[float], bad: list[float]) -> None:
    assert constraint.check(t(good)).all()
    assert not constraint.check(t(bad)).any()
    assert constraint.event_dim == 0


def test_vectors_and_matrices() -> None:
    assert C.simplex.check(t([[0.2, 0.8], [0.5, 0.6], [-0.1, 1.1]])).tolist() == [True, False, False]
    assert C.one_hot.check(t([[0, 1], [1, 1], [0.5, 0.5]])).tolist() == [True, False, False]
    assert C.multinomial(3).check(t([[1, 2], [2, 2], [-1, 2]])).tolist() == [True, False, False]
    lower, full = t([[1.0, 0.0], [0.6, 0.8]]), t([[2.0, 1.0], [1.0, 2.0]])
    results = {"lower_triangular": (True, False), "lower_cholesky": (True, False), "corr_cholesky": (True, False),
               "square": (True, True), "symmetric": (False, True), "positive_semidefinite": (False, True),
               "positive_definite": (False, True)}
    for name, expected in results.items():
        constraint = getattr(C, name)
        assert (bool(constraint.check(lower).all()), bool(constraint.check(full).all())) == expected
        assert constraint.event_dim == 2
    assert not C.positive_definite.check(-full)
    assert not C.square.check(t([[1.0, 2.0]]))
    assert C.real_vector.check(t([[1.0, float("nan")], [1.0, 2.0]])).tolist() == [False, True]
    with pytest.raises(ValueError, match="an event has 1 dimensions"):
        C.real_vector.check(t(1.0))
    both = C.cat([C.positive, C.unit_interval], 0, [1, 2])
    assert both.check(t([3.0, 0.5, 2.0])).tolist() == [True, True, False]
    stacked = C.stack([C.positive, C.boolean])
    assert stacked.check(t([[3.0], [0.5]])).tolist() == [[True], [False]]
    assert stacked.is_discrete
    assert stacked.event_dim == 0


def test_dependent_constraints() -> None:
    assert C.is_dependent(C.dependent)
    assert not C.is_dependent(C.real)
    assert C.is_dependent(D.Uniform.support)
    assert D.Uniform.support.event_dim == 0
    with pytest.raises(ValueError, match="a dependent constraint is that of an object"):
        C.dependent.check(t(1.0))
    for name in ("is_discrete", "event_dim"):
        with pytest.raises(NotImplementedError):
            getattr(C.dependent, name)
    assert C.dependent(is_discrete=True, event_dim=1).event_dim == 1
    assert C.dependent(is_discrete=True, event_dim=1).is_discrete
    assert repr(C.interval(0, 1)) == "Interval(lower_bound=0, upper_bound=1)"
    assert repr(C.independent(C.real, 1)) == "IndependentConstraint(Real(), 1)"
    assert repr(D.Uniform.support) == "DependentProperty()"
    with pytest.raises(NotImplementedError):
        C.Constraint().check(t(1.0))


REACHED = [C.real, C.positive, C.nonnegative, C.less_than(1.0), C.greater_than(2.0), C.interval(-1.0, 3.0),
           C.unit_interval, C.half_open_interval(0.0, 2.0), C.simplex, C.corr_cholesky, C.real_vector,
           C.independent(C.positive, 1), C.cat([C.positive, C.real], 0, [1, 2]), C.stack([C.positive] * 3)]


@pytest.mark.parametrize("constraint", REACHED, ids=repr)
def test_transforms_reach_constraints(constraint: Any) -> None:
    x = t([0.3, -1.2, 2.0])
    for registry in (D.biject_to, D.transform_to):
        transform = registry(constraint)
        assert constraint.check(transform(x)).all()
        assert transform.bijective or registry is D.transform_to
        y = transform(x)
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), atol=1e-9)


def test_matrices_are_reached() -> None:
    x = t([[0.3, -1.0], [1.0, 2.0]])
    for constraint in (C.lower_cholesky, C.positive_definite, C.positive_semidefinite):
        assert constraint.check(D.transform_to(constraint)(x))
        with pytest.raises(NotImplementedError, match="a transform is registered for this kind of constraint"):
            D.biject_to(constraint)


def test_registering() -> None:
    registry = ConstraintRegistry()

    class Mine(C.Constraint):
        pass

    @registry.register(Mine)
    def _(constraint: Any) -> Any:
        return D.ExpTransform()

    assert registry(Mine()) == D.ExpTransform()
    with pytest.raises(TypeError, match="a function is registered for a class of constraints or one of its objects"):
        registry.register(3, lambda c: c)
