"""Optimizers with sparse gradients, against dense formulas on the rows that the gradients have."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import optim
from tensocket.errors import ArgumentError

ROWS = np.array([0, 2, 0])
VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [0.5, -1.0]])
DENSE = np.array([[1.5, 1.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])


def run(kind, **options):
    parameter = torch.ones((4, 2), dtype=torch.float64, requires_grad=True)
    optimizer = kind([parameter], **options)
    for k in range(3):
        parameter.grad = torch.sparse_coo_tensor(torch.tensor(ROWS[None]), torch.tensor(VALUES * (k + 1)), (4, 2))
        optimizer.step()
        assert parameter.grad.is_sparse
    return parameter.detach().numpy()


def test_sgd():
    np.testing.assert_allclose(run(optim.SGD, lr=0.1), 1 - 0.1 * 6 * DENSE)
    np.testing.assert_allclose(run(optim.SGD, lr=0.1, maximize=True), 1 + 0.1 * 6 * DENSE)
    np.testing.assert_allclose(run(optim.SGD, lr=0.1, momentum=0.5), 1 - 0.1 * (1 + 2.5 + 4.25) * DENSE)
    np.testing.assert_allclose(run(optim.SGD, lr=0.1, momentum=0.5, maximize=True), 1 + 0.1 * 7.75 * DENSE)


def test_sgd_takes_dense_and_sparse_gradients_in_turn():
    first, second = (torch.zeros((4, 2), dtype=torch.float64, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([first, second], lr=1.0, momentum=0.5)
    sparse = torch.sparse_coo_tensor(torch.tensor(ROWS[None]), torch.tensor(VALUES), (4, 2))
    for k in range(2):
        first.grad, second.grad = (sparse, sparse.to_dense())[::-1 if k else 1]
        optimizer.step()
    for parameter in (first, second):
        np.testing.assert_allclose(parameter.detach().numpy(), -2.5 * DENSE)


def test_complex_parameters():
    parameter = torch.zeros((4, 2), dtype=torch.complex128, requires_grad=True)
    parameter.grad = torch.sparse_coo_tensor(torch.tensor(ROWS[None]), torch.tensor(VALUES * 1j), (4, 2))
    optim.SGD([parameter], lr=0.5, momentum=0.9).step()
    np.testing.assert_allclose(parameter.detach().numpy(), -0.5j * DENSE)


def test_lbfgs():
    """The first step goes along the gradient, as far as its sum is from one."""
    parameter = torch.ones((4, 2), dtype=torch.float64, requires_grad=True)
    optimizer = optim.LBFGS([parameter], lr=0.5, max_iter=1)

    def closure():
        parameter.grad = torch.sparse_coo_tensor(torch.tensor(ROWS[None]), torch.tensor(VALUES), (4, 2))
        return torch.tensor(1.0)

    optimizer.step(closure)
    np.testing.assert_allclose(parameter.detach().numpy(), 1 - 0.5 * DENSE / abs(DENSE).sum())


def test_adagrad():
    x, total = np.ones((4, 2)), np.zeros((4, 2))
    for k in range(3):
        g = DENSE * (k + 1)
        total += g * g
        x -= 0.1 / (1 + 0.5 * k) * g / (np.sqrt(total) + 1e-10)
    np.testing.assert_allclose(run(optim.Adagrad, lr=0.1, lr_decay=0.5), x)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam(maximize):
    x, m, v = np.ones((4, 2)), np.zeros((4, 2)), np.zeros((4, 2))
    for t in range(1, 4):
        g = DENSE * t * (-1 if maximize else 1)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        x -= 0.1 * np.sqrt(1 - 0.99**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(run(optim.SparseAdam, lr=0.1, betas=(0.9, 0.99), maximize=maximize), x)


def test_rows_without_gradient_keep_their_moments():
    parameter = torch.ones((3, 1), requires_grad=True)
    optimizer = optim.SparseAdam([parameter])
    for row in (0, 1):
        parameter.grad = torch.sparse_coo_tensor(torch.tensor([[row]]), torch.tensor([[2.0]]), (3, 1))
        optimizer.step()
    np.testing.assert_allclose(optimizer.state[parameter]["exp_avg"].numpy(), [[0.2], [0.2], [0.0]], rtol=1e-6)
    assert optimizer.state[parameter]["step"] == 2
    parameter.grad = torch.sparse_coo_tensor(torch.zeros((1, 0), dtype=torch.int64), torch.zeros((0, 1)), (3, 1))
    before = parameter.tolist()
    optimizer.step()
    assert parameter.tolist() == before
    assert optimizer.state[parameter]["step"] == 3


def test_nothing_moves_if_one_gradient_is_dense():
    parameters = [torch.ones(2, requires_grad=True) for _ in range(2)]
    parameters[0].grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([1.0]), (2,))
    parameters[1].grad = torch.ones(2)
    with pytest.raises(ArgumentError, match="SparseAdam does not support dense gradients"):
        optim.SparseAdam(parameters).step()
    assert parameters[0].tolist() == [1, 1]


@pytest.mark.parametrize(("option", "value"), [("lr", 0.0), ("lr", torch.tensor(0.0)), ("eps", 0.0)])
def test_sparse_adam_moves(option, value):
    with pytest.raises(ArgumentError, match=rf"{option}=0\.0 — {option} is more than zero"):
        optim.SparseAdam([torch.ones(2, requires_grad=True)], **{option: value})


@pytest.mark.parametrize(("parameter", "kind"), [
    (torch.ones(2, 2).to_sparse(), "sparse"), (torch.ones((2, 2), dtype=torch.complex64), "complex"),
], ids=["sparse", "complex"])
def test_sparse_adam_takes_dense_real_parameters(parameter, kind):
    with pytest.raises(ArgumentError, match=rf"a {kind} parameter of shape \(2, 2\) — "
                                            "SparseAdam takes dense real parameters"):
        optim.SparseAdam([parameter.requires_grad_()])


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, optim.NAdam, optim.RMSprop, optim.ASGD, optim.Adafactor])
def test_others_refuse(kind):
    with pytest.raises(ArgumentError, match="only SGD, Adagrad, SparseAdam and LBFGS take sparse gradients"):
        run(kind)


def test_zeros_instead_of_gradients_stay_sparse():
    parameter = torch.ones((4, 2), dtype=torch.float64, requires_grad=True)
    parameter.grad = torch.sparse_coo_tensor(torch.tensor(ROWS[None]), torch.tensor(VALUES), (4, 2))
    optim.SGD([parameter]).zero_grad(set_to_none=False)
    assert parameter.grad.is_sparse
    np.testing.assert_array_equal(parameter.grad.to_dense().numpy(), np.zeros((4, 2)))


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adagrad])
def test_weights_do_not_decay_by_rows(kind):
    with pytest.raises(ArgumentError, match=r"a sparse gradient and weight_decay=0\.1 — "
                                            "weight decay has no sparse gradient"):
        run(kind, weight_decay=0.1)
