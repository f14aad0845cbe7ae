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
        parameter.grad = torch.sparse_coo_tensor(torch.tensor([ROWS]), torch.tensor(VALUES * (k + 1)), (4, 2))
        optimizer.step()
    return parameter.detach().numpy()


def test_sgd():
    np.testing.assert_allclose(run(optim.SGD, lr=0.1), 1 - 0.1 * 6 * DENSE)
    np.testing.assert_allclose(run(optim.SGD, lr=0.1, maximize=True), 1 + 0.1 * 6 * DENSE)
    np.testing.assert_allclose(run(optim.SGD, lr=0.1, momentum=0.5), 1 - 0.1 * (1 + 2.5 + 4.25) * DENSE)


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


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, optim.NAdam, optim.RMSprop, optim.ASGD, optim.Adafactor])
def test_others_refuse(kind):
    with pytest.raises(ArgumentError, match="only SGD, Adagrad and SparseAdam take sparse gradients"):
        run(kind)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adagrad])
def test_weights_do_not_decay_by_rows(kind):
    with pytest.raises(ArgumentError, match=r"a sparse gradient and weight_decay=0\.1 — "
                                            "weight decay has no sparse gradient"):
        run(kind, weight_decay=0.1)
