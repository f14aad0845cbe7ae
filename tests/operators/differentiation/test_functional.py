"""Jacobians, Hessians and products with them against closed forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import functional
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError, ShapeError

A = np.array([[1.0, 2.0, -1.0], [0.5, -0.3, 2.0]])
X, Y = np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.7, -0.4])


def tensor(values: Any, **options: Any) -> Any:
    return torch.tensor(np.asarray(values), dtype=torch.float64, **options)


def near(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(actual.tolist()), expected, rtol=1e-12, atol=1e-12)


def product(x: Any, y: Any) -> tuple[Any, Any]:
    return x * y, (x * x).sum()


def cubic(x: Any) -> Any:
    return (x**3).sum() + x[0] * x[1]


HESSIAN = np.diag(6 * X) + np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_jacobian(options: dict[str, Any]) -> None:
    matrix = functional.jacobian(lambda x: tensor(A) @ x, tensor(X), **options)
    near(matrix, A)
    assert not matrix.requires_grad
    ((a, b), (c, d)) = functional.jacobian(product, (tensor(X), tensor(Y)), **options)
    near(a, np.diag(Y))
    near(b, np.diag(X))
    near(c, 2 * X)
    near(d, 0 * Y)
    rows = functional.jacobian(lambda x: x.reshape(1, 3) * 2, tensor(X), **options)
    near(rows, 2 * np.eye(3).reshape(1, 3, 3))


def test_jacobian_of_nothing() -> None:
    assert functional.jacobian(lambda x: x[:0] * 2, tensor(X)).shape == (0, 3)


@pytest.mark.parametrize("options", [{}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}])
def test_hessian(options: dict[str, Any]) -> None:
    near(functional.hessian(cubic, tensor(X), **options), HESSIAN)
    ((aa, ab), (ba, bb)) = functional.hessian(lambda x, y: (x * x * y).sum(), (tensor(X), tensor(Y)), **options)
    near(aa, np.diag(2 * Y))
    near(ab, np.diag(2 * X))
    near(ba, np.diag(2 * X))
    near(bb, np.zeros((3, 3)))


def test_products() -> None:
    v = np.array([1.0, -2.0])
    outputs, row = functional.vjp(lambda x: tensor(A) @ x, tensor(X), tensor(v))
    near(outputs, A @ X)
    near(row, v @ A)
    outputs, column = functional.jvp(lambda x: tensor(A) @ x, tensor(X), tensor(Y))
    near(outputs, A @ X)
    near(column, A @ Y)
    (_, total), (first, second) = functional.jvp(product, (tensor(X), tensor(Y)), (tensor(Y), tensor(X)))
    near(total, (X * X).sum())
    near(first, Y * Y + X * X)
    near(second, 2 * (X @ Y))
    for multiply in (functional.hvp, functional.vhp):
        value, result = multiply(cubic, tensor(X), tensor(Y))
        near(value, (X**3).sum() + X[0] * X[1])
        near(result, HESSIAN @ Y)
    near(functional.vjp(lambda x: x.sum(), tensor(X))[1], np.ones(3))
    near(functional.jvp(lambda x: x * 3, tensor([2.0]))[1], [3.0])


def test_results_can_be_differentiated() -> None:
    x = tensor(X, requires_grad=True)
    matrix = functional.jacobian(lambda t: t**3, x, create_graph=True)
    near(torch.autograd.grad(matrix.sum(), x)[0], 6 * X)
    matrix = functional.hessian(cubic, x, create_graph=True)
    near(torch.autograd.grad(matrix.sum(), x)[0], np.full(3, 6.0))
    outputs, result = functional.vjp(lambda t: t**3, x, tensor(Y), create_graph=True)
    near(torch.autograd.grad(result.sum() + outputs.sum(), x)[0], 6 * X * Y + 3 * X**2)
    _, result = functional.jvp(lambda t: t**3, x, tensor(Y), create_graph=True)
    near(torch.autograd.grad(result.sum(), x)[0], 6 * X * Y)
    for multiply in (functional.hvp, functional.vhp):
        _, result = multiply(lambda t: (t**3).sum(), x, tensor(Y), create_graph=True)
        near(torch.autograd.grad(result.sum(), x)[0], 6 * Y)


def test_strict_finds_independence() -> None:
    x, y = tensor(X), tensor(Y)

    def first(a: Any, b: Any) -> Any:
        return a * 2

    near(functional.jacobian(first, (x, y))[1], np.zeros((3, 3)))
    for run in (lambda: functional.jacobian(first, (x, y), strict=True),
                lambda: functional.vjp(first, (x, y), x, strict=True),
                lambda: functional.jvp(first, (x, y), (x, y), strict=True),
                lambda: functional.hvp(lambda a: a.sum(), x, y, strict=True),
                lambda: functional.vhp(lambda a: a.sum(), x, y, strict=True),
                lambda: functional.hessian(lambda a: a.sum(), x, strict=True)):
        with pytest.raises(AutogradError, match="with strict=True every output depends on every input"):
            run()
    with pytest.raises(AutogradError, match="an output that does not depend on the inputs"):
        functional.vjp(lambda a: y * 2, x, y, strict=True)


@pytest.mark.parametrize(("run", "kind", "message"), [
    (lambda: functional.jacobian(lambda x: 3, tensor(X)), ArgumentTypeError,
     "[jacobian] an output of type int — inputs and outputs are tensors or tuples of tensors"),
    (lambda: functional.jacobian(lambda x: x, [1.0]), ArgumentTypeError, "[jacobian] an input of type list"),
    (lambda: functional.jacobian(lambda x: x, tensor(X), strategy="sideways"), ArgumentError,
     "[jacobian] strategy 'sideways' with vectorize=False — "
     "the strategy is 'reverse-mode', or with vectorize=True 'forward-mode'"),
    (lambda: functional.jacobian(lambda x: x, tensor(X), strategy="forward-mode"), ArgumentError, "forward-mode"),
    (lambda: functional.jacobian(lambda x: x, tensor(X), strict=True, vectorize=True), ArgumentError,
     "[jacobian] strict=True with vectorize=True — dependence is found out without vectorize only"),
    (lambda: functional.vjp(lambda x: x, tensor(X)), ArgumentError,
     "[vjp] no v — v is implied for a single element only — pass v"),
    (lambda: functional.jvp(lambda x: x, tensor(X), tensor([1.0])), ShapeError,
     "[jvp] v of shapes [[1]] for [[3]] — v has the shapes of what it is multiplied with"),
    (lambda: functional.hvp(lambda x: x, tensor(X), tensor(Y)), ShapeError,
     "[hvp] outputs of shapes [[3]] — the function returns one element"),
    (lambda: functional.hessian(lambda x: x, tensor(X)), ShapeError, "[hessian] outputs of shapes [[3]]"),
], ids=range(9))
def test_refusals(run: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        run()
