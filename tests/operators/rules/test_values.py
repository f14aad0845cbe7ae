"""Values and derivatives of operators under transforms whose results depend on more than one element at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as f
from tensocket_operators.transforms import grad, jvp, vmap
from tensocket_plugins.contract.errors import LinAlgError, ShapeError

X = np.sin(np.arange(24.0) * 1.7).reshape(3, 8)


def tensor(values: Any) -> Any:
    return torch.tensor(np.asarray(values).tolist(), dtype=torch.float64)


def same(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(result.tolist()), expected, rtol=1e-10, atol=1e-12)


def squares(x: Any) -> Any:
    return (x.clone().fill_(x[1]) ** 2).sum()


def test_a_tensor_that_fills_another_has_a_gradient() -> None:
    x = tensor(X[0]).requires_grad_()
    (x * 1).fill_(x[1]).square().sum().backward()
    expected = np.zeros(8)
    expected[1] = 2 * 8 * X[0, 1]
    same(x.grad, expected)
    wide = torch.tensor([3.0], requires_grad=True)
    tensor(X[0]).fill_(wide[0]).sum().backward()  # of another dtype
    assert (wide.grad.tolist(), wide.grad.dtype) == ([8.0], torch.float32)
    same(vmap(grad(squares))(tensor(X))[:, 1], 16 * X[:, 1])
    same(grad(lambda x: vmap(squares)(x).sum())(tensor(X))[:, 1], 16 * X[:, 1])
    same(jvp(squares, (tensor(X[0]),), (tensor(np.ones(8)),))[1], 16 * X[0, 1])


def test_tangents_of_complex_numbers_made_of_real_ones() -> None:
    x, ones = tensor(X[0]), tensor(np.ones(8))
    result = jvp(lambda x: torch.view_as_real(f.complex(x, x * x)), (x,), (ones,))[1]
    same(result, np.stack([np.ones(8), 2 * X[0]], 1))
    same(jvp(lambda x: f.complex(x.cos(), x).imag, (x,), (ones,))[1], np.ones(8))
    turned = jvp(lambda x: torch.view_as_real(f.polar(x, 2 * x)), (x,), (ones,))[1]
    expected = np.exp(2j * X[0]) * (1 + 2j * X[0])
    same(turned, np.stack([expected.real, expected.imag], 1))


def test_histograms_of_examples_have_ranges_of_their_own() -> None:
    rows = np.concatenate([X, np.full((1, 8), 2.5)])
    expected = [np.histogram(row, 5)[0] for row in rows]
    same(vmap(lambda x: x.histc(5))(tensor(rows)), expected)
    same(vmap(vmap(lambda x: x.histc(5)))(tensor([rows, rows[::-1]])), [expected, expected[::-1]])
    hist, edges = vmap(lambda x: tuple(f.histogram(x, 5)))(tensor(rows))
    same(hist, expected)
    same(edges, [np.histogram(row, 5)[1] for row in rows])
    same(vmap(lambda x: x.histc(5, -1, 1))(tensor(X)), [np.histogram(row, 5, (-1, 1))[0] for row in X])


def test_masks_of_examples_scatter_their_own_elements() -> None:
    masks = X > 0.2
    expected = X.copy()
    for row, mask in zip(expected, masks, strict=True):
        row[mask] = np.arange(8.0)[: mask.sum()]
    given = torch.tensor(masks.tolist())
    same(vmap(lambda x, m: x.masked_scatter(m, tensor(np.arange(8.0))))(tensor(X), given), expected)
    gradient = vmap(grad(lambda s, x, m: (x.masked_scatter(m, s) * x).sum()))(tensor(X), tensor(X), given)
    wanted = np.zeros_like(X)
    for row, mask, x in zip(wanted, masks, X, strict=True):
        row[: mask.sum()] = x[mask]
    same(gradient, wanted)
    same(vmap(lambda x, m: x.masked_scatter(m & False, x[:0]))(tensor(X), given), X)
    with pytest.raises(ShapeError, match="source has an element for every place of the mask"):
        vmap(lambda x, m: x.masked_scatter(m, x[:1]))(tensor(X), given)


def test_factorizations_of_examples_are_checked_together() -> None:
    matrices = np.cos(np.arange(27.0)).reshape(3, 3, 3) + 2 * np.eye(3)
    factors, pivots = vmap(lambda a: tuple(f.linalg_lu_factor(a)))(tensor(matrices))
    same(vmap(lambda lu, p, b: f.linalg_lu_solve(lu, p, b))(factors, pivots, tensor(matrices)), [np.eye(3)] * 3)
    symmetric = matrices + matrices.swapaxes(1, 2)
    solved = vmap(lambda a: f.linalg_ldl_solve(*f.linalg_ldl_factor(a), a))(tensor(symmetric))
    same(solved, [np.eye(3)] * 3)
    matrices[1] = 0
    with pytest.raises(LinAlgError, match="a factorisation exists for every matrix of the batch"):
        vmap(lambda a: f.linalg_lu_factor(a)[0])(tensor(matrices))


def test_tangents_of_operators_that_also_return_positions() -> None:
    x = tensor(X)
    tangent = jvp(lambda x: x.max(1)[0], (x,), (tensor(X ** 2),))[1]
    same(tangent, np.take_along_axis(X ** 2, X.argmax(1)[:, None], 1)[:, 0])
    factors = jvp(lambda a: f.linalg_lu_factor(a)[0].diagonal().prod(), (tensor(2 * np.eye(3)),), (tensor(np.eye(3)),))
    same(factors[1], 12.0)
