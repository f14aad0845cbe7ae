"""Steps of the optimizers against the published formulas, computed by NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import optim

STEPS = 25
START = np.array([[0.8, -1.2, 0.4], [2.0, -0.3, 1.1]])
CURVATURE = np.array([[1.0, 3.0, 0.2], [0.7, 2.0, 5.0]])


def gradient(x, k):
    """A gradient that depends on the place and on the step."""
    return CURVATURE * x + 0.3 * np.sin(k + np.arange(6).reshape(2, 3))


def sgd(lr=0.001, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    x, velocity = START.copy(), None
    for k in range(STEPS):
        g = (-1 if maximize else 1) * gradient(x, k) + weight_decay * x
        if momentum:
            velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
            g = g + momentum * velocity if nesterov else velocity
        x = x - lr * g
        yield x


def adam(lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, decoupled=False):
    x, m, v, largest = START.copy(), np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))
    for k in range(1, STEPS + 1):
        g = (-1 if maximize else 1) * gradient(x, k - 1)
        if decoupled:
            x = x - lr * weight_decay * x
        else:
            g = g + weight_decay * x
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        largest = np.maximum(largest, v)
        corrected = (largest if amsgrad else v) / (1 - betas[1] ** k)
        x = x - lr * (m / (1 - betas[0] ** k)) / (np.sqrt(corrected) + eps)
        yield x


def adamw(weight_decay=0.01, **options):
    return adam(weight_decay=weight_decay, decoupled=True, **options)


CASES = [
    (optim.SGD, sgd, {}),
    (optim.SGD, sgd, {"lr": 0.1}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.5, "dampening": 0.3, "weight_decay": 0.2}),
    (optim.SGD, sgd, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    (optim.SGD, sgd, {"lr": 0.01, "momentum": 0.9, "maximize": True, "weight_decay": 0.1}),
    (optim.Adam, adam, {}),
    (optim.Adam, adam, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    (optim.Adam, adam, {"lr": 0.1, "amsgrad": True}),
    (optim.Adam, adam, {"lr": 0.05, "maximize": True}),
    (optim.AdamW, adamw, {}),
    (optim.AdamW, adamw, {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True}),
]


@pytest.mark.parametrize(("kind", "formula", "options"), CASES)
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 2e-5)])
def test_trajectory(kind, formula, options, dtype, bound):
    parameter = torch.tensor(START, dtype=getattr(torch, dtype), requires_grad=True)
    optimizer = kind([parameter], **options)
    for k, expected in enumerate(formula(**options)):
        parameter.grad = torch.tensor(gradient(parameter.detach().numpy().astype(np.float64), k), dtype=parameter.dtype)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), expected, atol=bound, rtol=bound)


def test_gradients_of_a_real_loss():
    """The same through backward: the loss is a quadratic form."""
    parameter = torch.tensor(START, requires_grad=True)
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    x, velocity = START.copy(), np.zeros((2, 3))
    for _ in range(10):
        optimizer.zero_grad()
        (0.5 * torch.tensor(CURVATURE) * parameter * parameter).sum().backward()
        optimizer.step()
        velocity = 0.9 * velocity + CURVATURE * x
        x = x - 0.1 * velocity
    np.testing.assert_allclose(parameter.detach().numpy(), x, rtol=1e-12)
