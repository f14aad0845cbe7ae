"""Muon against its formula in NumPy's float64; steps are in bfloat16, which has 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import optim
from tensocket.errors import ArgumentError, DtypeError
from tensocket.optim._functional import muon

OPTIONS = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True, "ns_steps": 5,
           "ns_coefficients": (3.4445, -4.775, 2.0315), "eps": 1e-7, "adjust_lr_fn": None}


def orthogonal(matrix):
    """The polynomial on the singular values."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    s = s / np.linalg.norm(matrix)
    for _ in range(5):
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    return u * s @ v


def places(start, gradients, factor, nesterov=True):
    x, mean = start.copy(), np.zeros(start.shape)
    for g in gradients:
        mean = 0.95 * mean + 0.05 * g
        x = x * (1 - 0.1 * 0.1) - 0.1 * factor * orthogonal(0.05 * g + 0.95 * mean if nesterov else mean)
        yield x


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
@pytest.mark.parametrize(("options", "factor"), [
    ({}, lambda a, b: max(1, a / b) ** 0.5), ({"adjust_lr_fn": "original"}, lambda a, b: max(1, a / b) ** 0.5),
    ({"adjust_lr_fn": "match_rms_adamw"}, lambda a, b: 0.2 * max(a, b) ** 0.5),
    ({"nesterov": False}, lambda a, b: max(1, a / b) ** 0.5)])
def test_steps(shape, options, factor):
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal(shape), rng.standard_normal((4, *shape))
    parameter, alone = torch.tensor(start, requires_grad=True), torch.tensor(start)
    optimizer, buffers = optim.Muon([parameter], lr=0.1, **options), [torch.zeros(shape, dtype=torch.float64)]
    formula = places(start, gradients, factor(*shape), options.get("nesterov", True))
    for g, expected in zip(gradients, formula, strict=True):
        parameter.grad = torch.tensor(g)
        optimizer.step()
        muon([alone], [torch.tensor(g)], buffers, has_complex=False, **{**OPTIONS, **options})
        for result in (parameter.detach(), alone):
            np.testing.assert_allclose(result.numpy(), expected, atol=0.03)
    assert optimizer.state_dict()["state"][0].keys() == {"momentum_buffer"}


@pytest.mark.parametrize(("options", "message"), [
    ({"adjust_lr_fn": "x"}, "the adjustment is 'original', 'match_rms_adamw' or None"),
    ({"lr": -1}, "lr is not negative"),
    ({"momentum": -1}, "momentum is not negative")])
def test_options_out_of_range(options, message):
    with pytest.raises(ArgumentError, match=message):
        optim.Muon([torch.ones(2, 2)], **options)


def test_what_a_step_refuses():
    with pytest.raises(ArgumentError, match="Muon only supports 2D parameters"):
        optim.Muon([torch.ones(3)])
    parameter = torch.ones(2, 2, requires_grad=True)
    for options, message in (({"ns_steps": 100}, "there are less than 100 iterations"),
                             ({"ns_coefficients": (1, 2)}, "there are exactly 3 coefficients")):
        parameter.grad = torch.ones(2, 2)
        with pytest.raises(ArgumentError, match=message):
            optim.Muon([parameter], **options).step()
    parameter = torch.ones(2, 2, dtype=torch.complex64, requires_grad=True)
    parameter.grad = torch.ones(2, 2, dtype=torch.complex64)
    with pytest.raises(DtypeError, match="Muon does not support complex parameters"):
        optim.Muon([parameter]).step()
