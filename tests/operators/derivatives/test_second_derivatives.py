"""Second derivatives and tangents of operators: closed forms, and all ways to a derivative agree with differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as F
from tensocket_operators.autograd import grad
from tensocket_operators.differentiation import dual_levels as forward_ad
from tensocket_plugins.contract.errors import AutogradError


def doubles(values: Any, requires_grad: bool = True) -> Any:
    return tc.tensor(values, dtype=tc.float64, requires_grad=requires_grad)


def tangent(function: Callable[..., Any], *pairs: Any) -> Any:
    """The tangent of a result, for pairs of points and directions."""
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(*[forward_ad.make_dual(x, t) for x, t in pairs])).tangent


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x.prod(), "row": lambda x: x.prod(0),
    "scatter": lambda x: tc.ones(1, dtype=tc.float64).scatter_reduce(0, tc.tensor([0, 0, 0]), x, "prod"),
    "index": lambda x: tc.ones(1, dtype=tc.float64).index_reduce(0, tc.tensor([0, 0, 0]), x, "prod"),
}


@pytest.mark.parametrize("values", [[2.0, 5.0, 3.0], [2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_products_are_differentiated_twice_where_factors_are_zero(kind: str, values: list[float]) -> None:
    x, weights = doubles(values), doubles([1.0, 10.0, 100.0], False)
    a, b, c = values
    assert grad(PRODUCTS[kind](x).sum(), x)[0].tolist() == pytest.approx([b * c, a * c, a * b])
    first = grad(PRODUCTS[kind](x).sum(), x, create_graph=True)[0]
    assert first.tolist() == pytest.approx([b * c, a * c, a * b])
    if values.count(0.0) > 1 and kind in ("scatter", "index"):
        with pytest.raises(AutogradError, match="a gradient of products with several zeros at one place"):
            grad((first * weights).sum(), x)
        return
    second = grad((first * weights).sum(), x)[0]  # the Hessian of abc times (1, 10, 100)
    assert second.tolist() == pytest.approx([10 * c + 100 * b, c + 100 * a, b + 10 * a])


@pytest.mark.parametrize("dtype", [tc.float32, tc.float64])
@pytest.mark.parametrize("shape", [(1,), (3, 1), (2, 1, 1)])
def test_root_mean_squares_of_rows_of_one_element(shape: tuple[int, ...], dtype: Any) -> None:
    values = np.linspace(-1.5, 2.0, int(np.prod(shape))).reshape(shape)
    x, weight = tc.tensor(values.tolist(), dtype=dtype, requires_grad=True), tc.tensor([3.0], dtype=dtype)
    F.rms_norm(x, (1,), weight, 0.5).sum().backward()
    assert np.allclose(x.grad.tolist(), 3 * 0.5 * (values ** 2 + 0.5) ** -1.5, rtol=1e-5)


def test_tangents_of_complex_numbers_of_their_parts() -> None:
    pairs = [(doubles([1.0, 2.0], False), doubles([3.0, 4.0], False)),
             (doubles([5.0, 6.0], False), doubles([7.0, 8.0], False))]
    assert tangent(F.complex, *pairs).tolist() == [3 + 7j, 4 + 8j]
    turned = np.exp([5j, 6j]) * (np.array([3.0, 4.0]) + 1j * np.array([1.0, 2.0]) * np.array([7.0, 8.0]))
    assert np.allclose(tangent(F.polar, *pairs).tolist(), turned)


POINT = [[3.0, 1.0, 2.0], [4.0, 4.5, 0.5]]
DIRECTION = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(("function", "wanted"), [
    (lambda x: x.median(), 3.0), (lambda x: x.nanmedian(), 3.0), (lambda x: x.median(1)[0], [3.0, 4.0]),
    (lambda x: F.max_pool1d(x, 3), [[1.0], [5.0]]), (lambda x: F.adaptive_max_pool1d(x, 1)[0], [[1.0], [5.0]]),
    (lambda x: x.kthvalue(1)[0], [2.0, 6.0]), (lambda x: F.linalg_inv_ex(x[:, :1].T @ x[:, :1])[0],
                                                [[-2 * (3 * 1 + 4 * 4) / 25.0 ** 2]]),
], ids=["median", "nanmedian", "median of rows", "max_pool1d", "adaptive_max_pool1d", "kthvalue", "inv_ex"])
def test_tangents_of_operators_with_discrete_results(function: Callable[[Any], Any], wanted: Any) -> None:
    found = tangent(function, (doubles(POINT, False), doubles(DIRECTION, False))).tolist()
    assert np.allclose(found, wanted)


def test_factors_of_matrices_have_tangents() -> None:
    point, direction = doubles([[4.0, 3.0], [2.0, 5.0]], False), doubles([[1.0, 0.0], [0.0, 2.0]], False)
    # L21 = c/a, U22 = d - bc/a: their differentials for da = 1, dd = 2.
    found = tangent(lambda x: F.linalg_lu_factor(x)[0], (point, direction)).tolist()
    assert np.allclose(found, [[1.0, 0.0], [-2.0 / 16.0, 2.0 + 6.0 / 16.0]])


def test_determinants_without_rows() -> None:
    x = doubles(np.zeros((0, 0)).tolist()).reshape(0, 0)
    found = F.linalg_det(x)
    assert found.item() == 1.0
    assert grad(found, x)[0].shape == (0, 0)


#: Functions of a matrix of positive elements that can be differentiated three times.
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "exp": F.exp, "log": F.log, "sin": F.sin, "tanh": F.tanh, "sigmoid": F.sigmoid, "sqrt": F.sqrt,
    "erf": F.erf, "lgamma": F.lgamma, "digamma": F.digamma, "sinc": F.sinc, "atan": F.atan, "pow": lambda x: x ** 2.5,
    "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.log_softmax(x, 0), "prod": lambda x: x.prod(1),
    "cumprod": lambda x: x.cumprod(1), "cumsum": lambda x: x.cumsum(0), "logsumexp": lambda x: x.logsumexp(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1), "var": lambda x: x.var(1), "std": lambda x: x.std(0),
    "norm": lambda x: x.norm(), "matmul": lambda x: x @ x, "det": F.linalg_det, "inv": F.linalg_inv,
    "cholesky": lambda x: F.linalg_cholesky(x @ x.T + tc.eye(3, dtype=tc.float64)), "trace": lambda x: (x @ x).trace(),
    "layer_norm": lambda x: F.layer_norm(x, (3,)), "rms_norm": lambda x: F.rms_norm(x, (3,)),
    "gelu": F.gelu, "silu": F.silu, "softplus": F.softplus, "mish": F.mish, "selu": F.selu,
    "matrix_exp": F.matrix_exp, "solve": lambda x: F.linalg_solve(x, x.T), "kron": lambda x: F.kron(x, x)[0],
    "cdist": lambda x: F.cdist(x, x.flip(0) + 1), "cosine": lambda x: F.cosine_similarity(x, x.T, 1),
    "atan2": lambda x: F.atan2(x, x.T + 1), "addcdiv": lambda x: F.addcdiv(x, x.T, x + 1),
    "lerp": lambda x: F.lerp(x, x.T, x * x), "logaddexp": lambda x: F.logaddexp(x, x.T),
    "xlogy": lambda x: F.xlogy(x, x.T), "median": lambda x: x.median() * x.median(),
    "scatter_add": lambda x: x.scatter_add(1, tc.zeros(3, 3, dtype=tc.int64), x * x),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_agree(name: str) -> None:
    """Tangents are gradients along a direction; second derivatives are differences of gradients, both ways."""
    function = SMOOTH[name]
    draw = np.random.default_rng(7)
    point, step, weights = draw.uniform(0.5, 1.5, (3, 3)), draw.normal(size=(3, 3)), draw.normal(size=100)

    def number(x: Any) -> Any:
        made = function(x)
        return (made * doubles(weights[:made.numel()].tolist(), False).reshape(tuple(made.shape))).sum()

    def slope(values: Any) -> Any:
        x = doubles(values.tolist())
        return np.array(grad(number(x), x)[0].tolist())

    def along(values: Any) -> float:
        return float(number(doubles(values.tolist(), False)).item())

    small = 1e-5
    difference = (along(point + small * step) - along(point - small * step)) / (2 * small)
    curvature = (slope(point + small * step) - slope(point - small * step)) / (2 * small)
    assert np.allclose((slope(point) * step).sum(), difference, rtol=1e-5, atol=1e-6)
    direction = doubles(step.tolist(), False)
    pushed = tangent(number, (doubles(point.tolist(), False), direction))
    assert np.allclose(pushed.item(), difference, rtol=1e-5, atol=1e-6)
    x = doubles(point.tolist())
    first = grad(number(x), x, create_graph=True)[0]
    second = grad((first * direction).sum(), x)[0] if first.requires_grad else tc.zeros(3, 3)
    assert np.allclose(second.tolist(), curvature, rtol=1e-4, atol=1e-5)
    with forward_ad.dual_level():
        leaf = doubles(point.tolist())
        moved = forward_ad.unpack_dual(number(forward_ad.make_dual(leaf, direction))).tangent
        mixed = grad(moved, leaf, allow_unused=True)[0] if moved.requires_grad else None
    assert np.allclose(np.zeros((3, 3)) if mixed is None else mixed.tolist(), curvature, rtol=1e-4, atol=1e-5)
